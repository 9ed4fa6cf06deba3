"""The embedded engine by every layout: the rows of the product's own, and measures that add up."""

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import UNLIMITED, Engine
from spojoin.layouts.load import TUPLE_BYTES, imbalance
from spojoin.query.layouts import LAYOUTS, chosen_layout
from spojoin.query.load import parse_query
from spojoin.query.model import DEFAULT_LAYOUT
from spojoin.router.config import RouterConfig

WORKERS, TUPLES, WINDOW = 4, 3_000, 400
QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b "
    f"WINDOW AS (SLIDE INTERVAL '1' ON '{WINDOW}')\noutput: pairs\n"
)
#: Pairs of a tuple and one of its window: all earlier ones, at most WINDOW.
PAIRS = sum(min(seq, WINDOW) for seq in range(TUPLES))
BYTES = TUPLE_BYTES + 2 * 8
OTHERS = sorted(name for name, about in LAYOUTS.items() if name != DEFAULT_LAYOUT and not about.needs_key)


def ran(name, query=QUERY):
    config = RouterConfig("r", WORKERS, frame_tuples=256, batch_tuples=256, credits_frames=UNLIMITED)
    engine = Engine(chosen_layout(query, name, WORKERS, ()), config)
    rng = np.random.default_rng(5)
    rows = pa.record_batch({"a": np.minimum(rng.zipf(1.5, TUPLES), 40), "b": rng.integers(0, 40, TUPLES)})
    batches = [*engine.feed(0, rows), *engine.flush()]
    return engine, pa.Table.from_batches(batches)


@pytest.fixture(scope="module")
def own():
    return ran(DEFAULT_LAYOUT)


@pytest.mark.parametrize("name", OTHERS)
def test_every_layout_gives_the_rows_of_the_products_own(own, name):
    assert ran(name)[1].equals(own[1])


@pytest.mark.parametrize("name", OTHERS)
def test_measures_add_up(name):
    told = ran(name)[0].layout_measures()
    each = told["per_worker"]
    assert (told["name"], told["workers"], len(each)) == (name, WORKERS, WORKERS)
    assert told["completeness"] == 1.0
    assert told["comparisons"] == PAIRS
    assert told["comparisons"] == sum(load["comparisons"] for load in each)
    assert told["comparisons_std"] == pytest.approx(np.std([load["comparisons"] for load in each]))
    assert told["bytes"] == BYTES * told["messages"]
    assert sum(load["stored"] for load in each) == TUPLES * (WORKERS if name == "bchj" else 1)
    assert sum(load["asked"] for load in each) == TUPLES * (1 if name == "bchj" else WORKERS)
    # A chain passes both copies of a tuple of a self join; by all others a tuple comes to every worker once.
    assert told["messages"] == TUPLES * WORKERS * (2 if name == "handshake" else 1)
    assert told["log_messages"] == (0 if name == "handshake" else TUPLES * WORKERS)
    assert told["frame_ms"]["p50"] <= told["frame_ms"]["p99"] <= told["frame_ms"]["max"]


def test_balance_tells_layouts_apart():
    turn, keyed = ran("scale_join")[0].layout_measures(), ran("bchj")[0].layout_measures()
    assert turn["comparisons_imbalance"] < 1.01
    assert keyed["comparisons_imbalance"] > 1.2, "skewed keys load one worker"
    assert keyed["memory_bytes"] > 3 * turn["memory_bytes"], "every worker stores every tuple"


def test_sta_learns_which_keys_are_hot():
    each = ran("sta")[0].layout_measures()["per_worker"]
    hot, cold = sum(load["stored"] for load in each[:2]), sum(load["stored"] for load in each[2:])
    assert hot > cold, "two workers store the keys that most tuples have"


def test_the_products_own_tells_comparisons():
    engine, _ = ran(DEFAULT_LAYOUT)
    told = engine.layout_measures()
    assert told["completeness"] == 1.0
    assert told["comparisons"] > 0
    assert "messages" not in told


def test_nothing_is_balanced():
    assert imbalance([0, 0]) == 1.0
    assert imbalance([3, 1]) == 1.5
