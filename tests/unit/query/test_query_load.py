"""Valid queries: every option, operator, expression, type and window."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import (
    Arithmetic,
    Column,
    ColumnType,
    Constant,
    Domain,
    KeyColumn,
    Op,
    Order,
    Output,
    Predicate,
    Query,
    ResultContent,
    RowOrder,
    Stream,
    TypeName,
)
from spojoin.query.load import load_query, parse_query
from spojoin.windows import RowWindow, TimeWindow, Window
from tests.support.query_texts import TRIPS, typed

DOUBLE = ColumnType(TypeName.DOUBLE)


def key(name, domain=Domain.FLOAT, scale=0):
    return KeyColumn(Column(name), domain, scale, name)


def only(text: str) -> tuple[Predicate, KeyColumn, KeyColumn]:
    query = parse_query(typed(text))
    (predicate,) = query.predicates
    left, right = query.streams
    return predicate, left.keys[predicate.left_slot], right.keys[predicate.right_slot]


def test_a_whole_query(tmp_path: Path):
    path = tmp_path / "query.yaml"
    path.write_text(TRIPS)
    assert load_query(path) == Query(
        name="farther-in-less-time",
        streams=(
            Stream(
                "trips",
                {"distance": DOUBLE, "air_time": DOUBLE},
                "time_hour",
                "flight_id",
                (key("distance"), key("air_time")),
            ),
        ),
        predicates=(
            Predicate(Op.GT, 0, 0, Domain.FLOAT, 0, "l.distance > r.distance"),
            Predicate(Op.LT, 1, 1, Domain.FLOAT, 0, "l.air_time < r.air_time"),
        ),
        window=RowWindow(100_000, 10_000),
        text=TRIPS,
        results=ResultContent(Output.PAIRS, 1000),
    )


def test_defaults():
    text = TRIPS.split("order:")[0].replace("    time: time_hour", "    #").replace("    key: flight_id", "    #")
    query = parse_query(text)
    assert (query.order, query.results) == (RowOrder(Order.ARRIVAL), ResultContent(Output.COUNT))
    assert (query.streams[0].time, query.streams[0].key, query.needs_time) == (None, None, False)


def test_a_file_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(ConfigurationError, match=r"no\.yaml can't be read.*give the path of a YAML file"):
        load_query(tmp_path / "no.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: q\n# caf\xe9\n")
    with pytest.raises(
        ConfigurationError, match=r"latin\.yaml, line 2: b'\\xe9' isn't UTF-8 text: save the query as UTF-8"
    ):
        load_query(tmp_path / "latin.yaml")


def test_an_error_names_the_source_before_the_line(tmp_path: Path):
    path = tmp_path / "wrong.yaml"
    path.write_text(TRIPS.replace("order: arrival", "order: arival"))
    with pytest.raises(QueryError) as caught:
        load_query(path)
    assert str(caught.value).startswith(f"{path}, line 11: unknown order 'arival'")
    assert caught.value.line == 11


@pytest.mark.parametrize(
    ("symbol", "op"),
    [("<", Op.LT), ("<=", Op.LE), (">", Op.GT), (">=", Op.GE), ("=", Op.EQ), ("!=", Op.NE), ("<>", Op.NE)],
)
def test_operators_in_either_order_of_operands(symbol: str, op: Op):
    assert only(f"l.i {symbol} r.g")[0].op is op
    predicate, left, right = only(f"r.i {symbol} l.g")
    assert (predicate.op, left.text, right.text) == (op.flipped, "g", "i")


@pytest.mark.parametrize(
    ("text", "op", "domain", "scale", "width"),
    [
        ("ABS(l.d - r.d) < 0.5", Op.BAND_LT, Domain.FLOAT, 0, 0.5),
        ("ABS(r.d - l.d) <= 0", Op.BAND_LE, Domain.FLOAT, 0, 0.0),
        ("1e-3 > abs(l.f - (r.d + 1))", Op.BAND_LT, Domain.FLOAT, 0, 1e-3),
        ("ABS(l.d + 5 - r.i) <= 0.1 + 0.2", Op.BAND_LE, Domain.FLOAT, 0, 0.1 + 0.2),
        ("ABS(l.i - r.g) < 5", Op.BAND_LT, Domain.INTEGER, 0, 5),
        ("ABS(l.i - r.g) < 4.5", Op.BAND_LT, Domain.INTEGER, 0, 5),
        ("ABS(l.i - r.g) <= 4.5", Op.BAND_LE, Domain.INTEGER, 0, 4),
        ("ABS(l.p - r.q) <= 0.25", Op.BAND_LE, Domain.INTEGER, 4, 2500),
        ("5 >= ABS((l.p) - r.p)", Op.BAND_LE, Domain.INTEGER, 2, 500),
        ("ABS(l.at - r.at) < INTERVAL '5 min'", Op.BAND_LT, Domain.INTEGER, 0, 300_000_000),
        ("ABS(l.at - r.at) < INTERVAL 2 SECOND", Op.BAND_LT, Domain.INTEGER, 0, 2_000_000),
        ("ABS(l.day - r.day) <= INTERVAL '1' DAY", Op.BAND_LE, Domain.INTEGER, 0, 1),
    ],
)
def test_bands(text: str, op: Op, domain: Domain, scale: int, width: float):
    predicate, left, right = only(text)
    assert (predicate.op, predicate.domain, left.domain, right.domain) == (op, domain, domain, domain)
    assert (left.scale, right.scale) == (scale, scale)
    assert predicate.width == width
    assert isinstance(predicate.width, float if domain is Domain.FLOAT else int)


@pytest.mark.parametrize(
    ("text", "domain", "scale"),
    [
        ("l.d < r.d", Domain.FLOAT, 0),
        ("l.f < r.d", Domain.FLOAT, 0),
        ("l.i < r.d", Domain.FLOAT, 0),
        ("l.f < r.i", Domain.FLOAT, 0),
        ("l.i + l.d < r.i", Domain.FLOAT, 0),
        ("l.i < r.i", Domain.INTEGER, 0),
        ("l.i < r.g", Domain.INTEGER, 0),
        ("l.g < r.p", Domain.INTEGER, 2),
        ("l.p < r.q", Domain.INTEGER, 4),
        ("l.day < r.day", Domain.INTEGER, 0),
        ("l.at < r.at", Domain.INTEGER, 0),
        ("l.i + 0.5 < r.i", Domain.INTEGER, 1),
        ("0.05 * l.p < r.p", Domain.INTEGER, 4),
        ("l.i < 0.001 * r.g", Domain.INTEGER, 3),
    ],
)
def test_domains_and_common_scales(text: str, domain: Domain, scale: int):
    predicate, left, right = only(text)
    assert {predicate.domain, left.domain, right.domain} == {domain}
    assert {left.scale, right.scale} == {scale}


def constant(value) -> Constant:
    return Constant(Fraction(value))


@pytest.mark.parametrize(
    ("text", "expression", "shown"),
    [
        ("l.a + 5", Arithmetic("+", Column("a"), constant(5)), "a + 5"),
        ("2 * l.a", Arithmetic("*", constant(2), Column("a")), "2 * a"),
        ("l.a / 4", Arithmetic("/", Column("a"), constant(4)), "a / 4"),
        ("-l.a", Arithmetic("-", constant(0), Column("a")), "-a"),
        ("l.a - -1.5", Arithmetic("-", Column("a"), constant("-1.5")), "a - -1.5"),
        ("((l.a))", Column("a"), "a"),
        (
            "l.a - 2 * (l.b + 1e2)",
            Arithmetic("-", Column("a"), Arithmetic("*", constant(2), Arithmetic("+", Column("b"), constant(100)))),
            "a - 2 * (b + 1e2)",
        ),
    ],
)
def test_expressions_stay_as_written(text: str, expression, shown: str):
    query = parse_query(
        TRIPS.replace("distance: double, air_time: double", "a: double, b: double").replace(
            "l.distance > r.distance AND l.air_time < r.air_time", f"{text} > r.a"
        )
    )
    first = query.streams[0].keys[0]
    assert (first.expression, first.text) == (expression, shown)


def test_moments_move_by_intervals():
    _, left, right = only("l.at + INTERVAL '5 min' > r.at - INTERVAL '1' HOUR")
    assert left.expression == Arithmetic("+", Column("at"), constant(300_000_000))
    assert right.expression == Arithmetic("-", Column("at"), constant(3_600_000_000))
    _, left, _ = only("INTERVAL '2 days' + l.day > r.day")
    assert left.expression == Arithmetic("+", Column("day"), constant(2))


def test_key_columns_are_shared():
    query = parse_query(
        TRIPS.replace("l.air_time < r.air_time", "l.distance != r.air_time AND (l.distance + 1 >= r.distance + 1)")
    )
    assert [[k.text for k in stream.keys] for stream in query.streams] == [
        ["distance", "distance + 1"],
        ["distance", "air_time", "distance + 1"],
    ]
    assert [(p.left_slot, p.right_slot) for p in query.predicates] == [(0, 0), (0, 1), (1, 2)]
    assert [k.text for k in query.inputs[0].keys] == [k.text for stream in query.streams for k in stream.keys]


def test_sides_that_take_the_same_of_one_stream_are_one():
    query = parse_query(TRIPS.replace("l.air_time < r.air_time", "l.air_time < r.distance AND l.distance < r.air_time"))
    assert [k.text for k in query.streams[0].keys] == ["distance", "air_time"]
    assert [(p.left_slot, p.right_slot) for p in query.predicates] == [(0, 0), (1, 0), (0, 1)]
    assert query.is_self


def test_one_column_in_two_domains_or_scales_is_two_keys():
    query = parse_query(typed("l.i < r.d AND l.i < r.i AND l.i < r.p"))
    assert [(k.domain, k.scale) for k in query.streams[0].keys] == [
        (Domain.FLOAT, 0),
        (Domain.INTEGER, 0),
        (Domain.INTEGER, 2),
    ]


def test_sides_follow_the_sql_not_the_list_of_streams():
    query = parse_query(typed("l.i < r.i").replace("FROM a AS l JOIN b AS r", "FROM b AS l INNER JOIN a AS r"))
    assert [stream.name for stream in query.streams] == ["b", "a"]
    assert parse_query(typed("a.i < b.i").replace("a AS l JOIN b AS r", "a JOIN b")).streams[0].name == "a"


@pytest.mark.parametrize(
    ("slide", "length", "window"),
    [
        ("10K", "100K", RowWindow(100_000, 10_000)),
        ("1", "7", RowWindow(7, 1)),
        ("1.5k", "3000", RowWindow(3000, 1500)),
        ("1M", "2M", RowWindow(2_000_000, 1_000_000)),
        ("1 min", "5 min", TimeWindow(300_000_000, 60_000_000)),
        ("1 us", "1 ms", TimeWindow(1000, 1)),
        ("0.5 sec", "1 SECOND", TimeWindow(1_000_000, 500_000)),
        ("30 minutes", "2 hours", TimeWindow(7_200_000_000, 1_800_000_000)),
        ("1hour", "1 day", TimeWindow(86_400_000_000, 3_600_000_000)),
    ],
)
def test_windows(slide: str, length: str, window: Window):
    text = typed("l.i < r.i").replace("'10' ON '100'", f"'{slide}' ON '{length}'")
    assert parse_query(text).window == window


@pytest.mark.parametrize(
    "sql",
    [
        "select * from trips l join trips r on l.distance > r.distance window as (slide interval '1' on '10');",
        "SELECT * FROM trips AS l -- WINDOW AS (nothing)\n  JOIN trips AS r ON l.distance > r.distance /* ( */\n"
        "  WINDOW /* x */ AS\n  ( SLIDE -- y\n  INTERVAL '1'\n  ON '10' )",
        "SELECT * FROM trips AS l JOIN trips AS r WINDOW AS (SLIDE INTERVAL '1' ON '10') ON l.distance > r.distance",
    ],
)
def test_the_window_clause_in_other_spellings(sql: str):
    query = parse_query(TRIPS.split("sql:")[0] + f"sql: |\n  {sql}\n")
    assert query.window == RowWindow(10, 1)
    assert [p.op for p in query.predicates] == [Op.GT]


@pytest.mark.parametrize("more", ["[1][1]", ", w AS (x)", "AND l.distance < 3", "+ 1"])
def test_nothing_but_a_clause_follows_the_window(more: str):
    text = typed("l.i < r.i").replace("ON '100')", f"ON '100') {more}")
    with pytest.raises(QueryError, match=r"window: '.+' follows, expected the end, another clause or a semicolon"):
        parse_query(text)


@pytest.mark.parametrize("name", ["window", "date", "time", "order", "left"])
def test_columns_named_like_keywords(name: str):
    text = TRIPS.replace("air_time: double", f"{name}: double").replace(
        "l.air_time < r.air_time", f"l.{name} < r.{name}"
    )
    assert parse_query(text).streams[0].keys[1].text.strip('"') == name


def test_quoted_names():
    text = TRIPS.replace("trips", "my-trips").replace("air_time: double", "air time: double")
    text = (
        text.replace("air_time", '"air time"')
        .replace("FROM my-trips", 'FROM "my-trips"')
        .replace("JOIN my-", 'JOIN "my-')
    )
    text = text.replace('"my-trips AS', '"my-trips" AS')
    query = parse_query(text)
    assert query.streams[0].name == "my-trips"
    assert query.streams[0].keys[1].expression == Column("air time")


def test_decimals_within_braces_and_without_scale():
    schema = parse_query(typed("l.p < r.q")).streams[1].schema
    assert schema["p"] == ColumnType(TypeName.DECIMAL, 10, 2)
    assert schema["q"] == ColumnType(TypeName.DECIMAL, 18, 4)
    assert list(schema) == ["i", "g", "f", "d", "p", "q", "day", "at"]
    whole = parse_query(typed("l.p < r.q").replace("p: decimal(10,2)\n", "p: DECIMAL(5)\n"))
    assert whole.streams[0].schema["p"] == ColumnType(TypeName.DECIMAL, 5, 0)


@pytest.mark.parametrize(("text", "expected"), [("5 s", 5_000_000), ("'250 ms'", 250_000), ("0", 0)])
def test_lateness(text: str, expected: int):
    assert parse_query(typed("l.i < r.i") + f"lateness: {text}\n").order.lateness_us == expected


def test_event_time_waits_for_every_input_unless_the_query_says_for_how_long():
    query = typed("l.i < r.i")
    assert parse_query(query).order.idle_timeout_us is None
    assert parse_query(f"{query}idle_timeout: 5 s\n").order.idle_timeout_us == 5_000_000


def test_pairs_with_a_limit():
    query = parse_query(TRIPS)
    assert (query.results.output, query.results.limit) == (Output.PAIRS, 1000)


def test_forty_predicates():
    query = parse_query(typed(" AND ".join(f"l.i + {k} < r.i" for k in range(40))))
    assert len(query.predicates) == 40
    assert len(query.streams[0].keys) == 40
    assert len(query.streams[1].keys) == 1


def test_comments_and_text_do_not_change_a_query():
    plain = parse_query(TRIPS)
    other = parse_query("# a comment\n" + TRIPS)
    assert replace(other, text=plain.text) == plain
