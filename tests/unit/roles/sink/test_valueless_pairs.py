"""A pair for which an expression of both sides has no value is listed with NULL, and counted."""

import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.query.load import parse_query
from spojoin.telemetry.metrics import MachineGauges, Metrics

QUERY = """
name: valueless
streams:
  s: {{schema: {{a: long, t: string}}}}
sql: SELECT {select} FROM s AS l JOIN s AS r ON l.a < r.a {residual} WINDOW AS (SLIDE INTERVAL '1' ON '10')
order: arrival
"""
ROWS = pa.record_batch({"a": [1, 2, 3], "t": ["1", "2", "x"]})


@pytest.mark.parametrize(
    ("select", "residual", "rows"),
    [
        ("CAST(l.t || r.t AS INTEGER) AS both", "", [{"both": 12}, {"both": None}, {"both": None}]),
        ("r.a AS a", "AND CAST(l.t || r.t AS INTEGER) > 0", [{"a": 2}]),
    ],
)
def test_it_is_counted(select: str, residual: str, rows: list[dict[str, object]]) -> None:
    engine = Engine(parse_query(QUERY.format(select=select, residual=residual)))
    found = [*engine.feed(0, ROWS), *engine.flush()]
    assert [row for batch in found for row in batch.to_pylist()] == rows
    metrics = Metrics()
    MachineGauges(metrics).read(engine._sink)
    assert metrics.registry.get_sample_value("spojoin_pairs_without_value_total") == 2
