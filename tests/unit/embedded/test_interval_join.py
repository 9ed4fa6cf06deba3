"""Interval joins against a nested loop over their definition: ties, late rows, either arrival order, every method."""

from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.embedded.engine import Engine
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from tests.support.nested_loop import pairs_of_rows

STREAMS = ("a", "b")
METHODS = ("spo", "scan", "hash", "bplus_sets", "css_bits", "chain_ib", "pim_tree", "spo_paper", "sta")


class Row(NamedTuple):
    """A row as it is fed: `row` counts its stream's rows from 0, times are milliseconds."""

    stream: int
    row: int
    key: int
    ms: int


class Case(NamedTuple):
    """Rows in feeding order, the interval's ends and the lateness in milliseconds."""

    is_self: bool
    fed: list[tuple[int, int, int]]
    lower: int
    upper: int
    lateness: int
    frame: int
    batch: int

    def rows(self) -> list[Row]:
        """The rows with their numbers."""
        counts = [0, 0]
        rows = []
        for stream, key, ms in self.fed:
            at = 0 if self.is_self else stream
            rows.append(Row(at, counts[at], key, ms))
            counts[at] += 1
        return rows


@st.composite
def intervals(draw):
    """Two ends anywhere, at zero, or equally far."""
    lower, upper = sorted((draw(st.integers(-12, 12)), draw(st.integers(-12, 12))))
    far = max(abs(lower), abs(upper))
    return draw(st.sampled_from(((lower, upper), (-far, far), (0, far), (-far, 0), (0, 0), (-far - 1, far))))


@st.composite
def cases(draw):
    steps = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(-4, 6)), max_size=60))
    fed, now = [], draw(st.sampled_from((-20, 0, 1_700_000_000_000)))
    for stream, key, step in steps:
        now += max(step, 0)
        fed.append((stream, key, now + min(step, 0) * 2))
    lateness, frame, batch = (draw(st.sampled_from(sizes)) for sizes in ((0, 2, 8), (1, 3, 8), (2, 5, 16)))
    return Case(draw(st.booleans()), fed, *draw(intervals()), lateness, frame, batch)


def moved(ms: int) -> str:
    return f"l.at {'-' if ms < 0 else '+'} INTERVAL '{abs(ms)} ms'"


def query_text(case: Case, method: str, layout: str = "batch") -> str:
    names = STREAMS[:1] if case.is_self else STREAMS
    return "\n".join(
        [
            "name: near",
            "streams:",
            *(f"  {name}: {{schema: {{k: long, at: timestamp}}, time: at, key: row}}" for name in names),
            "sql: |",
            f"  SELECT * FROM a AS l JOIN {names[-1]} AS r",
            f"  ON l.k = r.k AND r.at BETWEEN {moved(case.lower)} AND {moved(case.upper)}",
            "output: pairs",
            f"lateness: {case.lateness} ms",
            f"method: {method}",
            f"layout: {layout}",
        ]
    )


def by_definition(case: Case) -> list[tuple[int, int]]:
    """(left row, right row) of all pairs that meet the condition, in the order in which the later row finds them."""
    high: dict[int, int] = {}
    kept = []
    for row in case.rows():
        seen = high.get(row.stream, row.ms)
        if row.ms >= seen - case.lateness:
            kept.append(row)
        high[row.stream] = max(seen, row.ms)
    kept.sort(key=lambda row: (row.ms, row.stream, row.row))
    found = pairs_of_rows(kept, partial(is_pair, case), len(kept) or 1)
    return [(kept[left].row, kept[right].row) for _, left, right in found]


def is_pair(case: Case, left: Row, right: Row) -> bool:
    if left.stream != 0 or right.stream != (0 if case.is_self else 1):
        return False
    return left.key == right.key and left.ms + case.lower <= right.ms <= left.ms + case.upper


def joined(case: Case, method: str = "spo", layout: str = "batch", feed: int = 3) -> list[tuple[int, int]]:
    """The engine's output, fed a few rows at a time."""
    engine = Engine(
        parse_query(query_text(case, method, layout)),
        RouterConfig("test", 3, frame_tuples=case.frame, batch_tuples=case.batch, credits_frames=UNLIMITED),
    )
    results = []
    rows = case.rows()
    for begin in range(0, len(rows), feed):
        for stream in (0, 1):
            own = [row for row in rows[begin : begin + feed] if row.stream == stream]
            if own:
                results += engine.feed(stream, batch_of(own))
    results += engine.flush()
    return [(row["left_key"], row["right_key"]) for batch in results for row in batch.to_pylist()]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "k": pa.array([row.key for row in rows], pa.int64()),
            "at": pa.array([row.ms for row in rows], pa.timestamp("ms")),
            "row": pa.array([row.row for row in rows], pa.int64()),
        }
    )


@settings(max_examples=60, deadline=None)
@given(cases())
def test_an_interval_join_equals_its_definition(case):
    assert joined(case) == by_definition(case)


@pytest.mark.parametrize(
    "layout",
    [
        "kp",
        "dp",
        "{name: hp, calibration: 8, theta: 1}",
        "{name: hp, calibration: 8, theta: 1, balance: tuples, max_splitting: 2}",
    ],
)
@settings(max_examples=20, deadline=None)
@given(case=cases())
def test_every_pattern_joins_intervals(layout, case):
    assert joined(case, layout=layout) == by_definition(case)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15, deadline=None)
@given(case=cases())
def test_every_method_joins_intervals(method, case):
    assert joined(case, method) == by_definition(case)


LEFT, RIGHT = [(0, 7, 100)], [(1, 7, 89), (1, 7, 90), (1, 7, 100), (1, 7, 120), (1, 7, 121)]


@pytest.mark.parametrize(
    "fed", [LEFT + RIGHT, RIGHT + LEFT, RIGHT[:2] + LEFT + RIGHT[2:], RIGHT[:3] + LEFT + RIGHT[3:]]
)
@pytest.mark.parametrize(
    ("lower", "upper", "partners"),
    [(-10, 20, [1, 2, 3]), (-11, 21, [0, 1, 2, 3, 4]), (0, 0, [2]), (1, 20, [3]), (-10, -1, [1]), (2, 3, [])],
)
def test_both_ends_are_included_whichever_row_comes_first(fed, lower, upper, partners):
    case = Case(False, fed, lower, upper, 100, 1, 2)
    assert joined(case) == by_definition(case)
    assert sorted(joined(case)) == [(0, row) for row in partners]


def held_at_most(rows: int, lateness: int, method: str, layout: str, workers: int) -> int:
    """The most tuples held while two streams send a row per millisecond: left rows live 40 ms, right ones 10 ms."""
    query = parse_query(query_text(Case(False, [], -10, 40, lateness, 1, 1), method, layout))
    engine = Engine(query, RouterConfig("test", workers, frame_tuples=4, batch_tuples=8, credits_frames=UNLIMITED))
    most = 0
    for ms in range(0, rows, 5):
        for stream in (0, 1):
            list(engine.feed(stream, batch_of([Row(stream, at, at % 3, at) for at in range(ms, ms + 5)])))
        most = max(most, engine.state_tuples())
    return most


@pytest.mark.parametrize(
    ("method", "layout", "workers"),
    [
        ("spo", "batch", 1),
        ("scan", "batch", 1),
        ("hash", "kp", 3),
        ("scan", "kp", 3),
        ("hash", "dp", 3),
        ("hash", "{name: hp, calibration: 8, theta: 1}", 3),
    ],
)
def test_what_is_held_follows_interval_and_lateness_and_not_the_stream(method, layout, workers):
    short, long, late = (held_at_most(*sizes, method, layout, workers) for sizes in ((200, 5), (400, 5), (200, 65)))
    assert long == short
    assert 0 <= short + 2 * 60 - late <= 2 * 8, "60 ms more of each stream, but for a batch"
    # Router and search both keep the windows, and rows wait out the lateness; batches and nodes expire as a whole.
    assert short <= 2 * (2 * (40 + 10 + 5) + 8 * 8)
