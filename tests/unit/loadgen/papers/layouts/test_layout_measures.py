"""The embedded engine with every layout: the rows of the product's own layout, and measures that add up."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from loadgen.papers.layouts.accounts import Accounts
from loadgen.papers.layouts.catalog import LAYOUTS
from loadgen.papers.layouts.costs import TUPLE_BYTES
from spojoin.embedded.engine import Engine
from spojoin.evaluation.choices import chosen_layout, method
from spojoin.model import DEFAULT_LAYOUT
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

WORKERS, TUPLES, WINDOW = 4, 3_000, 400
QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b "
    f"WINDOW AS (SLIDE INTERVAL '1' ON '{WINDOW}')\noutput: pairs\n"
)
#: Pairs of a tuple and one in its window: all earlier ones, at most WINDOW.
PAIRS = sum(min(seq, WINDOW) for seq in range(TUPLES))
BYTES = TUPLE_BYTES + 2 * 8
OTHERS = sorted(name for name, about in LAYOUTS.items() if name != DEFAULT_LAYOUT and not about.needs_key)


def ran(name, query=QUERY):
    config = RouterConfig("r", WORKERS, frame_tuples=256, batch_tuples=256, credits_frames=UNLIMITED)
    engine = Engine(chosen_layout(query, name, WORKERS, ()), config, observe=Accounts)
    rng = np.random.default_rng(5)
    rows = pa.record_batch({"a": np.minimum(rng.zipf(1.5, TUPLES), 40), "b": rng.integers(0, 40, TUPLES)})
    batches = [*engine.feed(0, rows), *engine.flush()]
    return engine, pa.Table.from_batches(batches)


@pytest.fixture(scope="module")
def own():
    return ran(DEFAULT_LAYOUT)


@pytest.mark.parametrize("name", OTHERS)
def test_every_layout_gives_the_rows_of_the_products_own_layout(own, name):
    assert ran(name)[1].equals(own[1])


@pytest.mark.parametrize("name", OTHERS)
def test_measures_add_up(name):
    reported = ran(name)[0].layout_measures()
    each = reported["per_worker"]
    assert (reported["name"], reported["workers"], len(each)) == (name, WORKERS, WORKERS)
    assert reported["completeness"] == 1.0
    assert reported["comparisons"] == PAIRS
    assert reported["comparisons"] == sum(load["comparisons"] for load in each)
    assert reported["comparisons_std"] == pytest.approx(np.std([load["comparisons"] for load in each]))
    assert reported["bytes"] == BYTES * reported["messages"]
    assert sum(load["stored"] for load in each) == TUPLES * (WORKERS if name == "bchj" else 1)
    assert sum(load["asked"] for load in each) == TUPLES * (1 if name == "bchj" else WORKERS)
    # A chain passes on both copies of a self join's tuple; with all others a tuple reaches every worker once.
    assert reported["messages"] == TUPLES * WORKERS * (2 if name == "handshake" else 1)
    assert reported["log_messages"] == (0 if name == "handshake" else TUPLES * WORKERS)
    assert reported["frame_ms"]["p50"] <= reported["frame_ms"]["p99"] <= reported["frame_ms"]["max"]


def test_the_products_own_measures_add_up(own):
    reported = own[0].layout_measures()
    each = reported["per_worker"]
    assert (reported["name"], reported["workers"], len(each)) == (DEFAULT_LAYOUT, WORKERS, WORKERS)
    assert reported["completeness"] == 1.0
    assert reported["comparisons"] + reported["mutable"]["comparisons"] == PAIRS
    assert reported["comparisons"] == sum(load["comparisons"] for load in each)
    assert all(load["examined"] >= load["comparisons"] for load in each), "indexes hold the windows, and some more"
    assert [load["asked"] for load in each] == [TUPLES] * WORKERS
    sealed = reported["topics"]["batches"]["messages"]
    assert TUPLES - 256 <= sealed <= TUPLES
    assert sum(load["stored"] for load in each) == sealed
    assert reported["messages"] == TUPLES * WORKERS + sealed
    assert reported["log_messages"] == (TUPLES + sealed) * WORKERS
    assert reported["memory_bytes"] == sum(load["bytes_max"] for load in each) > 0


def test_a_method_is_one_worker(own):
    engine, rows = ran(DEFAULT_LAYOUT, replace(QUERY, method=method("scan", {})))
    reported = engine.layout_measures()
    assert rows.equals(own[1])
    assert (reported["workers"], reported["completeness"]) == (1, 1.0)
    assert "mutable" not in reported
    (load,) = reported["per_worker"]
    assert load["comparisons"] == PAIRS
    assert load["examined"] == engine.counters()["comparisons"]
    assert (load["stored"], load["asked"], load["messages"], load["log_messages"]) == (TUPLES,) * 4
    assert load["bytes"] == load["log_bytes"] == BYTES * TUPLES
    assert load["bytes_max"] >= engine.index_bytes > 0
