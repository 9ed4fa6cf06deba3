"""Section `listing`: joins that output rows, compared with their own counts and with DuckDB in micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadgen.bench.measurement import Measurement, at_least, at_most, seconds
from loadgen.promises.sizes import Context
from loadgen.window import window_of
from spojoin.arrays import I64, Flags
from spojoin.embedded.engine import Engine
from spojoin.embedded.run import engine_for
from spojoin.query.load import parse_query

Row = dict[str, float]
Rows = dict[str, NDArray[np.float64]]

#: A tuple that outputs rows takes at most the time of its count plus this many nanoseconds per row.
ROW_NS = 150
RATIO_BAR, COST_BAR = at_least(2), at_most(1)
#: In smaller windows a tuple takes no longer; with a slide of 1, or a residual condition, at most twice as long.
WINDOW_BAR, SLIDE_BAR, HALF_BAR = at_most(1), at_most(2), at_most(2)
IN_OTHER_WINDOWS = ("a key and a range", "overlap of intervals")
#: A condition that half of all pairs satisfy and no index answers.
HALF = "l.x + r.x > 1"
#: Rows fed at once, and rows of a micro-batch.
CHUNK_ROWS, BATCH_ROWS = 20_000, 4_096
#: Rows per key, and the approximate partners of bands and intervals in one direction.
KEY_ROWS = 10
#: The number of rows whose partners are compared with a scan.
CHECKED = 8
SCHEMA = "{id: long, k: long, name: string, x: double, y: double, s: double, e: double}"


@dataclass(frozen=True, slots=True)
class Listed:
    """A condition as SQL, and a function that tests whether right rows are a left row's partners.

    peer: the same condition in a form for which DuckDB has a range join, if it has none for `on`
    """

    on: str
    holds: Callable[[Row, Rows], Flags]
    peer: str = ""


def conditions(window: int) -> dict[str, Listed]:
    """The conditions by name; bands are so narrow that a window has few partners."""
    near, both = KEY_ROWS / 2 / window, (4 / window) ** 0.5 / 2
    return {
        "a key": Listed("l.k = r.k", lambda own, r: r["k"] == own["k"]),
        "a key and a range": Listed(
            "l.k = r.k AND l.x > r.x", lambda own, r: (r["k"] == own["k"]) & (r["x"] < own["x"])
        ),
        "a text and two ranges": Listed(
            "l.name = r.name AND l.x > r.x AND l.y < r.y",
            lambda own, r: (r["k"] == own["k"]) & (r["x"] < own["x"]) & (r["y"] > own["y"]),
        ),
        "a band": Listed(
            f"ABS(l.x - r.x) < {near:.9f}",
            lambda own, r: np.abs(r["x"] - own["x"]) < round(near, 9),
            _between("x", near),
        ),
        "two bands": Listed(
            f"ABS(l.x - r.x) < {both:.9f} AND ABS(l.y - r.y) < {both:.9f}",
            lambda own, r: (np.abs(r["x"] - own["x"]) < round(both, 9)) & (np.abs(r["y"] - own["y"]) < round(both, 9)),
            f"{_between('x', both)} AND {_between('y', both)}",
        ),
        "overlap of intervals": Listed(
            "l.s < r.e AND l.e > r.s", lambda own, r: (r["e"] > own["s"]) & (r["s"] < own["e"])
        ),
    }


def _between(column: str, width: float) -> str:
    return f"r.{column} > l.{column} - {width:.9f} AND r.{column} < l.{column} + {width:.9f}"


def measure(context: Context) -> Iterator[Measurement]:
    """Rates of rows and counts, in turn with DuckDB, with a full window and in both directions.

    Further, rates of rows in other windows, and with a condition that no index answers.
    """
    sizes = context.sizes
    piece = min(CHUNK_ROWS, sizes.slide_after)
    rows = listing_rows(sizes.window + piece * sizes.repeats, sizes.window)
    for name, listed in conditions(sizes.window).items():
        context.say(name)
        yield from _figures(name, *_timed(context, listed, rows, piece), piece)
    for name in IN_OTHER_WINDOWS:
        context.say(f"{name}, other windows")
        yield from _other_windows(context, name, piece)
    context.say("a residual condition")
    plain, half = _alternating(
        context, [(sizes.window, 10, on) for on in ("l.k = r.k", f"l.k = r.k AND {HALF}")], piece
    )
    yield Measurement("a key: rows, of which a residual condition leaves half / all", half / plain, "times", HALF_BAR)


def _other_windows(context: Context, name: str, piece: int) -> Iterator[Measurement]:
    """A tuple's time in smaller windows and with a slide of 1, relative to the window with a slide of a tenth."""
    window = context.sizes.window
    tenth, hundredth = window // 10, window // 100
    asked = [(window, 10), (tenth, 10), (hundredth, 10), (tenth, tenth)]
    whole, smaller, smallest, moving = _alternating(
        context, [(size, slides, conditions(size)[name].on) for size, slides in asked], piece
    )
    for size, found in ((tenth, smaller), (hundredth, smallest)):
        yield Measurement(f"{name}: a tuple at {size:,} / at {window:,}", found / whole, "times", WINDOW_BAR)
    yield Measurement(f"{name}: a tuple at {tenth:,}, slide of 1 / of a tenth", moving / smaller, "times", SLIDE_BAR)


def _alternating(context: Context, asked: list[tuple[int, int, str]], piece: int) -> list[float]:
    """Median seconds of a piece after the full window; asked: windows, slides per window, and conditions."""
    repeats = context.sizes.repeats
    engines, given = [], []
    for window, slides, on in asked:
        given.append(listing_rows(window + piece * repeats, window))
        engines.append(engine_for(parse_query(listing_text(on, window, "rows", slides)), 1, 2))
        _feed(engines[-1], given[-1].slice(0, window + piece))
    times: list[list[float]] = [[] for _ in asked]
    for at in range(1, repeats):
        for (window, _, _), engine, rows, found in zip(asked, engines, given, times, strict=True):
            found.append(seconds(partial(_feed, engine, rows.slice(window + at * piece, piece))))
    for engine in engines:
        engine.close()
    return list(map(median, times))


def _figures(name: str, times: dict[str, list[float]], given: float, piece: int) -> Iterator[Measurement]:
    """The figures of one condition; given: rows per tuple."""
    us = {way: median(each) / piece * 1e6 for way, each in times.items()}
    yield Measurement(f"{name}: rows", 1e6 / us["rows"], "tuples/s", note=f"{given:.1f} rows a tuple")
    yield Measurement(f"{name}: counts", 1e6 / us["counts"], "tuples/s")
    duck = f"{1e6 / us['DuckDB']:,.0f} tuples/s, micro-batches of {BATCH_ROWS:,}"
    yield Measurement(f"{name}: rows / DuckDB", us["DuckDB"] / us["rows"], "times", RATIO_BAR, duck)
    allowed = us["counts"] + given * ROW_NS / 1_000
    note = f"a row takes {(us['rows'] - us['counts']) * 1_000 / given:.0f} ns more than its count"
    yield Measurement(
        f"{name}: a tuple / its count and {ROW_NS} ns a row", us["rows"] / allowed, "times", COST_BAR, note
    )


def _timed(context: Context, listed: Listed, rows: pa.Table, piece: int) -> tuple[dict[str, list[float]], float]:
    """Seconds of each piece after the full window by each way, and the rows per tuple."""
    window, repeats = context.sizes.window, context.sizes.repeats
    ways = {way: engine_for(parse_query(listing_text(listed.on, window, way)), 1, 2) for way in ("rows", "counts")}
    for engine in ways.values():
        _feed(engine, rows.slice(0, window))
    micro = DuckDbBatches(listed.peer or listed.on, rows.slice(0, window))
    _check(_feed(ways["rows"], rows.slice(window, piece)), rows, listed, window, window // 10)
    _check(micro.ask(rows.slice(window, BATCH_ROWS)), rows, listed, window, 0)
    given, times = 0, {way: list[float]() for way in (*ways, "DuckDB")}
    for at in range(1, repeats):
        some = rows.slice(window + at * piece, piece)
        for way, engine in ways.items():
            times[way].append(seconds(partial(_feed, engine, some)))
        asked = some.slice(0, BATCH_ROWS)
        times["DuckDB"].append(seconds(partial(micro.ask, asked)) * piece / len(asked))
        given += micro.given
    for engine in ways.values():
        engine.close()
    return times, given / (repeats - 1) / min(piece, BATCH_ROWS)


class DuckDbBatches:
    """DuckDB with the window in a table; `given` is the last micro-batch's number of rows."""

    def __init__(self, on: str, window: pa.Table) -> None:
        self._db = duckdb.connect()
        self._db.register("given", window)
        self._db.execute("CREATE TABLE stored AS SELECT * FROM given")
        listed = "SELECT l.id, r.id AS partner, r.x, r.y FROM"
        self._sql = (
            f"{listed} batch AS l JOIN stored AS r ON {on} UNION ALL {listed} stored AS l JOIN batch AS r ON {on}"
        )
        self.given = 0

    def ask(self, batch: pa.Table) -> pa.Table:
        """Join a micro-batch in both directions."""
        self._db.register("batch", batch)
        found = self._db.sql(self._sql).to_arrow_table()
        self.given = found.num_rows
        return found


def listing_rows(count: int, window: int) -> pa.Table:
    """`count` rows with all columns; a key has KEY_ROWS rows in a window."""
    random = np.random.default_rng(17)
    k = random.integers(0, window // KEY_ROWS, count)
    s = random.random(count) * window
    names = pa.array([f"name{number}" for number in range(window // KEY_ROWS)]).take(pa.array(k))
    columns = {"x": random.random(count), "y": random.random(count), "s": s, "e": s + random.exponential(5, count)}
    return pa.table({"id": np.arange(count), "k": k, "name": names, **columns})


def listing_text(on: str, window: int, way: str, slides: int = 10, name: str = "bench") -> str:
    """The query file of a condition; way: `rows` with three columns of the partner, or `counts`."""
    listed = "l.id, r.id AS partner, r.x, r.y" if way == "rows" else "*"
    return f"""\
name: {name}
streams:
  rows:
    schema: {SCHEMA}
sql: |
  SELECT {listed} FROM rows AS l JOIN rows AS r
  ON {on}
  WINDOW AS (SLIDE INTERVAL '{window // slides}' ON '{window}')
order: arrival
{"output: count" if way == "counts" else ""}
"""


def _feed(engine: Engine, table: pa.Table) -> pa.Table:
    found: list[pa.RecordBatch] = []
    for batch in table.to_batches(CHUNK_ROWS):
        found += engine.feed(0, batch)
    found += engine.flush()
    return pa.Table.from_batches(found)


def _check(found: pa.Table, rows: pa.Table, listed: Listed, window: int, slide: int) -> None:
    """Compare the partners of some rows after the first window with a scan. Raises AssertionError.

    slide: of a moving window; 0 if each row searches the first `window` rows
    """
    columns = {name: rows[name].to_numpy() for name in ("k", "x", "y", "s", "e")}
    for probe in np.linspace(window, window + BATCH_ROWS - 1, CHECKED, dtype=np.int64).tolist():
        own: Row = {name: column[probe] for name, column in columns.items()}
        inside = window_of(probe, window, slide) if slide else window_of(window, window, 1)
        others: Rows = {name: column[inside] for name, column in columns.items()}
        expected: I64 = inside.start + np.flatnonzero(listed.holds(own, others))
        of_probe = found.filter(pc.equal(found["id"], probe))["partner"].to_numpy()
        if not np.array_equal(np.sort(of_probe[of_probe < probe]), expected):
            raise AssertionError(f"{listed.on}: row {probe} has {len(of_probe)} partners, a scan finds {len(expected)}")
