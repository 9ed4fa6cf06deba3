"""CSV as people have it: read as DuckDB reads it with the same options, or named with the option that reads it."""

import contextlib
import json
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spojoin
from spojoin.columns.csv_options import csv_options, csv_words
from spojoin.embedded import file_reader
from spojoin.embedded.csv_reader import CsvReader, first_rows
from spojoin.embedded.inferred_schema import schema_of, schema_with_notes
from spojoin.embedded.input_options import csv_by_name, csv_by_texts, schema_by_texts, with_csv
from spojoin.embedded.inputs import open_inputs
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import CsvOptions
from spojoin.query.load import parse_query

ONE = {"n": [1]}


def write(folder: Path, text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def told(path: Path, **csv: object) -> dict[str, str]:
    found = schema_with_notes(path, csv=csv_options(csv))
    return {name: str(kind) for name, kind in found.columns.items()}


def rows(path: Path, columns: str = "l.*", by: str = "id", **options: object) -> list[dict[str, object]]:
    statement = f"SELECT {columns} FROM '{path}' AS l JOIN TABLE(one) AS r ON l.{by} + 5 > r.n"
    return spojoin.sql(statement, one=ONE, **options).to_arrow().to_pylist()


cells = st.text("ab ;,|'\"\n#é", max_size=4)


@settings(max_examples=80, deadline=None)
@given(
    table=st.lists(st.tuples(cells, cells, st.integers(-5, 5)), min_size=1, max_size=12),
    delim=st.sampled_from([",", ";", "|", "\t"]),
    quote=st.sampled_from(['"', "'"]),
    encoding=st.sampled_from(["utf-8", "latin-1", "utf-16"]),
    block=st.integers(60, 200),
)
def test_cells_are_those_that_were_written(tmp_path_factory, table, delim, quote, encoding, block):
    def written(cell: object) -> str:
        return f"{quote}{str(cell).replace(quote, quote * 2)}{quote}"

    lines = [delim.join(map(written, row)) + "\n" for row in [("a", "b", "n"), *table]]
    path = write(tmp_path_factory.mktemp("csv"), "".join(lines), encoding)
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.string())])
    options = csv_options({"delim": delim, "quote": quote, "encoding": encoding})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        found = [row for batch in CsvReader(path, schema, None, ",", options) for row in batch.to_pylist()]
    assert found == [{"a": a, "b": b, "n": str(n)} for a, b, n in table]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["# no row", "#,#", '# "', '1,"two\n# lines"', "3,#", '"#",4']), max_size=20),
    block=st.integers(40, 90),
)
def test_comments_are_lines_outside_quotes_at_any_block_size(tmp_path_factory, lines, block):
    path = write(tmp_path_factory.mktemp("csv"), "# first\na,b\n" + "".join(f"{line}\n" for line in lines))
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        reader = CsvReader(path, schema, None, ",", CsvOptions(comment="#"))
        found = [row for batch in reader for row in batch.to_pylist()]
    whole = [line.split(",") for line in lines if not line.startswith("#")]
    assert found == [{"a": a.strip('"'), "b": b.strip('"')} for a, b in whole]
    assert reader.malformed == {}


@pytest.mark.parametrize(
    ("header", "line", "names"),
    [
        ("a;b", "1;2", ["a", "b"]),
        ("a\tb", "1\t2", ["a", "b"]),
        ("a|b", "1|2", ["a", "b"]),
        ("a;b|c;d", "1;2;3", ["a", "b|c", "d"]),
        ("sep=|\na|b", "1|2", ["a", "b"]),
        ('"a;b"', "1", ["a;b"]),
        ("a,b;c", "1,2", ["a", "b;c"]),
        ("a", "1;2", ["a"]),
    ],
)
def test_the_header_shows_the_delimiter(tmp_path, header, line, names):
    assert first_rows(write(tmp_path, f"{header}\n{line}\n"), ",").schema.names == names


NUMBERS = ["1.234,5", "-7,25", "1.234.567", "0,5", "12", "1234,5", ",5", "1.5", "1,2,3", "1.23.456", "abc", "-1.000"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_duckdb_or_refused(tmp_path, number):
    path = write(tmp_path, f"id;v\n1;0,5\n2;{number}\n")
    options = {"decimal": ",", "thousands": ".", "delim": ";"}
    results = spojoin.sql(
        f"SELECT l.id, l.v FROM '{path}' AS l JOIN TABLE(one) AS r ON l.id + 5 > r.n",
        one=ONE,
        csv=options,
        schema={"v": "double"},
    )
    with (
        pytest.warns(UserWarning, match="refused")
        if number in ("1.5", "1,2,3", "1.23.456", "abc")
        else contextlib.nullcontext()
    ):
        found = results.to_arrow().to_pylist()
    expected = []
    if not results.rejected:
        columns = "columns={id: 'INT', v: 'DOUBLE'}, delim=';', decimal_separator=',', thousands='.'"
        query = f"SELECT * FROM read_csv(?, {columns})"
        expected = [{"id": 2, "v": duckdb.execute(query, [str(path)]).fetchall()[1][1]}]
    assert found == [{"id": 1, "v": 0.5}, *expected]


TIMES = [
    ("%d.%m.%Y %H:%M", "31.03.2024 10:00", "2024-03-31T10:00:00"),
    ("%m/%d/%Y %I:%M %p", "03/31/2024 10:05 PM", "2024-03-31T22:05:00"),
    ("%d %b %Y %H:%M:%S.%f", "1 Mar 2024 10:00:00.25", "2024-03-01T10:00:00.250000"),
]


@pytest.mark.parametrize(("form", "text", "moment"), TIMES)
def test_times_are_read_by_their_format(tmp_path, form, text, moment):
    path = write(tmp_path, f"id,at\n1,{text}\n")
    assert told(path, timestampformat=form) == {"id": "long", "at": "timestamp"}
    (row,) = rows(path, csv={"timestampformat": form})
    assert row["at"].isoformat() == moment


def test_dates_are_read_by_their_format_and_others_are_refused(tmp_path):
    path = write(tmp_path, "id,day\n1,31.03.2024\n2,2024-04-01\n3,31.04.2024\n")
    with pytest.warns(UserWarning, match=r"31\.04\.2024"):
        found = rows(path, csv={"dateformat": "%d.%m.%Y"}, schema={"day": "date"})
    assert [str(row["day"]) for row in found] == ["2024-03-31", "2024-04-01"]


def test_a_format_that_is_none_is_named(tmp_path):
    path = write(tmp_path, "id,day\n1,31.03.2024\n")
    with pytest.raises(ConfigurationError, match=r"csv: format '%d\.%m\.%Q'"):
        rows(path, csv={"dateformat": "%d.%m.%Q"})


def test_words_for_null_stand_in_every_column_but_not_within_quotes(tmp_path):
    path = write(tmp_path, 'id,v,t\n1,\\N,\\N\n2,5,"\\N"\n')
    assert rows(path, csv={"nullstr": "\\N"}) == [{"id": 1, "v": None, "t": None}, {"id": 2, "v": 5, "t": "\\N"}]


def test_names_and_lines_to_skip(tmp_path):
    path = write(tmp_path, "made by x\n1,2\n3,4\n")
    assert rows(path, by="a", csv={"skip": 1, "names": ["a", "b"]}) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert rows(path, by="column0", csv={"skip": 1, "header": False})[0] == {"column0": 1, "column1": 2}
    assert rows(path, by="a", csv={"skip": 1, "names": "a,b", "header": True}) == [{"a": 3, "b": 4}]
    with pytest.raises(ConfigurationError, match="names has 3 names, and the file has 2 columns"):
        rows(path, csv={"skip": 1, "names": "a,b,c"})


def test_malformed_lines_keep_their_place_whatever_stands_before_them(tmp_path):
    path = write(tmp_path, "made by x\n1,2\n3\n5,6\n7,8,9\n")
    schema = pa.schema([("a", pa.string())])
    for options, at in (({"names": "a,b"}, 1), ({"names": "a,b", "header": True}, 0), ({"header": False}, 1)):
        wanted = schema if "names" in options else pa.schema([("column0", pa.string())])
        reader = CsvReader(path, wanted, None, ",", csv_options({"skip": 1, **options}))
        assert [batch.num_rows for batch in reader] == [3 + at]
        assert reader.malformed == {at: "3", at + 2: "7,8,9"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delim=;,decimal=,", CsvOptions(delim=";", decimal=",")),
        ("thousands=,,sep=tab", CsvOptions(thousands=",", delim="\t")),
        ("names=a,b,skip=2,header=no", CsvOptions(names=("a", "b"), skip=2, header=False)),
        ("nullstr=-,\\N,quote=", CsvOptions(nullstr=("-", "\\N"), quote="")),
        ("decimal_separator=,,encoding=latin1", CsvOptions(decimal=",", encoding="iso8859-1")),
        ("timestampformat=%b %d, %Y %H:%M", CsvOptions(timestampformat="%b %d, %Y %H:%M")),
    ],
)
def test_options_as_text(text, expected):
    assert csv_options(csv_words(text)) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delimeter": ";"}, "unknown option 'delimeter': expected delim, .*; did you mean 'delim'"),
        ({"delim": ";;"}, "csv: delim=';;': expected one ASCII character, or tab"),
        ({"delim": ";", "sep": ","}, "'delim' is given twice"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands are both ','"),
        ({"encoding": "utf8x"}, "unknown encoding 'utf8x'"),
        ({"header": "maybe"}, "expected true or false"),
        ({"skip": -1}, "expected a number of lines"),
        ({"names": ["a", "a"]}, "expected a different name for each column, but 'a' is repeated or empty"),
        ({"nullstr": 5}, "expected texts"),
    ],
)
def test_options_that_are_none_are_named(given, said):
    with pytest.raises(ConfigurationError, match=said):
        csv_options(given)


def test_options_of_one_input_or_of_all():
    by_name = csv_by_texts(["a.csv=delim=;,decimal=,", "delim=|", "a.csv=sep=:", "quote='"])
    assert by_name == {"a.csv": CsvOptions(delim=":", decimal=",", quote="'"), "": CsvOptions(delim="|", quote="'")}
    assert csv_by_name({"a.csv": {"delim": ";"}}) == {"a.csv": CsvOptions(delim=";")}
    schemas = schema_by_texts(["x=decimal(10,2),y=long", "a.csv=x=double"])
    assert {name: {c: str(kind) for c, kind in each.items()} for name, each in schemas.items()} == {
        "": {"x": "decimal(10,2)", "y": "long"},
        "a.csv": {"x": "double"},
    }


def test_names_of_inputs_and_columns_that_are_none(tmp_path):
    path = write(tmp_path, "id,v\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"unknown stream or file 'b\.csv'"):
        rows(path, csv={"b.csv": {"delim": ";"}})
    with pytest.raises(ConfigurationError, match=r"schema of .*: unknown column 'w': expected id or v"):
        rows(path, schema={str(path): {"w": "long"}})
    with pytest.raises(ConfigurationError, match="csv of one: it isn't a CSV file"):
        rows(path, csv={"one": {"delim": ";"}})


@pytest.mark.parametrize(
    ("values", "way"),
    [
        (["1,234", "999"], "--csv thousands=, "),
        (["1,5", "2,25"], "--csv decimal=, "),
        (["1.234,5", "2,25"], "--csv decimal=,,thousands=. "),
        (["31.03.2024 10:00", "01.04.2024 11:00"], "--csv 'timestampformat=%d.%m.%Y %H:%M'"),
        (["3/4/2024 10:00 AM", "4/5/2024 9:00 PM"], "--csv 'timestampformat=%d/%m/%Y %I:%M %p'"),
        (["31.03.2024"], "--csv dateformat=%d.%m.%Y "),
        (["\\N", "5"], "--csv 'nullstr=\\N'"),
        (["-", "5.5"], "--csv nullstr=- "),
        (["$5", "$7.50"], "CAST(REPLACE(v, '$', '') AS DOUBLE)"),
        (["5 %", "7.5 %"], "CAST(REPLACE(v, '%', '') AS DOUBLE)"),
    ],
)
def test_texts_that_an_option_reads_are_named_with_it(tmp_path, values, way):
    path = write(tmp_path, "id;v\n" + "".join(f"{at};{value}\n" for at, value in enumerate(values)))
    with pytest.raises(ConfigurationError) as caught:
        spojoin.sql(f"SELECT l.id FROM '{path}' AS l JOIN TABLE('{path}') AS r ON l.v < r.v")
    assert way in str(caught.value)


def test_a_comment_in_the_place_of_the_header_is_named(tmp_path):
    path = write(tmp_path, "# made by x\nid,v\n1,2\n")
    with pytest.raises(ConfigurationError, match=r"begins with the line '# made by x': if it is a comment.*comment=#"):
        rows(path, "l.id")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize(
    ("early", "late", "kind", "ways"),
    [
        (1, 1.5, "long", ["x=double"]),
        (1, "abc", "long", ["x=string", "x=long"]),
        (1.5, "abc", "double", ["x=string", "x=double"]),
        (None, 7, "empty", ["x=long"]),
        ("2024-01-01", "2024-01-01 10:00:00", "date", ["x=timestamp"]),
    ],
)
def test_a_column_that_turns_behind_the_first_rows_is_named_and_never_half_read(
    tmp_path, monkeypatch, suffix, early, late, kind, ways
):
    monkeypatch.setattr("spojoin.embedded.inferred_schema.SAMPLE_ROWS", 5)
    values = [early] * 8 + [late] * 2
    if suffix == ".csv":
        text = "id,x\n" + "".join(f"{at},{'' if value is None else value}\n" for at, value in enumerate(values))
    else:
        text = "".join(json.dumps({"id": at, "x": value}) + "\n" for at, value in enumerate(values))
    path = write(tmp_path, text, name=f"t{suffix}")
    with pytest.raises(BadData, match=f"column 'x' is {kind} in the first rows") as caught:
        rows(path, "l.id, l.x")
    for way in ways:
        assert f"--schema {way} " in str(caught.value)
    name, said = ways[0].split("=")
    assert len(rows(path, "l.id, l.x", schema={name: said})) == 10


EMPTY = {"csv": "id,at,v\n", "jsonl": ""}
WANTED = [{"id": 1, "other": None}, {"id": 2, "other": None}]
LEFT = "id,at,v\n1,2024-03-01 10:00:00,1.5\n2,2024-03-01 10:00:01,2.5\n"


@pytest.mark.parametrize("suffix", list(EMPTY))
@pytest.mark.parametrize(
    "condition",
    [
        "r.at BETWEEN l.at AND l.at + INTERVAL '1 min'",
        "l.at >= r.at AND l.at < r.at + INTERVAL '1 min' AND l.v > r.v",
        "l.id = r.id AND r.at >= l.at AND r.at <= l.at + INTERVAL '1 min'",
        "ABS(l.v - r.v) < 5 AND r.at >= l.at AND r.at <= l.at + INTERVAL '1 min'",
    ],
)
def test_an_empty_file_takes_the_types_that_it_is_compared_with(tmp_path, suffix, condition):
    left, right = write(tmp_path, LEFT, name="l.csv"), write(tmp_path, EMPTY[suffix], name=f"r.{suffix}")
    found = spojoin.sql(f"SELECT l.id, r.id AS other FROM '{left}' AS l LEFT JOIN '{right}' AS r ON {condition}")
    assert found.to_arrow().to_pylist() == WANTED
    found = spojoin.sql(f"SELECT l.id FROM '{left}' AS l ANTI JOIN TABLE('{right}') AS r ON {condition}")
    assert found.to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]
    found = spojoin.sql(f"SELECT r.id FROM '{right}' AS l JOIN '{left}' AS r ON {condition}")
    assert found.to_arrow().to_pylist() == []


def test_an_empty_frame_of_objects_takes_the_types_that_it_is_compared_with(tmp_path):
    left = write(tmp_path, LEFT, name="l.csv")
    found = spojoin.sql(
        f"SELECT l.id, r.id AS other FROM '{left}' AS l LEFT JOIN empty AS r "
        "ON r.at BETWEEN l.at AND l.at + INTERVAL '1 min' AND l.v > r.v",
        empty=pd.DataFrame(columns=["id", "at", "v"]),
    )
    assert found.to_arrow().to_pylist() == WANTED


def test_types_of_a_frames_columns_can_be_said():
    ns = 1_709_287_200_000_000_000
    frame = {"id": [1, 2], "ts": [ns, ns + 1_000_000_000]}
    found = spojoin.sql(
        "SELECT l.id, r.id AS later FROM f AS l JOIN f AS r ON r.ts > l.ts AND r.ts <= l.ts + INTERVAL '1 s'",
        f=frame,
        schema={"ts": "timestamp(ns)"},
    )
    assert found.to_arrow().to_pylist() == [{"id": 1, "later": 2}]


QUERY = """
name: q
streams:
  t: {{schema: {{id: long, v: double}}, csv: {csv}}}
sql: SELECT l.id FROM t AS l JOIN t AS r ON l.v < r.v WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


def test_the_form_of_a_streams_file_stands_in_its_query():
    query = parse_query(QUERY.format(csv="{delim: ';', decimal: ',', nullstr: ['-', n.a.]}"))
    assert query.streams[0].file.csv == CsvOptions(delim=";", decimal=",", nullstr=("-", "n.a."))
    with pytest.raises(ConfigurationError, match=r"line 4.*csv of stream t: unknown option 'delm'.*mean 'delim'"):
        parse_query(QUERY.format(csv="{delm: ';'}"))


def test_the_form_of_a_streams_file_is_said_beside_its_query(tmp_path):
    query = parse_query(QUERY.format(csv="{delim: ';'}"))
    said = with_csv(query, csv_by_texts(["t=decimal=,"]))
    assert said.streams[0].file.csv == CsvOptions(decimal=",")
    assert with_csv(query, {}) is query
    with pytest.raises(ConfigurationError, match="unknown stream 'u': expected t"):
        with_csv(query, csv_by_texts(["u=decimal=,"]))
    path = write(tmp_path, "id,v\n1,'0,5'\n2,'0,25'\n")
    (file,) = open_inputs(with_csv(query, csv_by_texts(["quote=',decimal=,"])), {"t": path})
    batch = file.read()
    assert batch is not None
    assert batch.column("v").to_pylist() == ["0.5", "0.25"]


def test_columns_that_differ_in_case_alone_are_two(tmp_path):
    path = write(tmp_path, "a,A\n1,20\n2,10\n")
    assert rows(path, by="a") == [{"a": 1, "A": 20}, {"a": 2, "A": 10}]
    assert rows(path, 'l."A", l.a', "a") == [{"A": 20, "a": 1}, {"A": 10, "a": 2}]
    assert rows(path, 'l.a + l."A" AS s, l."A" * 100 AS c', "a") == [{"s": 21, "c": 2000}, {"s": 12, "c": 1000}]
    assert schema_of(path).keys() == {"a", "A"}
