"""Lists, structs and maps are passed on as they are, and expressions compute with them."""

import csv
import json
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spojoin
from spojoin.columns.inferred import infer_schema
from spojoin.embedded.statements import StatementOptions, bare_statement
from spojoin.embedded.writers import open_writer
from spojoin.errors import ConfigurationError, QueryError
from spojoin.explain.footprint import payload_columns
from tests.support.nested_loop import pairs_of_rows

NESTED = {
    "tags": pa.list_(pa.string()),
    "sizes": pa.large_list(pa.float64()),
    "corner": pa.list_(pa.int8(), 2),
    "owner": pa.struct([("name", pa.string()), ("lots", pa.list_(pa.int64()))]),
    "fees": pa.map_(pa.string(), pa.decimal128(9, 2)),
    "seen": pa.list_(pa.timestamp("us", "UTC")),
}
SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("size", pa.int64()), *NESTED.items()])
WINDOW = " WINDOW AS (SLIDE INTERVAL '1' ON '20')"
PAIRS = "SELECT l.id, r.*, l.tags AS own FROM lots AS l JOIN lots AS r ON l.price > r.price AND l.size < r.size"


def lots(seed, rows=120):
    """Rows with few values of each column, NULL and empty ones among them."""
    draw = Random(seed)
    some = {
        "tags": [None, [], ["a"], ["b", None]],
        "sizes": [None, [], [0.5, None, -1.0]],
        "corner": [None, [1, 2], [None, 3]],
        "owner": [None, {"name": "ann", "lots": [1, None]}, {"name": None, "lots": None}],
        "fees": [None, [], [("vat", None)], [("vat", 1), ("tip", 2)]],
        "seen": [None, [0, None], [1_700_000_000_000_001]],
    }
    values = {name: [draw.choice(cells) for _ in range(rows)] for name, cells in some.items()}
    columns = [
        pa.array(range(rows), pa.int64()),
        pa.array([float(draw.randrange(5)) for _ in range(rows)]),
        pa.array([draw.randrange(5) for _ in range(rows)], pa.int64()),
        *(pa.array(cells, NESTED[name]) for name, cells in values.items()),
    ]
    return pa.table(columns, schema=SCHEMA)


def pairs_of(rows, window=20):
    """The pairs by hand, in order: the later row finds the earlier one within its window."""
    found = pairs_of_rows(rows, lambda a, b: a["price"] > b["price"] and a["size"] < b["size"], window)
    return [(left, right) for _, left, right in found]


@pytest.mark.parametrize("seed", range(3))
def test_they_come_with_their_rows(seed):
    table = lots(seed)
    rows = table.to_pylist()
    found = spojoin.sql(PAIRS + WINDOW, lots=table).to_arrow()
    assert {name: found.schema.field(name).type for name in NESTED} == NESTED
    expected = [{"id": rows[le]["id"]} | rows[r] | {"own": rows[le]["tags"]} for le, r in pairs_of(rows)]
    given = [dict(zip(["id", *SCHEMA.names, "own"], row.values(), strict=True)) for row in found.to_pylist()]
    assert [row | {"id": 0} for row in given] == [row | {"id": 0} for row in expected]
    assert found.num_rows > 100


def test_they_are_null_where_a_row_has_no_partner(tmp_path):
    table = lots(5)
    rows, file = table.to_pylist(), tmp_path / "lots.parquet"
    pq.write_table(table, file, row_group_size=30)
    statement = f"SELECT l.id, r.owner, r.fees FROM '{file}' AS l LEFT JOIN '{file}' AS r ON l.price > r.price + 3"
    found = spojoin.sql(statement + WINDOW + " EMIT ON ARRIVAL").to_arrow().to_pylist()
    expected = []
    for row in rows:
        own = [each for each in rows[max(0, row["id"] - 20) : row["id"]] if row["price"] > each["price"] + 3]
        expected += [{"id": row["id"], "owner": e["owner"], "fees": e["fees"]} for e in own] or [
            {"id": row["id"], "owner": None, "fees": None}
        ]
    assert found == expected


def test_answers_of_groups_pass_those_of_the_left_row():
    table = lots(6)
    statement = "SELECT l.tags, COUNT(*) AS n, l.fees FROM lots AS l JOIN lots AS r ON l.price > r.price GROUP BY l"
    rows = table.to_pylist()
    expected = [
        {"tags": row["tags"], "n": n, "fees": row["fees"]}
        for row in rows
        if (n := sum(row["price"] > each["price"] for each in rows[max(0, row["id"] - 20) : row["id"]]))
    ]
    assert spojoin.sql(statement + WINDOW + " EMIT ON ARRIVAL", lots=table).to_arrow().to_pylist() == expected


@pytest.mark.parametrize(
    ("select", "value"),
    [
        ("len(l.tags) AS v", lambda row: None if row["tags"] is None else len(row["tags"])),
        ("l.owner.name AS v", lambda row: None if row["owner"] is None else row["owner"]["name"]),
        ("l.fees['vat'] AS v", lambda row: dict(row["fees"] or []).get("vat")),
        ("l.corner[2] AS v", lambda row: None if row["corner"] is None else row["corner"][1]),
    ],
)
def test_expressions_compute_with_them(select, value):
    table = lots(4)
    rows = table.to_pylist()
    statement = f"SELECT l.id, {select} FROM lots AS l JOIN lots AS r ON l.price > r.price AND l.size < r.size{WINDOW}"
    found = spojoin.sql(statement, lots=table).to_arrow().to_pylist()
    assert len(found) > 100
    assert all(row["v"] == value(rows[row["id"]]) for row in found)


def test_they_filter_rows_and_pairs():
    table = lots(3)
    rows = table.to_pylist()
    condition = "l.price > r.price AND l.size < r.size AND len(l.tags) > 0 AND l.owner = r.owner"
    found = spojoin.sql(f"SELECT l.id, r.id AS other FROM lots AS l JOIN TABLE(lots) AS r ON {condition}", lots=table)
    expected = [
        {"id": one["id"], "other": two["id"]}
        for one in rows
        for two in rows
        if one["price"] > two["price"]
        and one["size"] < two["size"]
        and one["tags"]
        and one["owner"] is not None
        and one["owner"] == two["owner"]
    ]
    assert found.to_arrow().to_pylist() == expected
    assert expected


def test_an_index_compares_none():
    with pytest.raises(QueryError, match=r"'l\.corner < r\.corner' can only filter pairs"):
        spojoin.sql(f"SELECT l.id FROM lots AS l JOIN lots AS r ON l.corner < r.corner{WINDOW}", lots=lots(0))


def test_aggregates_give_the_best_rows_own():
    statement = (
        "SELECT l.id, ARG_MIN(r.tags, r.id) AS t FROM lots AS l JOIN TABLE(lots) AS r ON l.price > r.price GROUP BY l"
    )
    rows = lots(0).to_pylist()
    with_tags = [row for row in rows if row["tags"] is not None]
    for row in spojoin.sql(statement, lots=lots(0)).to_arrow().to_pylist():
        below = [each for each in with_tags if each["price"] < rows[row["id"]]["price"]]
        assert row["t"] == (below[0]["tags"] if below else None)


def test_files_with_other_types_are_not_read_as_one(tmp_path):
    for name, kind in (("a", pa.list_(pa.int64())), ("b", pa.list_(pa.string()))):
        pq.write_table(pa.table({"x": [1], "tags": pa.array([None], kind)}), tmp_path / f"{name}.parquet")
    statement = f"SELECT l.tags FROM '{tmp_path}/*.parquet' AS l JOIN '{tmp_path}/*.parquet' AS r ON l.x > r.x"
    with pytest.raises(ConfigurationError, match=r"column 'tags' has type list<element: int64> in .*cast the column"):
        spojoin.sql(statement + WINDOW)


def written(table, file):
    with open_writer(file, table.schema) as writer:
        for batch in table.to_batches():
            writer.write(batch)
    return file


def as_json(row):
    """A row as JSON has it, read by Python's own library."""
    fees = None if row["fees"] is None else {name: None if fee is None else float(fee) for name, fee in row["fees"]}
    seen = row["seen"] and [at and at.isoformat().replace("+00:00", "Z") for at in row["seen"]]
    return {**row, "fees": fees, "seen": seen}


def test_json_and_csv_have_them_as_json(tmp_path):
    table = lots(7)
    expected = [as_json(row) for row in table.to_pylist()]
    lines = written(table, tmp_path / "lots.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == expected
    with written(table, tmp_path / "lots.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert [{name: json.loads(cell[name] or "null") for name in NESTED} for cell in cells] == [
        {name: row[name] for name in NESTED} for row in expected
    ]


def test_a_part_of_a_table_is_written_as_its_rows_are(tmp_path):
    """Cells whose values begin in the middle of their array's, null ones with values behind them among them."""
    table = lots(9)
    hidden = pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], [1, 2], mask=pa.array([True, False]))
    assert written(pa.table({"m": hidden}), tmp_path / "m.jsonl").read_text() == '{"m":null}\n{"m":{"b":2}}\n'
    lines = written(table.slice(31, 50), tmp_path / "part.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [as_json(row) for row in table.to_pylist()[31:81]]


def test_keys_of_maps_that_are_no_texts_become_texts(tmp_path):
    cells = pa.array([[(1, [True]), (-2, None)]], pa.map_(pa.int64(), pa.list_(pa.bool_())))
    line = written(pa.table({"m": cells}), tmp_path / "m.jsonl").read_text()
    assert line == '{"m":{"1":[true],"-2":null}}\n'
    empty = pa.table({"s": pa.array([{}, None], pa.struct([]))})
    assert written(empty, tmp_path / "s.jsonl").read_text() == '{"s":{}}\n{"s":null}\n'


def test_what_they_take_is_measured_on_a_sample():
    table = lots(8)
    query = bare_statement(PAIRS + WINDOW, {"lots": table}, StatementOptions({})).query
    columns = {each.name: each for each in payload_columns(query.streams[0], table)}
    bytes_row, source = columns["owner"].bytes_row, columns["owner"].source
    assert source == "measured"
    assert bytes_row == pytest.approx(8 + table["owner"].nbytes / table.num_rows)


def test_services_and_unions_have_none():
    union = pa.dense_union([pa.field("a", pa.int64())])
    schema = pa.schema([*NESTED.items(), ("u", union)])
    assert not infer_schema(schema).columns
    assert list(infer_schema(schema, carries=True).left_out) == ["u"]
