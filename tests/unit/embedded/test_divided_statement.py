"""A join as a part of more SQL: what is told, what is read, and what is out of reach."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from typer.testing import CliRunner

import spojoin
from spojoin.cli.main import app
from spojoin.embedded.divided_statement import divide_statement
from spojoin.embedded.statements import StatementOptions
from spojoin.errors import BadData, ConfigurationError, QueryError

A = pa.table({"id": [1, 2, 3], "x": [5, 7, 9]})
B = pa.table({"id": [1, 2, 3, 4], "y": [3, 6, 8, 1]})
JOIN = "FROM a AS l JOIN TABLE(b) AS r ON l.x > r.y"


def rows(sql: str, **tables: object) -> list[dict[str, object]]:
    return spojoin.sql(sql, **(tables or {"a": A, "b": B})).to_arrow().to_pylist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT l.id, r.id AS other {JOIN}",
        f"SELECT l.id, COUNT(*) AS n {JOIN} GROUP BY l",
        f"SELECT * {JOIN};",
        f"SELECT l.id {JOIN} QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.y) <= 2",
        "SELECT l.id FROM a AS l JOIN a AS r ON l.x > r.x WINDOW AS (SLIDE INTERVAL '1' ON '10') EMIT ON CLOSE",
        "SELECT l.id FROM a AS l WHERE EXISTS (SELECT 1 FROM a AS r WHERE l.x > r.x) "
        "WINDOW AS (SLIDE INTERVAL '1' ON '10') EMIT ON CLOSE",
    ],
)
def test_a_statement_of_its_own_is_run_as_it_stands(sql: str) -> None:
    used = {name: table for name, table in {"a": A, "b": B}.items() if f" {name} " in sql or f"({name})" in sql}
    around = divide_statement(sql, used, StatementOptions({}))
    assert around.is_alone
    assert around.join is not None
    assert around.join.query.text == sql


def test_rows_keep_the_joins_order_through_projections() -> None:
    plain = rows(f"SELECT l.id, r.id AS other {JOIN}")
    assert rows(f"SELECT id, other FROM (SELECT l.id, r.id AS other {JOIN})") == plain
    assert rows(f"WITH j AS (SELECT l.id, r.id AS other {JOIN}) SELECT * FROM j LIMIT 4") == plain[:4]


def test_a_limit_ends_the_join() -> None:
    many = pa.table({"id": range(100_000), "x": range(100_000)})
    read = []

    def pieces() -> object:
        for batch in many.to_batches(max_chunksize=1_000):
            read.append(batch)
            yield batch

    reader = pa.RecordBatchReader.from_batches(many.schema, pieces())
    assert len(rows(f"SELECT l.id {JOIN} LIMIT 2", a=reader, b=B)) == 2
    assert len(read) < 100


def test_columns_have_the_names_that_a_statement_of_its_own_gives_them() -> None:
    found = spojoin.sql(f"SELECT l.id, r.id, COUNT(*), l.x - r.y {JOIN} GROUP BY ALL", a=A, b=B)
    assert found.schema.names == ["l_id", "r_id", "COUNT(*)", "l.x - r.y"]
    assert spojoin.sql(f"SELECT * {JOIN} ORDER BY l.id", a=A, b=B).schema.names == ["l_id", "x", "r_id", "y"]


def test_a_part_that_is_read_twice_gives_its_rows_twice() -> None:
    sql = f"WITH j AS (SELECT l.id {JOIN}) SELECT (SELECT COUNT(*) FROM j) AS n, COUNT(*) AS m FROM j, j AS k"
    assert rows(sql) == [{"n": 9, "m": 81}]


def test_a_join_over_a_joins_result() -> None:
    inner = f"(SELECT l.id, l.x {JOIN} AND r.y = 6)"
    assert rows(f"SELECT j.id, r.id AS other FROM {inner} AS j JOIN TABLE(b) AS r ON j.x < r.y") == [
        {"id": 2, "other": 3}
    ]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (f"SELECT l.foo, COUNT(*) {JOIN} GROUP BY l.foo", "line 1, column 8: unknown column of stream a 'foo'"),
        (f"SELECT l.id, COUNT(*) {JOIN}\nAND l.x > r.z GROUP BY l.id", "line 2, column 11: unknown column"),
        (f"SELECT l.id, r.id, COUNT(*) {JOIN} GROUP BY l.id", 'column "r.id" must appear in the GROUP BY'),
        (f"SELECT id, COUNT(*) {JOIN} GROUP BY ALL", "'id' doesn't name its side: expected l.id or r.id"),
        (f"SELECT l.id {JOIN} JOIN c ON true", "unknown table 'c': expected a or b"),
        ("SELECT 1; SELECT 2", "line 1, column 11: a second statement begins with 'SELECT'"),
    ],
)
def test_a_mistake_is_told_with_its_place(sql: str, words: str) -> None:
    with pytest.raises(QueryError) as told:
        spojoin.sql(sql, a=A, b=B)
    assert words in str(told.value)


def test_a_table_that_nothing_names_is_told() -> None:
    with pytest.raises(ConfigurationError, match="'b' isn't used"):
        spojoin.sql("SELECT COUNT(*) FROM a", a=A, b=B)


def test_a_value_that_cant_be_computed_ends_the_reading() -> None:
    with pytest.raises(BadData, match="Could not convert"):
        rows(f"SELECT CAST('n' || l.id AS INT) AS n, COUNT(*) {JOIN} GROUP BY ALL")


def test_duckdb_reaches_no_file_but_those_of_the_statement(tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(QueryError, match="file system operations are disabled"):
        spojoin.sql(f"SELECT * FROM read_text('{file}')")
    assert spojoin.sql(f"SELECT COUNT(*) AS n FROM '{file}'").to_arrow().to_pylist() == [{"n": 1}]


def test_refused_rows_of_every_part_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "names.jsonl"
    file.write_text('{"id": 1, "name": "one"}\n' * 3 + "{broken\n")
    found = spojoin.sql(f"SELECT n.name, COUNT(*) AS c {JOIN} JOIN '{file}' AS n ON n.id = l.id GROUP BY ALL", a=A, b=B)
    assert found.to_arrow().to_pylist() == [{"name": "one", "c": 6}]
    assert dict(found.rejected) == {"malformed": 1}


def test_too_many_refused_rows_end_a_reading_with_the_commonest_reason(tmp_path: Path) -> None:
    file = tmp_path / "names.jsonl"
    file.write_text('{"id": 1, "name": "one"}\n' + "{broken\n" * 3)
    with pytest.raises(BadData, match=r"than max_rejects=0.1: 3 of 11 rows refused: 3 malformed"):
        spojoin.sql(f"SELECT n.name {JOIN} JOIN '{file}' AS n ON n.id = l.id", a=A, b=B, max_rejects=0.1).to_arrow()


def test_the_first_rows_are_shown_and_end_the_join(capsys: pytest.CaptureFixture[str]) -> None:
    results = spojoin.sql(f"SELECT l.id, r.id AS other {JOIN}", a=A, b=B)
    assert results.head(2).to_pylist() == [{"id": 1, "other": 1}, {"id": 1, "other": 4}]
    results.show(2)
    results.show()
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown[:1] + shown[2:4]] == [["id", "other"], ["1", "1"], ["1", "4"]]
    assert shown[4] == "the first 2 rows; to_arrow() gives all"
    assert shown[-1] == "9 rows"


def test_the_plan_of_one_process_names_no_services_and_topics() -> None:
    plain = spojoin.sql(f"SELECT l.id {JOIN}", a=A, b=B).explain()
    assert "l.x > r.y" in plain
    parted = spojoin.sql(f"SELECT l.id, COUNT(*) {JOIN} GROUP BY 1 ORDER BY 2", a=A, b=B).explain()
    assert "join_1, run by spojoin:" in parted
    assert "FROM join_1 GROUP BY 1 ORDER BY 2" in parted
    assert not [word for word in ("router", "sink", "topic", "partition", "version") if word in plain + parted]


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        ("SELECT l.id, r.id AS other FROM {a} AS l JOIN {b} AS r ON l.x < r.x UNION ALL "
         "SELECT l.id, r.id FROM {b} AS l JOIN {a} AS r ON l.x < r.x", {"a": 2, "b": 4}),
        ("WITH j AS (SELECT l.id, r.x FROM {a} AS l JOIN {b} AS r ON l.x < r.x) "
         "SELECT f.id, s.id AS other FROM j AS f JOIN j AS s ON f.x < s.x", {"a": 1, "b": 2}),
        ("SELECT l.id, r.id AS other FROM (SELECT * FROM {a}) AS l JOIN {b} AS r ON l.x < r.x", {"a": 1, "b": 2}),
        ("SELECT l.id, n.x FROM {b} AS l JOIN {a} AS n ON n.id = l.id", {"a": 1, "b": 2}),
        ("SELECT COUNT(*) AS n FROM {b}", {"b": 2}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_refused_rows_of_every_part_are_counted_and_written(
    tmp_path: Path, sql: str, refused: dict[str, int], suffix: str
) -> None:
    a, b, rejects = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / f"rejects.{suffix}"
    a.write_text("id,x\n1,1\n2\n3,3\n")
    b.write_text("id,x\n1,2\n2,5\n7\n8\n")
    statement = sql.format(a=f"'{a}'", b=f"'{b}'")
    given = ["sql", statement, "-o", str(tmp_path / "out.jsonl"), "--rejects", str(rejects), "--max-rejects", "90%"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    dataset = pads.dataset(str(rejects), format=suffix.replace("jsonl", "json")).to_table().to_pylist()
    assert Counter(Path(row["stream"]).stem for row in dataset) == refused
    assert {(Path(row["stream"]).stem, str(row["position"]), str(row["row"]).strip('"')) for row in dataset} <= {
        ("a", "1", "2"), ("b", "2", "7"), ("b", "3", "8"),
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as said:
        found = spojoin.sql(statement, max_rejects=0.9)
        found.to_arrow()
    assert "malformed" in str(said[-1].message)
    assert dict(found.rejected) == {"malformed": sum(refused.values())}
