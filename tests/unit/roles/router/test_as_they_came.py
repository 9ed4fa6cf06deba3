"""Dead letters hold the row that was refused, not the whole message: so it can be read, corrected and sent again."""

import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.roles.router.parse import parse
from tests.support.messages import InputMessage

NUMBER = KeyColumn(Column("n"), Domain.INTEGER, 0, "n")
STREAM = Stream("s", {"n": ColumnType(TypeName.LONG)}, None, None, (NUMBER,))
AT = datetime(2024, 3, 4, 9, 30)
ROWS = pa.table(
    {
        "n": ["1", "two", "3"],
        "at": pa.array([AT] * 3, pa.timestamp("us")),
        "nanos": pa.array([1, 2, 3], pa.timestamp("ns")),
        "price": pa.array([Decimal("1.50")] * 3, pa.decimal128(9, 2)),
        "x": [1.5, float("nan"), None],
        "raw": [b"\x00\xff"] * 3,
        "tags": [["a"], ["b"], []],
    }
)


def written(table, new=pa.ipc.new_stream):
    sink = pa.BufferOutputStream()
    with new(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=1)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_a_row_of_arrow_is_a_line_that_a_person_reads(new):
    found = parse(STREAM, False, 0, 0, [InputMessage(7, 0, written(ROWS, new))])
    (letter,) = found.dead
    assert (letter.offset, letter.row, letter.reason) == (7, 1, "type")
    assert json.loads(letter.value) == {
        "n": "two",
        "at": "2024-03-04T09:30:00",
        "nanos": "1970-01-01 00:00:00.000000002",
        "price": "1.50",
        "x": "nan",
        "raw": "AP8=",
        "tags": ["b"],
    }


def test_a_row_that_is_refused_later_comes_the_same_way():
    lines = b'{"n": 1}\n\n{"n": 2}\n'
    messages = [
        InputMessage(3, 0, lines),
        InputMessage(5, 0, b"8\n9\n"),
        InputMessage(6, 0, b'{\n"n": 4}'),
        InputMessage(8, 0, written(ROWS.select(["n"]).slice(0, 1))),
    ]
    found = parse(STREAM, False, 0, 0, messages)
    places = list(zip(found.offsets.tolist(), found.rows.tolist(), strict=True))
    assert [found.as_it_came(*place)[0] for place in places] == [
        b'{"n": 1}',
        b'{"n": 2}',
        b"8",
        b"9",
        b'{\n"n": 4}',
        b'{"n":"1"}',
    ]


def test_the_row_that_came_is_taken_once_it_is_right():
    (letter,) = parse(STREAM, False, 0, 0, [InputMessage(7, 0, written(ROWS))]).dead
    again = parse(STREAM, False, 0, 0, [InputMessage(8, 0, letter.value.replace(b'"two"', b"2"))])
    assert not again.dead
    assert again.codes[0].tolist() == [2]
