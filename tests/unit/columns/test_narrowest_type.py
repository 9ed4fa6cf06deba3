"""The types of text: a plain reader of each value decides, apart from Arrow's."""

import re
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.columns.inferred import narrowest_type


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", "0"], "long"),
        (["1", None], "long"),
        (["9223372036854775807", "-9223372036854775808"], "long"),
        (["9223372036854775808"], "string"),
        (["12345678901234567890"], "string"),
        (["007", "8"], "string"),
        (["00"], "string"),
        (["-0"], "double"),
        (["+5"], "string"),
        (["1", "2.5"], "double"),
        ([".5", "1e5", "-inf", "nan"], "double"),
        (["1234567890123456.5"], "string"),
        (["1.5e400"], "string"),
        (["nan"], "string"),
        (["inf", "-inf"], "string"),
        (["-"], "string"),
        (["e5"], "string"),
        (["."], "string"),
        (["1."], "string"),
        (["1_000"], "string"),
        (["0x10"], "string"),
        (["1,5"], "string"),
        (["true", "False"], "boolean"),
        (["true", "1"], "string"),
        (["t", "f"], "string"),
        (["2013-02-28"], "date"),
        (["2013-02-30"], "string"),
        (["2013-02-28", "2013-02-28T05:00"], "timestamp"),
        (["2013-02-28 05:00:00.123456+01:00", "2013-02-28T05:00Z"], "timestamptz"),
        (["2013-02-28", "2013-02-28T05:00Z", "2013-02-28T05:00"], "timestamptz"),
        (["2013-02-28T25:00"], "string"),
        (["2013-02-28T05:00:00.123456789"], "timestamp"),
        (["2013-02-28", "20130228"], "string"),
        (["05:30"], "string"),
        (["550e8400-e29b-41d4-a716-446655440000"], "string"),
        (["1.2.3"], "string"),
        ([""], "string"),
        (["x", None], "string"),
    ],
)
def test_the_narrowest_type_that_holds_all_values(texts, expected):
    assert str(narrowest_type(pa.array(texts, pa.string()))) == expected


@pytest.mark.parametrize("texts", [[], [None], [None, None]])
def test_no_value_tells_no_type(texts):
    assert narrowest_type(pa.array(texts, pa.string())) is None


def _is_long(text):
    return re.fullmatch(r"0|-?[1-9]\d*", text, re.ASCII) is not None and -(2**63) <= int(text) < 2**63


def _is_double(text):
    """Numbers without leading zeros and at most 15 digits before the point; words count beside numbers only."""
    if text.lower().lstrip("-") in ("nan", "inf", "infinity"):
        return text.count("-") <= 1
    whole, _, rest = text.lower().lstrip("-").replace("e", ".", 1).partition(".")
    if text.startswith("--") or (len(whole) > 1 and whole[0] == "0") or len(whole) > 15 or not (whole + rest):
        return False
    try:
        value = float(text)
    except ValueError:
        return False
    return (
        abs(value) != float("inf")
        and text == text.strip()
        and "_" not in text
        and not re.search(r"\.($|e|E)|\+\d+\.|^\+", text)
    )


def _is_date(text):
    try:
        return len(text) == 10 and date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_time(text):
    try:
        return text[4:5] == "-" and datetime.fromisoformat(text) is not None and text[8:10] >= "01"
    except ValueError:
        return False


def oracle(texts):
    values = [text for text in texts if text is not None]
    if not values:
        return None
    if all(text.lower() in ("true", "false") for text in values):
        return "boolean"
    has_digit = any(c.isdigit() for text in values for c in text)
    for name, fits in (("long", _is_long), ("double", _is_double), ("date", _is_date), ("timestamp", _is_time)):
        if has_digit and all(fits(text) for text in values):
            return name
    return "string"


CELL = st.one_of(
    st.none(),
    st.integers(-12, 12).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.sampled_from(
        ["1.5", "-2e3", ".25", "1e-3", "0.0", "nan", "inf", "007", "-0", "true", "FALSE", "", "x", "-", "e1"]
    ),
    st.dates().map(str),
    st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds")),
    st.floats(-1e9, 1e9).map(repr),
    st.text("0123456789-", max_size=10),
)
KINDS = st.sampled_from([st.integers(-12, 12).map(str), st.dates().map(str), st.floats(-9, 9).map(repr), CELL])


@given(texts=KINDS.flatmap(lambda cell: st.lists(cell | st.none(), max_size=4)))
def test_every_value_fits_by_a_plain_reader_too(texts):
    kind = narrowest_type(pa.array(texts, pa.string()))
    assert (kind if kind is None else str(kind)) == oracle(texts)
