"""Debezium's values in JSON: read by the schema that a message carries, and never by guesses."""

import base64
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.reading.parse import parse_messages
from tests.support.messages import InputMessage

COLUMNS = {
    "id": ColumnType(TypeName.LONG),
    "price": ColumnType(TypeName.DECIMAL, 12, 2),
    "day": ColumnType(TypeName.DATE),
    "at": ColumnType(TypeName.TIMESTAMP),
}
KEYS = tuple(
    KeyColumn(Column(name), Domain.INTEGER, kind.scale, name) for name, kind in COLUMNS.items() if name != "id"
)
STREAM = Stream("s", COLUMNS, None, "id", KEYS, envelope="after")
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "before", "type": "struct", "fields": []},
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int64"},
                {
                    "field": "price",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
                {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
                {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
            ],
        },
    ],
}
ROW = {"id": 1, "price": "1000", "day": 19_783, "at": 1_709_287_200_000_001}


def read(rows, schema=None, stream=STREAM):
    """The codes of each column, and the refusals by place."""
    wrapped = [{"before": None, "after": row, "op": "c"} for row in rows]
    messages = [each if schema is None else {"schema": schema, "payload": each} for each in wrapped]
    given_ = [InputMessage(at, 0, json.dumps(each).encode(), ()) for at, each in enumerate(messages)]
    found = parse_messages(stream, False, 0, 0, given_)
    return [column.tolist() for column in found.codes], {letter.offset: letter for letter in found.dead}


def test_the_schema_of_a_message_says_what_its_values_are():
    codes, dead = read([ROW, ROW | {"id": 2, "price": "Bdw="}, ROW | {"id": 3, "price": None}], SCHEMA)
    assert not dead
    assert codes[0][:2] == [-2_667_212, 1500]
    assert codes[1] == [19_783] * 3
    assert codes[2] == [1_709_287_200_000_001] * 3


@given(st.lists(st.decimals(-(10**9), 10**9, places=2), min_size=1, max_size=90))
def test_decimals_of_bytes_are_their_numbers(values):
    def packed(value):
        whole = int(value.scaleb(2))
        return base64.b64encode(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)).decode()

    codes, dead = read([ROW | {"id": at, "price": packed(value)} for at, value in enumerate(values)], SCHEMA)
    assert not dead
    assert codes[0] == [int(value.scaleb(2)) for value in values]


@pytest.mark.parametrize("text", ["1000", "Bdw=", "AQ==", "+123", "12E4", "12345678", "////"])
def test_without_it_bytes_are_refused_even_if_they_look_like_a_number(text):
    plain = {"id": 1, "price": "-5.25", "day": "2024-03-01", "at": "2024-03-01T10:00:00Z"}
    rows = [plain, plain | {"id": 2, "price": text}, plain | {"id": 3}]
    for before in (0, 100):  # more than are read one by one
        codes, dead = read([plain] * before + rows)
        assert list(dead) == [before + 1]
        assert dead[before + 1].reason == "type"
        assert "decimal.handling.mode=string" in dead[before + 1].detail
        assert codes[0] == [-525] * (before + 2)


@pytest.mark.parametrize("value", ["1000.00", "12.5", "-1000", "7", "123", 1000, 12.5, " 1000.00 "])
def test_numbers_and_their_text_are_taken(value):
    codes, dead = read([{"id": 1, "price": value, "day": "2024-03-01", "at": None}])
    assert not dead
    assert codes[0] == [int(Decimal(str(value).strip()).scaleb(2))]


@pytest.mark.parametrize(("text", "number"), [("1000", 100_000), ("12345678", 1_234_567_800), ("7", 700)])
def test_without_an_envelope_text_is_the_number_that_it_spells(text, number):
    plain = Stream("s", COLUMNS, None, "id", KEYS[:1])
    rows = [{"id": 1, "price": text}, {"id": 2, "price": "Bdw="}, {"id": 3, "price": "dear"}, {"id": 4, "price": "?"}]
    given_ = [InputMessage(at, 0, json.dumps(each).encode(), ()) for at, each in enumerate(rows)]
    found = parse_messages(plain, False, 0, 0, given_)
    assert found.codes[0].tolist() == [number]
    assert [(letter.offset, "decimal.handling.mode=string" in letter.detail) for letter in found.dead] == [
        (1, True), (2, True), (3, False),
    ]  # fmt: skip


def test_text_stays_text_whatever_the_schema_says():
    stream = Stream(
        "s",
        {"id": COLUMNS["id"], "price": ColumnType(TypeName.STRING), "day": ColumnType(TypeName.LONG)},
        None,
        "id",
        (KeyColumn(Column("day"), Domain.INTEGER, 0, "day"),),
        payload=("price",),
        envelope="after",
    )
    codes, dead = read([ROW], SCHEMA, stream)
    assert (codes, dead) == ([[19_783]], {})
