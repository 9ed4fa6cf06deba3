"""Finite inputs for which a statement says no window: SQL's answers over all rows, and a word about it."""

from random import Random

import pyarrow as pa
import pyarrow.csv
import pytest

import spojoin
from spojoin.errors import ConfigurationError
from tests.support.asked import rows_of
from tests.support.asking_statements import table_of
from tests.support.by_duckdb import by_duckdb
from tests.support.long import first_of
from tests.support.table_statements import draw

SAYS = "neither WINDOW nor an interval of event times says which rows may meet, so all rows do, as in SQL"


@pytest.mark.parametrize("seed", first_of(25, range(60)))
def test_drawn_statements_without_table_are_those_of_duckdb(seed):
    statement = draw(seed, versions=1)
    (_, table), (_, rows) = statement.steps
    with pytest.warns(UserWarning, match=SAYS):
        found = spojoin.sql(statement.sql().replace("TABLE(b)", "b"), a=table_of(rows), b=table_of(table))
    assert rows_of(found.to_arrow().to_batches()) == statement.answer(), statement.sql()


CONDITIONS = ("l.x < r.y AND l.y > r.x", "l.x = r.y AND l.t >= r.t", "l.t >= r.t", "l.x * 2 > r.y AND l.id <> r.id")
SHAPES = {
    "JOIN": ("{l}, {r}", "n, p"),
    "LEFT JOIN": ("{l}, {r}", "n, p"),
    "RIGHT JOIN": ("{l}, {r}", "p, n"),
    "FULL JOIN": ("{l}, {r}", "n NULLS LAST, p"),
    "SEMI JOIN": ("{l}", "n"),
    "ANTI JOIN": ("{l}", "n"),
}


@pytest.mark.parametrize("seed", first_of(4, range(12)))
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("kind", SHAPES)
def test_every_join_of_two_and_of_itself(kind, itself, seed):
    """Rows in any order, with equal columns and NULLs, and a timestamp that bounds nothing."""
    rng = Random(f"{kind} {seed}")
    tables = {name: drawn_table(rng, rng.choice((0, 1, 7, 40))) for name in "ab"}
    if itself:
        tables.pop("b")
    items, order = SHAPES[kind]
    items = items.format(l="l.id AS n, l.x", r="r.id AS p, r.y")
    sql = f"SELECT {items} FROM a AS l {kind} {'a' if itself else 'b'} AS r ON {rng.choice(CONDITIONS)}"
    with pytest.warns(UserWarning, match=SAYS):
        found = spojoin.sql(sql, **tables)
    assert rows_of(found.to_arrow().to_batches()) == by_duckdb(f"{sql} ORDER BY {order}", **tables), sql


def drawn_table(rng, count):
    columns = {name: [rng.choice((None, 0, 1, 2, 3)) for _ in range(count)] for name in "xy"}
    columns["t"] = pa.array([rng.randrange(5) * 1_000_000 for _ in range(count)], pa.timestamp("us"))
    return pa.table({"id": list(range(count)), **columns}).cast(
        pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("t", pa.timestamp("us"))])
    )


def test_files_and_standard_forms_say_it_once(tmp_path):
    table = drawn_table(Random(1), 9)
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    sql = f"SELECT l.id, r.id AS p FROM '{tmp_path}/a.csv' AS l JOIN '{tmp_path}/a.csv' AS r ON l.x <= r.x"
    with pytest.warns(UserWarning, match="means the same") as said:
        found = spojoin.sql(sql).to_arrow()
    assert len(said) == 1
    assert f"JOIN TABLE('{tmp_path}/a.csv')" in str(said[0].message)
    written = sql.replace(f"JOIN '{tmp_path}/a.csv'", f"JOIN TABLE('{tmp_path}/a.csv')")
    assert found.equals(spojoin.sql(written).to_arrow())
    assert (0, 0) in rows_of(found.to_batches()) or table["x"][0].as_py() is None


@pytest.mark.parametrize(
    ("end", "options", "sentence"),
    [
        ("", {"time": "t"}, "JOIN TABLE(b) if all rows of b are there"),
        ("", {"lateness": "1 s"}, "JOIN TABLE(b) if all rows of b are there"),
        ("EMIT ON ARRIVAL", {}, "JOIN TABLE(b) if all rows of b are there"),
    ],
)
def test_what_is_said_of_times_keeps_its_meaning(end, options, sentence):
    rng = Random(2)
    with pytest.raises(ConfigurationError) as refused:
        spojoin.sql(
            f"SELECT l.id FROM a AS l JOIN b AS r ON l.x < r.x {end}",
            a=drawn_table(rng, 3),
            b=drawn_table(rng, 3),
            **options,
        )
    assert sentence in str(refused.value)
