"""Joins with tables that DuckDB makes: the engine's rows and figures, and the engine where partners are many."""

import json
import os
import signal
import threading
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import spojoin
from spojoin.cli.main import app
from spojoin.embedded import run as running
from spojoin.embedded import table_join, table_pairs
from spojoin.embedded.duckdb_rows import record_batches, spilling_connection
from spojoin.embedded.engine import Engine
from spojoin.local.supervise import ending_on_signals
from tests.support.long import first_of

CONDITIONS = (
    "l.k = r.k",
    "l.k = r.k AND l.x > r.x",
    "l.s = r.s AND l.d < r.d",
    "l.s <> r.s AND l.x <= r.x AND l.d >= r.d",
    "l.x < r.y AND l.y > r.x",
    "l.x > r.d AND l.d <= r.x",
    "l.d = r.d AND l.k <> r.k",
    "l.m = r.m AND l.x + 1 > r.y",
    "l.t >= r.t AND l.t < r.t + INTERVAL '3 days' AND l.b = r.b",
    "l.m * 2 >= r.x AND l.m < r.d",
)
FILTERS = ("", "WHERE l.x > 0", "WHERE r.s <> 'b' AND l.k IS NOT NULL")
RESIDUALS = ("", " AND (l.x > 1 OR r.y < 2)")


def drawn(rng, count):
    """Columns of each type that codes stand for, of few values, some NULL."""

    def column(values, kind):
        return pa.array([rng.choice((None, *values)) for _ in range(count)], kind)

    return pa.table(
        {
            "n": pa.array(range(count), pa.int64()),
            "k": column((1, 2, 3, 4), pa.int32()),
            "x": column((-1, 0, 1, 2, 3), pa.int64()),
            "y": column((0, 1, 2, 2**62), pa.int64()),
            "d": column((-0.0, 0.0, 1.0, 1.5, float("nan"), float("inf")), pa.float64()),
            "m": column((Decimal("0.50"), Decimal("1.00"), Decimal("2.25")), pa.decimal128(10, 2)),
            "s": column(("", "a", "b", "\u00e4"), pa.string()),
            "b": column((True, False), pa.bool_()),
            "t": column([date(2024, 1, 1) + timedelta(days) for days in range(6)], pa.date32()),
        }
    )


def read(sql, **tables):
    """All rows as text, which tells NaN and -0.0 apart, and what was refused."""
    found = spojoin.sql(sql, **tables)
    return list(map(repr, found.to_arrow().to_pylist())), dict(found.rejected)


@pytest.fixture
def engines(monkeypatch):
    """The engines that are opened."""
    opened = []
    init = Engine.__init__

    def noted(self, *given, **named):
        opened.append(self)
        init(self, *given, **named)

    monkeypatch.setattr(Engine, "__init__", noted)
    return opened


def by_engine(monkeypatch, *given, **named):
    with monkeypatch.context() as only:
        only.setattr(running, "is_joined_by_duckdb", lambda _: False)
        return read(*given, **named)


@pytest.mark.parametrize("seed", first_of(15, range(40)))
@pytest.mark.parametrize("kind", ["", "LEFT "])
def test_rows_and_their_order_are_the_engines(kind, seed, engines, monkeypatch):
    rng = Random(f"{kind}{seed}")
    monkeypatch.setattr(table_join, "PIECE_ROWS", rng.choice((1, 7, 1_000)))
    left, right = drawn(rng, rng.choice((0, 1, 30, 90))), drawn(rng, rng.choice((0, 1, 12, 60)))
    on = rng.choice(CONDITIONS) + (rng.choice(RESIDUALS) if not kind else "")
    where = rng.choice(FILTERS[: 2 if kind else 3])
    pieces = [left.slice(at, 13) for at in range(0, max(left.num_rows, 1), 13)]
    sql = f"SELECT l.n, r.n AS m, l.*, r.s, r.d + 1 AS e FROM a AS l {kind}JOIN TABLE(b) AS r ON {on} {where}"
    found = read(sql, a=pa.concat_tables(pieces), b=right)
    assert not engines
    assert found == by_engine(monkeypatch, sql, a=left, b=right), sql
    assert engines


@pytest.mark.parametrize(
    "many", [("PARTNERS_MAX", "l.x < r.y AND l.y > r.x"), ("COMPARED_MAX", "l.k = r.k AND l.y > r.x")]
)
@pytest.mark.parametrize("from_row", [0, 400])
def test_the_engine_goes_on_where_partners_are_many(many, from_row, engines, monkeypatch):
    """From the piece on in which they are, and with every row of it."""
    name, on = many
    for constant, value in {"SMALL": 0, name: 3}.items():
        monkeypatch.setattr(table_pairs, constant, value)
    monkeypatch.setattr(table_join, "PIECE_ROWS", 200)
    rng = Random(5)
    left, right = drawn(rng, 900).select(["n", "k", "x", "y"]), drawn(rng, 80)
    few = pa.table({"n": range(from_row), "k": [-1] * from_row, "x": [9] * from_row, "y": [-9] * from_row})
    left = pa.concat_tables([few.cast(left.schema), left])
    sql = f"SELECT l.n, r.n AS m FROM a AS l JOIN TABLE(b) AS r ON {on}"
    found = read(sql, a=left, b=right)
    assert len(engines) == 1
    assert engines[0].tuples == 900 + right.num_rows
    assert found == by_engine(monkeypatch, sql, a=left, b=right)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l.n, r.n AS m FROM a AS l JOIN TABLE(b) AS r ON l.x > r.x",
        "SELECT l.seq, r.n AS m FROM a AS l JOIN TABLE(b) AS r ON l.k = r.k",
        "SELECT l.n, COUNT(*) AS c FROM a AS l LEFT JOIN TABLE(b) AS r ON l.k = r.k GROUP BY l.seq, l.n",
        "SELECT l.n FROM a AS l SEMI JOIN TABLE(b) AS r ON l.k = r.k",
        "SELECT l.n, r.n AS m FROM a AS l ASOF JOIN TABLE(b) AS r ON l.k = r.k AND l.t >= r.t",
        "SELECT l.n, r.n AS m FROM a AS l JOIN TABLE(b) AS r ON ABS(l.x - r.x) < 2",
    ],
)
def test_what_asks_for_more_than_pairs_of_plain_comparisons_is_the_engines(sql, engines):
    rng = Random(1)
    read(sql, a=drawn(rng, 20), b=drawn(rng, 20))
    assert len(engines) == 1


def test_refused_rows_and_figures_are_the_engines(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("n,x\n1,5\n2,no\n3,7\n4\n5,6\n")
    (tmp_path / "b.csv").write_text("low,high,name\n0,6,low\n?,9,none\n6,9,high\n")
    sql = (
        f"SELECT l.n, r.name FROM '{tmp_path}/a.csv' AS l JOIN TABLE('{tmp_path}/b.csv') AS r "
        "ON l.x >= r.low AND l.x < r.high"
    )
    options = [option for name in ("a.csv=x", "b.csv=low") for option in ("--schema", f"{tmp_path}/{name}=long")]

    def outcome(name):
        paths = {what: tmp_path / f"{name}.{what}.json" for what in ("output", "rejects", "report")}
        given = [part for what, path in paths.items() for part in (f"--{what}", str(path))]
        done = CliRunner().invoke(app, ["sql", sql, *options, *given])
        report = json.loads(paths["report"].read_bytes())
        same = ("tuples", "matches", "rows_written", "rejected", "rejected_by_reason", "probes_cut_at_limit", "query")
        return (
            done.exit_code,
            paths["output"].read_text(),
            paths["rejects"].read_text(),
            {key: report[key] for key in same},
            sorted(report),
        )

    found = outcome("duckdb")
    monkeypatch.setattr(running, "is_joined_by_duckdb", lambda _: False)
    assert found == outcome("engine")
    assert found[0] == 0
    assert found[3]["rejected_by_reason"] == {"malformed": 1, "type": 2}


def test_a_signal_ends_a_query_of_duckdb_as_it_ends_all_else():
    """DuckDB raises an error of its own in its place."""
    endless = "SELECT a.range + b.range AS x FROM range(100_000_000) AS a, range(1_000) AS b ORDER BY x"

    def ended():
        with ending_on_signals():
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
            return list(record_batches(spilling_connection(1).sql(endless)))

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        ended()
