"""An engine keeps accounts of its layout where a report asks for them; its results don't depend on it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

QUERY = """\
name: accounts
streams:
  rows: {schema: {a: long, b: long}}
sql: |
  SELECT * FROM rows AS l JOIN rows AS r ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '1' ON '500')
order: arrival
output: count
"""


def run(*, accounts: bool) -> tuple[Engine, pa.Table]:
    config = RouterConfig("test", frame_tuples=16, batch_tuples=64, credits_frames=UNLIMITED)
    engine = Engine(parse_query(QUERY), config, accounts=accounts)
    values = np.random.default_rng(1).integers(0, 50, (2, 2_000))
    rows = pa.record_batch({"a": values[0], "b": values[1]})
    return engine, pa.Table.from_batches([*engine.feed(0, rows), *engine.flush()])


def test_results_are_the_same_without_accounts() -> None:
    (kept, counted), (without, same) = run(accounts=True), run(accounts=False)
    assert same.equals(counted)
    assert without.tuples == kept.tuples == 2_000
    assert without.counters()["comparisons"] == kept.counters()["comparisons"]


def test_without_accounts_there_are_no_measures() -> None:
    engine, _ = run(accounts=False)
    with pytest.raises(ValueError, match="keeps no accounts"):
        engine.layout_measures()


def test_accounts_measure_the_layout() -> None:
    measures = run(accounts=True)[0].layout_measures()
    assert measures["completeness"] == 1.0
    assert measures["workers"] == 1
