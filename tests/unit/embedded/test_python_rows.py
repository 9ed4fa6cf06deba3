"""What `spojoin.sql` takes as rows, and what it says of rows that are gone or refused."""

import os

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import spojoin
from spojoin.embedded import python_rows
from spojoin.errors import BadData, ConfigurationError

ROWS = pa.table({"id": [1, 2, 3, 4], "x": [3.0, 1.0, 2.0, 1.5]})
SELF = "SELECT l.id, r.id AS other FROM t AS l JOIN t AS r ON l.x < r.x WINDOW AS (SLIDE INTERVAL '1' ON '100')"
TABLE = "SELECT l.id, r.id AS other FROM t AS l JOIN TABLE(t) AS r ON l.x < r.x"
PAIRS = [(2, 1), (2, 3), (2, 4), (3, 1), (4, 1), (4, 3)]
FORMS = {
    "reader": ROWS.to_reader,
    "generator of tables": lambda: (ROWS.slice(at, 1) for at in range(4)),
    "generator of batches": lambda: iter(ROWS.to_batches(max_chunksize=3)),
    "generator of frames": lambda: (ROWS.slice(at, 2).to_pandas() for at in (0, 2)),
    "generator of dicts": lambda: (ROWS.slice(at, 2).to_pydict() for at in (0, 2)),
    "generator of rows": lambda: iter(ROWS.to_pylist()),
    "an empty piece first": lambda: iter([ROWS.slice(0, 0), ROWS]),
    "list of batches": lambda: ROWS.to_batches(max_chunksize=3),
    "list of frames": lambda: [pl.from_arrow(ROWS.slice(0, 2)), ROWS.slice(2).to_pandas()],
    "list of rows": ROWS.to_pylist,
    "list whose types widen": lambda: [{"id": [1], "x": [3]}, {"id": [2, 3, 4], "x": [1.0, 2.0, 1.5]}],
    "plan of Polars": lambda: pl.from_arrow(ROWS).lazy(),
    "DuckDB": lambda: duckdb.from_arrow(ROWS),
    "its reader": lambda: duckdb.from_arrow(ROWS).to_arrow_reader(),
}
ONCE = [name for name in FORMS if "list" not in name and name not in ("plan of Polars", "DuckDB")]


def pairs(results):
    return sorted((row["id"], row["other"]) for row in results.to_arrow().to_pylist())


@pytest.mark.parametrize("statement", [SELF, TABLE])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same(form, statement):
    assert pairs(spojoin.sql(statement, t=FORMS[form]())) == PAIRS


@pytest.mark.parametrize("form", FORMS)
def test_a_second_reading_is_the_same_or_an_error(form):
    results = spojoin.sql(SELF, t=FORMS[form]())
    assert pairs(results) == PAIRS
    if form in ONCE:
        with pytest.raises(BadData, match=r"'t' has been read, and a reader or generator can be read once.*as one"):
            results.to_arrow()
    else:
        assert pairs(results) == PAIRS


@pytest.mark.parametrize("form", ONCE)
def test_what_is_read_once_has_one_name(form):
    rows = FORMS[form]()
    with pytest.raises(ConfigurationError, match=r"'a' and 'b' are one .*, which can be read once.*one name"):
        spojoin.sql("SELECT l.id FROM a AS l JOIN TABLE(b) AS r ON l.x < r.x", a=rows, b=rows)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (iter(()), "'t' gives no rows.*empty, or has been read"),
        ([], "t is an empty list"),
        ([{"id": [1], "x": [1]}, {"id": [1]}], r"t\[1\] has the columns id.*t\[0\] has id.*x"),
        ([{"id": [1], "x": [1]}, {"id": [1], "x": ["a"]}], "different types.*x.*cast"),
        (iter(["a.csv"]), r"t\[0\] is a str"),
    ],
)
def test_rows_that_are_none_are_named(rows, sentence):
    with pytest.raises(BadData, match=sentence):
        spojoin.sql(SELF, t=rows)


def test_a_series_is_a_column():
    for series in (pd.Series([3.0, 1.0], name="x"), pl.Series("x", [3.0, 1.0])):
        found = spojoin.sql("SELECT l.x FROM t AS l JOIN TABLE(t) AS r ON l.x < r.x", t=series).to_arrow()
        assert found["x"].to_pylist() == [1.0]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_is_a_number_from_one(limit):
    with pytest.raises(ConfigurationError, match=f"limit={limit!r}: expected a whole number from 1"):
        spojoin.sql(SELF, t=ROWS, limit=limit)


LATE = {"id": [1, 2, 3, 4], "at": [10, 20, 16, 30]}
WINDOW = "FROM t AS l JOIN t AS r ON l.id < r.id WINDOW AS (SLIDE INTERVAL '1 s' ON '10 s')"


def test_refused_rows_are_told_in_words_of_python():
    results = spojoin.sql(f"SELECT l.id, r.id AS other {WINDOW}", t=LATE, time="at", lateness="1 ms")
    with pytest.warns(
        UserWarning, match=r"1 of 4 rows refused: 1 late \(first: t, position 2: .*lateness=\"4 ms\""
    ) as seen:
        assert results.to_arrow().num_rows == 3
    assert seen[0].filename == __file__
    assert results.rejected == {"late": 1}


@pytest.mark.parametrize(("allowed", "is_enough"), [("50%", False), (0.6, True), ("60%", True), (2, False), (3, True)])
def test_too_many_refused_rows_are_an_error_at_the_end(allowed, is_enough):
    rows = {"id": [1, 2, 3, 4, 5], "x": ["3", "no", "2", "never", "none"]}
    statement = SELF.replace("l.x < r.x", "CAST(l.x AS INT) < CAST(r.x AS INT)")
    results = spojoin.sql(statement, t=rows, max_rejects=allowed)
    found = []
    if is_enough:
        with pytest.warns(UserWarning, match="3 of 5 rows refused: 3 expression"):
            found += results
    else:
        sentence = f"more rows were refused than max_rejects={allowed}: 3 of 5 rows refused: 3 expression"
        with pytest.raises(BadData, match=sentence):
            found.extend(results)
        with pytest.raises(BadData, match=sentence):
            results.reader().read_all()
    assert [batch.to_pylist() for batch in found] == [[{"id": 3, "other": 1}]]
    assert results.rejected == {"expression": 3}


def test_all_rows_refused_is_an_error_whatever_the_limit():
    statement = SELF.replace("l.x < r.x", "CAST(l.x AS INT) < CAST(r.x AS INT)")
    results = spojoin.sql(statement, t={"id": [1], "x": ["no"]}, max_rejects="100%")
    with pytest.raises(BadData, match="all rows were refused"):
        results.to_arrow()


def test_rows_that_a_filter_drops_are_not_refused_ones():
    statement = SELF.replace("l.x < r.x", "CAST(l.x AS INT) < CAST(r.x AS INT)").replace(
        "WINDOW", "WHERE l.id > 3 AND r.id > 3 WINDOW"
    )
    with pytest.warns(UserWarning, match="1 of 4 rows refused"):
        spojoin.sql(statement, t={"id": [1, 2, 3, 4], "x": ["1", "1", "1", "no"]}).to_arrow()


@pytest.mark.parametrize("given", ["half", -1, 1.5, float("nan"), True])
def test_other_limits_of_refused_rows_are_named(given):
    with pytest.raises(ConfigurationError, match=f"max_rejects={given}: .*expected a share"):
        spojoin.sql(SELF, t=ROWS, max_rejects=given)


def test_paths_of_one_file_are_one_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,x\n1,3\n2,1\n3,2\n")
    (tmp_path / "link.csv").symlink_to("a.csv")
    os.link(tmp_path / "a.csv", tmp_path / "hard.csv")
    (tmp_path / "x").mkdir()
    expected = pairs(spojoin.sql(SELF.replace(" t ", " 'a.csv' ")))
    assert expected == [(2, 1), (2, 3), (3, 1)]
    for other in ("./a.csv", "link.csv", "hard.csv", "x/../a.csv", str(tmp_path / "a.csv"), "a*.csv", "l?nk.csv"):
        statement = SELF.replace(" t ", f" '{other}' ", 1).replace(" t ", " 'a.csv' ", 1)
        assert pairs(spojoin.sql(statement)) == expected
        assert pairs(spojoin.sql(SELF.replace(" t ", " other ", 1), t="a.csv", other=other)) == expected


LEVELS = pa.table({"level": [10, 20]})
OVER = "SELECT l.*, r.level FROM a AS l JOIN TABLE(levels) AS r ON l.v > r.level"


def over_levels(rows):
    return spojoin.sql(OVER, a=rows, levels=LEVELS).to_arrow().to_pylist()


def test_a_column_that_a_later_row_has_is_a_column():
    assert over_levels([{"v": 12}, {"v": 15, "id": 2}]) == [
        {"v": 12, "id": None, "level": 10},
        {"v": 15, "id": 2, "level": 10},
    ]


def test_a_column_that_only_later_pieces_of_a_generator_have_is_refused(monkeypatch):
    monkeypatch.setattr(python_rows, "PIECE_ROWS", 2)
    rows = [{"v": 12, "id": 1}, {"v": 13, "id": 2}, {"v": 14}]
    assert [row["id"] for row in over_levels(iter(rows))] == [1, 2, None]
    with pytest.raises(BadData, match="have a column 'new', which none of the first 2 has: let the first row"):
        over_levels(iter([*rows, {"v": 15, "new": 1}]))


def test_a_later_number_of_a_generator_that_its_first_rows_do_not_show_ends_the_reading(monkeypatch):
    monkeypatch.setattr(python_rows, "PIECE_ROWS", 2)
    rows = [{"v": 12}, {"v": 13}, {"v": 14.5}]
    with pytest.raises(BadData, match=r"column 'v' is long in the first rows.*schema=\{'v': 'double'\}"):
        over_levels(iter(rows))
    found = spojoin.sql(OVER, a=iter(rows), levels=LEVELS, schema={"a": {"v": "double"}}).to_arrow()
    assert found["v"].to_pylist() == [12.0, 13.0, 14.5]


def test_a_table_without_columns_is_refused():
    with pytest.raises(ConfigurationError, match="a has no columns"):
        spojoin.sql(OVER, a=pd.DataFrame(), levels=LEVELS).to_arrow()
