"""Casts and forms that read texts: what is proposed gives what DuckDB reads by it, and none reads half a value."""

import duckdb
import pytest

from spojoin.embedded.text_hints import cast_of, forms_of

NUMBERS = {
    "12": (12, "7"),
    "25.5": (25.5, "7"),
    "0x1F": (31, "7"),
    "+12": (12, "7"),
    "(12.5)": (-12.5, "7"),
    "12.5-": (-12.5, "7"),
    "1,200.5": (1200.5, "7"),
    "1\u00a0200": (1200, "7"),
    "1.200,5": (1200.5, "7,25"),
    "12,5": (12.5, "7"),
    "$1,200": (1200, "$7"),
    "-3 EUR": (-3, "7 EUR"),
    "inf": (float("inf"), "7"),
}
TIMES = {
    "3/13/24 9:05": "2024-03-13 09:05:00",
    "13.03.2024": "2024-03-13 00:00:00",
    "20240313T090500": "2024-03-13 09:05:00",
    "2024-03-13 09:05:00 PM": "2024-03-13 21:05:00",
    "2024-03-13 09:05:00 CET": "2024-03-13 08:05:00",
    "2024-03-13 09:05:00 +01:00": "2024-03-13 08:05:00",
    "13-MAR-24 09.05.00.000000 PM": "2024-03-13 21:05:00",
    "Wed Mar 13 09:05:00 2024": "2024-03-13 09:05:00",
    "2024-03-13T09:05:00,5": "2024-03-13 09:05:00.5",
}


def read(way, text):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection.execute(f"SELECT {way} FROM (SELECT ? AS t)", [text]).fetchone()[0]


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_as_people_write_them(text):
    value, other = NUMBERS[text]
    assert read(cast_of("t", "BIGINT", [text, other]), text) == value


@pytest.mark.parametrize("text", TIMES)
def test_times_as_people_write_them(text):
    assert read(f"CAST({cast_of('t', 'TIMESTAMP', [text])} AS VARCHAR)", text) == TIMES[text]


@pytest.mark.parametrize(("kind", "text"), [("BIGINT", "abc"), ("BIGINT", "1,200,5"), ("TIMESTAMP", "10:00")])
def test_what_no_common_cast_reads(kind, text):
    assert cast_of("t", kind, [text, text + "x"]) is None


def test_a_word_among_values_is_none():
    assert cast_of("t", "BIGINT", ["12", "none"]) == "CAST(NULLIF(t, 'none') AS BIGINT)"


def test_days_and_months_that_could_be_either_are_both_named():
    assert forms_of(["3/4/24", "5/6/24"]) == ["%d/%m/%y", "%m/%d/%y"]
    assert forms_of(["3/4/24", "3/31/24"]) == ["%m/%d/%y"]
