"""What EXPLAIN says of a row of window is what the engine's buffers take, within 1.3 times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spojoin.embedded.engine import Engine
from spojoin.explain.footprint import TEXT_MEAN_BYTES, SetupSizes, expected_state, held_bytes, open_bytes, windows_held
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig

WINDOW = 40_000
WITHIN = 1.3
SELECTS = {
    "numbers": ("SELECT l.p, l.q, l.n, r.p AS p2, r.q AS q2, r.n AS n2", "rows"),
    "texts": ("SELECT l.s, r.n", "rows"),
    "numbers of rows": ("SELECT l.seq, r.seq AS other", "rows"),
    "keys": ("SELECT *", "pairs"),
    "counts": ("SELECT *", "count"),
}


#: Equalities and what may stand beside them.
KEYED = {
    "a key": "l.k = r.k",
    "a key and a range": "l.k = r.k AND l.a > r.a",
    "a key and two ranges": "l.k = r.k AND l.a > r.a AND l.b < r.b",
    "two keys and a band": "l.k = r.k AND l.g = r.g AND ABS(l.a - r.a) < 5",
}


def filled(
    select: str,
    output: str,
    groups: str = "",
    emit: str = "",
    kind: str = "JOIN",
    condition: str = "l.a > r.a AND l.b < r.b",
) -> Engine:
    query = parse_query(
        f"""
name: x
streams: {{t: {{schema: {{a: double, b: double, k: long, g: long, p: double, q: long, n: int, s: string}}}}}}
sql: {select} FROM t AS l {kind} t AS r ON {condition} {groups}
  WINDOW AS (SLIDE INTERVAL '{WINDOW // 10}' ON '{WINDOW}') {emit}
order: arrival
output: {output}
"""
    )
    sizes = RouterConfig(router_id="x", frame_tuples=512, batch_tuples=4_096, credits_frames=UNLIMITED)
    engine = Engine(query, sizes)
    numbers = np.arange(3 * WINDOW)
    table = pa.table(
        {
            "a": numbers * 1.0,
            "b": numbers + np.random.default_rng(1).random(len(numbers)) * 3,
            "k": numbers % 20_011,
            "g": numbers % 7,
            "p": numbers * 0.5,
            "q": numbers,
            "n": numbers.astype(np.int32),
            "s": [str(number).zfill(TEXT_MEAN_BYTES) for number in numbers.tolist()],
        }
    )
    for batch in table.to_batches(4_096):
        for _ in engine.feed(0, batch):
            pass
    return engine


@pytest.mark.parametrize(("select", "output"), SELECTS.values(), ids=SELECTS)
def test_buffers_take_what_explain_says(select: str, output: str) -> None:
    engine = filled(select, output)
    query = engine.query
    state = {each.service: each for each in expected_state(query, SetupSizes(batch_tuples=4_096, workers=1))}
    said = held_bytes(query, query.streams[0]) * WINDOW
    assert said / WITHIN <= engine.payload_bytes <= said * WITHIN or engine.payload_bytes < 1 << 16 > said
    index = state["PO-Join worker"].bytes_each
    assert index / WITHIN <= engine.index_bytes <= index * WITHIN
    assert state["sink"].bytes_each >= said


@pytest.mark.parametrize("select", ["SELECT l.p, l.q, r.n", "SELECT l.seq AS left, COUNT(*) AS n"])
def test_on_close_two_windows_of_right_rows_and_one_of_open_left_rows(select: str) -> None:
    engine = filled(select, "rows", "GROUP BY l" if "COUNT" in select else "", "EMIT ON CLOSE")
    assert [windows_held(engine.query, number) for number in (0, 1)] == [1, 2]
    assert "left rows that are open" in check_on_close(engine)


def test_a_full_join_holds_two_windows_of_either_side() -> None:
    engine = filled("SELECT l.p, l.q, r.n", "rows", emit="EMIT ON CLOSE", kind="FULL JOIN")
    assert [windows_held(engine.query, number) for number in (0, 1)] == [2, 2]
    holds = check_on_close(engine)
    assert "rows that are open" in holds
    assert "left rows" not in holds


def check_on_close(engine: Engine) -> str:
    """Check the sizes of payload, index and open rows; returns what the router is said to hold."""
    query = engine.query
    state = {each.service: each for each in expected_state(query, SetupSizes(batch_tuples=4_096, workers=1))}
    said = sum(windows_held(query, n) * held_bytes(query, s) for n, s in enumerate(query.streams)) * WINDOW
    assert said / WITHIN <= engine.payload_bytes <= said * WITHIN or engine.payload_bytes < 1 << 16 > said
    index = state["PO-Join worker"].bytes_each
    assert index / WITHIN <= engine.index_bytes <= index * WITHIN
    assert engine._router._frames.asking is not None
    waiting = sum(side.open._rows.nbytes for side in engine._router._frames.asking.sides)
    assert waiting / WITHIN <= open_bytes(query) * WINDOW <= waiting * WITHIN
    return state["router"].holds


@pytest.mark.parametrize("select", ["SUM(r.n)", "MAX(r.p)", "MAX(r.p) AS m, MIN(r.q) AS i, SUM(r.n)"])
def test_sums_and_choices_take_what_explain_says(select: str) -> None:
    engine = filled(f"SELECT l.seq AS n, {select} AS s", "rows", "GROUP BY l", "EMIT ON ARRIVAL")
    state = {each.service: each for each in expected_state(engine.query, SetupSizes(batch_tuples=4_096, workers=1))}
    index = state["PO-Join worker"].bytes_each
    assert index / WITHIN <= engine.index_bytes <= index * WITHIN


@pytest.mark.parametrize("output", ["rows", "count"])
@pytest.mark.parametrize("condition", KEYED.values(), ids=KEYED)
def test_searches_within_equal_keys_take_what_explain_says(condition: str, output: str) -> None:
    engine = filled("SELECT l.seq, r.seq AS other" if output == "rows" else "SELECT *", output, condition=condition)
    state = {each.service: each for each in expected_state(engine.query, SetupSizes(batch_tuples=4_096, workers=1))}
    index = state["PO-Join worker"].bytes_each
    assert index / WITHIN <= engine.index_bytes <= index * WITHIN, (index / WINDOW, engine.index_bytes / WINDOW)
