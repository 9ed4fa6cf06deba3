"""Names in a statement and the columns of its results."""

import pytest

from spojoin.errors import QueryError
from spojoin.query.load import parse_query

TEXT = """\
name: q
streams:
  a: {schema: {Price: long, price: long, Vol: double, "odd name": int, only_a: int, seq_a: int}}
  b: {schema: {Price: long, vol: double, day: date, ONLY_B: int}}
sql: |
  SELECT LIST FROM a AS L JOIN b AS r ON CONDITION WINDOW AS (SLIDE INTERVAL '1' ON '10')
order: arrival
"""


def parsed(condition: str, listed: str = "*"):
    output = "count" if listed == "*" else "rows"
    return parse_query(TEXT.replace("CONDITION", condition).replace("LIST", listed) + f"output: {output}\n")


def mistake(*arguments: str) -> str:
    with pytest.raises(QueryError) as caught:
        parsed(*arguments)
    assert caught.value.column is not None
    return str(caught.value)


@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ("L.Price < r.Price", "Price", "Price"),
        ("L.price < r.price", "price", "Price"),
        ("l.VOL < R.VOL", "Vol", "vol"),
        ('L."Price" < r."Price"', "Price", "Price"),
        ('L."odd name" < r.only_b', "odd name", "ONLY_B"),
        ('L."ODD name" < r.price', None, None),
        ("ONLY_A < only_B", "only_a", "ONLY_B"),
        ("only_a < Only_b", "only_a", "ONLY_B"),
        ('only_a < "ONLY_B"', "only_a", "ONLY_B"),
    ],
)
def test_names_match_exactly_or_else_without_regard_to_case(condition: str, left: str | None, right: str | None):
    if left is None:
        assert "unknown column of stream a 'ODD name'" in mistake(condition)
        return
    query = parsed(condition)
    assert [stream.keys[0].expression.name for stream in query.streams] == [left, right]


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("L.PRICE < r.Price", ("'PRICE' may mean Price or price of stream a", 'in double quotes, such as "Price"')),
        ('L."PRICE" < r.Price', ("unknown column of stream a 'PRICE'",)),
        ("vol < r.price", ("column 'vol' doesn't name its side: expected L.vol or r.vol",)),
        ("nothing < r.price", ("unknown column 'nothing'",)),
        ("x.price < r.price", ("unknown alias 'x'", "expected L or r")),
        ('"l".price < r.price', ("unknown alias 'l'", "did you mean 'L'?")),
        ("only_a < L.only_a", ("no condition compares both sides",)),
    ],
)
def test_names_that_are_none(condition: str, parts: tuple[str, ...]):
    message = mistake(condition)
    assert [part for part in parts if part not in message] == [], message


def test_names_of_a_self_join_need_their_side():
    text = TEXT.replace("JOIN b AS r", "JOIN a AS r").replace("  b:", "#").replace("LIST", "*")
    with pytest.raises(QueryError, match="'only_a' doesn't name its side"):
        parse_query(text.replace("CONDITION", "only_a < r.Vol"))


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("r.*, only_a", ["Price", "vol", "day", "ONLY_B", "only_a"]),
        ("r.*", ["Price", "vol", "day", "ONLY_B"]),
        ("r.*, L.only_a", ["Price", "vol", "day", "ONLY_B", "only_a"]),
        ("L.Vol, r.vol", ["L_Vol", "r_vol"]),
        ("L.Vol AS v, r.vol", ["v", "vol"]),
        ("only_a, ONLY_B AS b", ["only_a", "b"]),
        ("L.only_a + r.only_b", ["L.only_a + r.only_b"]),
        ('L.only_a + 1 AS "one more", day', ["one more", "day"]),
        ("L.seq, r.seq", ["L_seq", "r_seq"]),
        ("L.seq AS mine, r.seq", ["mine", "seq"]),
    ],
)
def test_the_names_of_results(listed: str, names: list[str]):
    query = parsed("only_a < only_b", listed)
    assert [each.name for each in query.results.select] == names


def test_all_columns_of_both_sides_get_names_of_their_own():
    text = TEXT.replace("Price: long, price: long", "price: long").replace("CONDITION", "only_a < only_b")
    query = parse_query(text.replace("LIST", "*") + "output: rows\n")
    assert [each.name for each in query.results.select] == [
        "L_price",
        "L_Vol",
        "odd name",
        "only_a",
        "seq_a",
        "r_Price",
        "r_vol",
        "day",
        "ONLY_B",
    ]


def test_columns_of_one_side_may_differ_in_case_alone():
    query = parse_query(TEXT.replace("CONDITION", "only_a < only_b").replace("LIST", "L.*") + "output: rows\n")
    assert [each.name for each in query.results.select] == ["Price", "price", "Vol", "odd name", "only_a", "seq_a"]


@pytest.mark.parametrize(
    ("listed", "part"),
    [
        ("L.only_a AS x, r.vol AS x", "two columns of results are called 'x'"),
        ("L.only_a AS x, r.vol AS X", "two columns of results are called 'x'"),
        ("L.nothing", "unknown column of stream a 'nothing'"),
        ("sum(L.only_a)", "is an aggregate"),
        ("random()", "function rand"),
        ("NULL", "which no column can have: cast it, such as CAST(NULL AS VARCHAR)"),
        ("z.*", "unknown alias 'z'"),
    ],
)
def test_select_lists_that_are_refused(listed: str, part: str):
    assert part in mistake("only_a < only_b", listed)
