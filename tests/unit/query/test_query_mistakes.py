"""Every mistake is reported with its line, its name and what was expected."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.errors import QueryError
from spojoin.query.load import parse_query
from tests.support.query_texts import TRIPS, typed


def mistake(text: str) -> tuple[int | None, str]:
    with pytest.raises(QueryError) as caught:
        parse_query(text)
    return caught.value.line, str(caught.value)


DOCUMENT = [
    ("", "", 1, "empty"),
    ("name: farther-in-less-time", "name: [a, b", 2, "not valid YAML"),
    ("name: farther-in-less-time", "- a", None, "not valid YAML"),
    ("name: farther-in-less-time\n", "", 1, "missing option 'name'"),
    ("name: farther-in-less-time", "name: far ther", 1, "name 'far ther'", "a-z"),
    ("name: farther-in-less-time", "name:", 1, "name: expected a name"),
    ("name: farther-in-less-time", "name: in", 1, "name 'in'"),
    ("name: farther-in-less-time", f"name: {'x' * 201}", 1, "1 to 200"),
    ("name: farther-in-less-time", "nam: x", 1, "unknown option of the query 'nam'", "did you mean 'name'?"),
    ("order: arrival", "name: again", 11, "'name' is given twice, first in line 1"),
    ("order: arrival", "order: event-time", 11, "unknown order 'event-time'", "arrival or event_time", "'event_time'?"),
    ("order: arrival", "order: [arrival]", 11, "order: expected arrival or event_time"),
    (
        "output: pairs",
        "output: Pairs",
        12,
        "unknown output 'Pairs'",
        "count, pairs, bitmap or rows",
        "did you mean 'pairs'?",
    ),
    ("limit: 1000", "limit: 0", 13, "limit '0'", "an integer from 1 to"),
    ("limit: 1000", "limit: -3", 13, "limit '-3'"),
    ("limit: 1000", "limit: 1.5", 13, "limit '1.5'"),
    ("limit: 1000", "limit: many", 13, "limit 'many'"),
    ("output: pairs", "output: bitmap", 13, "limit needs 'output: pairs'", "a bitmap is never cut"),
    ("output: pairs", "output: count", 13, "limit needs 'output: pairs'", "a count is never cut"),
    ("output: pairs", "", 13, "limit needs 'output: pairs'", "a count is never cut"),
    ("limit: 1000", "method: scan\nlayout: {name: batch, workers: 3}", 14, "workers: 3 has no effect", "remove it"),
    ("limit: 1000", "method: {name: spo_paper, hop_ms: 2}", 13, "hop_ms belongs to a simulation", "loadgen papers"),
    (
        "limit: 1000",
        "method: {name: spo_paper, state: size_broadcast_unsafe}",
        13,
        "state belongs to a simulation that answers wrongly",
        "which runs in `loadgen papers` alone",
    ),
    ("limit: 1000", "lateness: 5", 13, "lateness '5'", "'5 s'"),
    ("limit: 1000", "idle_timeout: 0 s", 13, "idle_timeout '0 s'", "'5 s'"),
    ("limit: 1000", "idle_timeout: 5 s", 13, "idle_timeout needs event-time order", "order: event_time"),
    ("limit: 1000", "lateness: 5 s", 13, "lateness needs event-time order", "order: event_time"),
    ("limit: 1000", "lateness: 40000 days", 13, "at most 10 years"),
]

STREAMS = [
    ("  trips:\n", "  tr ips:\n", 3, "stream name 'tr ips'"),
    ("  trips:\n", "  trips:\n    schema: {a: int}\n  trips:\n", 5, "'trips' is given twice, first in line 3"),
    ("  trips:\n", "  spare:\n    schema: {a: int}\n  trips:\n", 3, "stream 'spare' isn't used"),
    ("    schema: {distance: double, air_time: double}\n", "", 3, "stream trips: missing option 'schema'"),
    ("{distance: double, air_time: double}", "{}", 4, "schema is empty"),
    ("{distance: double, air_time: double}", "[distance]", 4, "schema of stream trips: expected columns"),
    ("air_time: double", "distance: int", 4, "'distance' is given twice"),
    ("air_time: double", "air_time: duble", 4, "column 'air_time': unknown type 'duble'", "did you mean 'double'?"),
    ("air_time: double", "air_time: timestamptz(Berlin)", 4, "no time zone is called 'Berlin'", "'Europe/Berlin'"),
    ("air_time: double", "air_time: number", 4, "type 'number' has no number of digits", "write 'decimal(p,s)'"),
    ("air_time: double", "air_time: numeric(40,2)", 4, "decimal(40,2) is out of range", "1 <= p <= 38"),
    ("air_time: double", "air_time: timestamp(3)", 4, "a number of digits of a second", "timestamp(s), timestamp(ms)"),
    ("air_time: double", "air_time: timestamp(m)", 4, "unknown type 'timestamp(m)'", "did you mean 'timestamp(ms)'?"),
    ("air_time: double", "air_time: decimal", 4, "write 'decimal(p,s)'"),
    ("air_time: double", "air_time: decimal(39,2)", 4, "decimal(39,2) is out of range", "1 <= p <= 38"),
    ("air_time: double", "air_time: decimal(4,5)", 4, "decimal(4,5) is out of range"),
    ("air_time: double", "air_time:", 4, "air_time: expected a type"),
    ("    time: time_hour", "    tme: time_hour", 5, "unknown option of stream trips 'tme'", "did you mean 'time'?"),
    ("    time: time_hour", "    time: distance", 5, "time column 'distance' is declared as double", "timestamp"),
    ("    time: time_hour", "    time:", 5, "time: expected the name of a column"),
    ("    key: flight_id", "    key: [a]", 6, "key: expected the name of a column"),
]

WINDOWS = [
    ("  WINDOW AS (SLIDE INTERVAL '10K' ON '100K')\n", "", 9, "missing WINDOW", "SLIDE INTERVAL"),
    ("'100K')", "'100K'", 10, "window: the clause is incomplete"),
    ("SLIDE INTERVAL", "TUMBLE INTERVAL", 10, "window: found 'TUMBLE'", "(SLIDE"),
    ("'10K' ON", "10 ON", 10, "window: found '10'", "(SLIDE INTERVAL '10' ON '100K')"),
    ("SLIDE INTERVAL '10K' ON", "INTERVAL", 10, "window: found 'INTERVAL'", "(SLIDE INTERVAL '1' ON '100K')"),
    ("SLIDE INTERVAL '10K' ON '100K'", "ROWS 9 PRECEDING", 10, "found 'ROWS'", "(SLIDE INTERVAL '1' ON '9')"),
    ("'10K' ON '100K'", "1 MINUTE ON '5' MINUTE", 10, "found '1'", "(SLIDE INTERVAL '1 MINUTE' ON '5 MINUTE')"),
    ("SLIDE INTERVAL '10K' ON '100K'", "RANGE INTERVAL '9 s'", 10, "found 'RANGE'", "INTERVAL '1 ms' ON '9 s'"),
    ("SLIDE INTERVAL '10K' ON '100K'", "SIZE '100K', '10K'", 10, "found 'SIZE'", "(SLIDE INTERVAL '10K' ON '100K')"),
    ("AS (SLIDE INTERVAL '10K'", "(SLIDE INTERVAL '1K'", 10, "found '('", "AS (SLIDE INTERVAL '1K' ON '100K')"),
    ("SLIDE INTERVAL '10K' ON '100K'", "ROWS 5 PRECEDING, 10 FOLLOWING", 10, "found 'ROWS', expected WINDOW AS (S"),
    ("SLIDE INTERVAL '10K' ON", "LAST '3' OF", 10, "found 'LAST', expected WINDOW AS (SLIDE INTERVAL '10K' ON"),
    ("'10K' ON '100K'", "'30K' ON '100K'", 10, "slide '30K' doesn't divide the length '100K'"),
    ("'10K' ON '100K'", "'100K' ON '10K'", 10, "slide '100K' doesn't divide the length '10K'"),
    ("'10K' ON '100K'", "'0' ON '100K'", 10, "slide '0' is zero"),
    ("'10K' ON '100K'", "'1' ON '0'", 10, "length '0' is zero"),
    ("'10K' ON '100K'", "'1.5' ON '3'", 10, "slide '1.5' is neither a count nor a duration"),
    ("'10K' ON '100K'", "'-1' ON '3'", 10, "slide '-1'"),
    ("'10K' ON '100K'", "'10G' ON '100K'", 10, "slide '10G'"),
    ("'10K' ON '100K'", "'1 m' ON '5 m'", 10, "slide '1 m'", "'1 min'"),
    ("'10K' ON '100K'", "'1 min' ON '100K'", 10, "differ in kind"),
    ("'10K' ON '100K'", "'1 min' ON '5 min'", 11, "a time window needs event-time order", "order: event_time"),
    ("'10K' ON '100K'", "'1M' ON '2000M'", 10, "length '2000M' is too large"),
    ("'10K' ON '100K'", "'1 day' ON '4000 days'", 10, "length '4000 days' is too large"),
    ("ON '100K')", "ON '100K') WINDOW AS (SLIDE INTERVAL '1' ON '2')", 10, "WINDOW is written twice"),
    ("'10K' ON '100K'", "'10K' ON '100K", None, "sql"),
]

STATEMENTS = [
    ("SELECT *", "SELECT l.distance", 12, "output pairs has columns of its own", "expected SELECT *, or no output"),
    ("SELECT * FROM", "DELETE FROM", 8, "SELECT"),
    ("FROM trips AS l", "FROM trip AS l", 8, "unknown stream 'trip'", "did you mean 'trips'?"),
    ("JOIN trips AS r", "POSITIONAL JOIN trips AS r", 8, "POSITIONAL JOIN isn't supported", "FULL JOIN"),
    ("JOIN trips AS r\n  ON", "JOIN trips AS r WHERE", 8, "missing ON: expected conditions after it"),
    ("AS l JOIN trips AS r", "AS x JOIN trips AS x", 8, "both sides are called 'x'"),
    ("AS l JOIN trips AS r", "JOIN trips", 8, "both sides are called 'trips'"),
    ("JOIN trips AS r", "JOIN (SELECT * FROM trips) AS r", 8, "is no stream"),
    ("JOIN trips AS r", "JOIN db.trips AS r", 8, "'db.trips AS r' is no stream"),
    (" JOIN trips AS r\n  ON l.distance > r.distance AND l.air_time < r.air_time", "", 8, "joins 1 streams"),
    ("ON l.distance > r.distance AND l.air_time < r.air_time", "", 8, "missing ON"),
    ("ON l.distance > r.distance AND l.air_time < r.air_time", "USING (far)", 9, "unknown column", "'far'"),
    ("r.air_time\n", "r.air_time JOIN trips AS z ON 1 = 1\n", 8, "joins 3 streams"),
    ("r.air_time\n", "r.air_time LIMIT 5\n", 9, "LIMIT isn't supported"),
    ("r.air_time\n", "r.air_time GROUP BY l\n", 12, "output pairs gives pairs as they come"),
    ("AND l.air_time <", "AND l.air_time < AND", 9, "sql can't be read near 'AND'"),
    ("AND l.air_time <", "AND ABS(l.air_time, (2)) <", 9, "ABS has 2 arguments: expected one"),
    ("AND l.air_time <", "AND ROUND() <", 9, "ROUND lacks an argument"),
    ("AND l.air_time <", "AND DATE_DIFF('minute', l.x) <", 9, "DATE_DIFF lacks an argument"),
    ("'100K')", "'100K'); SELECT 1", 8, "sql must be one SELECT"),
]

PREDICATES = [
    ("l.x < r.i", "unknown column of stream a 'x'", "expected i, g, f, d, p, q, day or at"),
    ("l.i < r.dya", "unknown column of stream b 'dya'", "did you mean 'day'?"),
    ("l.i < s.i", "unknown alias 's'", "expected l or r"),
    ("a.i < r.i", "unknown alias 'a'"),
    ("i < r.i", "column 'i' doesn't name its side", "expected l.i or r.i"),
    ("l.i = r.i + 'x'", "text 'x' can't be compared"),
    ("l.d / 0 < r.d", "divides by zero"),
    ("l.d / (1 - 1) < r.d", "divides by zero"),
    ("l.day < r.i", "compares date 'l.day' with number 'r.i'"),
    ("l.i < r.at", "compares number 'l.i' with timestamp 'r.at'"),
    ("l.day * 2 < r.day", "'l.day * 2' is date * number", "INTERVAL"),
    ("-l.day < r.day", "a date has no negative"),
    ("l.at - l.at < r.at", "is timestamp - timestamp"),
    ("INTERVAL '1 day' - l.at < r.at", "is interval - timestamp"),
    ("l.i + INTERVAL '1 day' < r.i", "is number + interval"),
    ("l.at + INTERVAL '5 parsecs' < r.at", "interval '5 parsecs'", "'1 min'"),
    ("ABS(l.d - r.d) < 0", "band width '0' must be more than 0"),
    ("ABS(l.d - r.d) <= -1", "band width '-1' must be at least 0"),
    ("ABS(l.i - r.i) <= -0.5", "must be at least 0"),
    ("ABS(l.d - r.d) < 1e309", "beyond doubles", "finite"),
    ("ABS(l.d - r.d) < 1e-400", "band width '1e-400' must be more than 0"),
    ("ABS(l.i - r.i) < 1e19", "beyond 64-bit integers"),
    ("ABS(l.at - r.at) < 5", "band width '5'", "INTERVAL"),
    ("ABS(l.i - r.i) < INTERVAL '5 s'", "expected a number"),
    ("ABS(l.day - r.day) < INTERVAL '5 s'", "whole days"),
    ("ABS(l.d - r.d) < 1 / 0", "divides by zero"),
    ("l.d < r.d + 1e999", "1e999"),
    ("l.d < r.d + 1e350", "beyond doubles"),
    ("l.i < r.i + 1e30", "beyond 64-bit integers"),
    ("l.i < 1e30 * r.i", "beyond 64-bit integers"),
    ("l.i < r.i + 1e-19", "needs 19 digits after the point"),
    ("l.q < 1e-15 * r.q", "needs 19 digits"),
    ("l.i < r.day", "compares number 'l.i' with date 'r.day'", "expected two numbers, two dates or two timestamps"),
    ("l.i % 2 < r.day", "compares int 'l.i % 2' with date 'r.day'", "CAST(... AS int)"),
    ("lower(l.i) < r.d", "'LOWER(l.i)'", "No function matches"),
    ("ABS(l.i * 2 - sqrt(r.i)) < 'x'", "band width ''x''", "expected a finite number"),
    ("ABS(l.i % 2 - r.i) < -1", "band width '-1' must be more than 0"),
    ("ABS(l.i % 2 - r.i) < 1e300", "band width '1e300' is beyond 64-bit integers"),
    ("ABS(CAST(l.at AS DATE) - r.day) < 3", "band width '3'", "INTERVAL '1 day'"),
    ("ABS(CAST(l.at AS DATE) - r.day) < INTERVAL '5 s'", "whole days"),
    ("l.i < r.i AND l.i + 1", "'l.i + 1' is a int, no condition: expected a comparison"),
    ("l.i < r.i AND 1 > 2", "'1 > 2' names no column and isn't true", "remove it"),
    ("l.i < r.i AND NULL", "'NULL' names no column and isn't true"),
    ("l.i < r.i AND l.i = 'x'", "'l.i = 'x''", "'x'"),
    ("l.i < r.i AND l.d > random()", "function random() gives another value at each call"),
    ("l.i < r.i AND r.at < now()", "function now() gives another value at each call"),
    ("l.i < r.i AND sum(l.i) > 5", "'SUM(l.i)' is an aggregate: expected functions of single values"),
    ("l.i < r.i AND row_number() OVER () > 5", "is a window function"),
    ("l.i < r.i AND l.i IN (SELECT 1)", "is a query within the query"),
    ("l.i < r.i AND l.i < ?", "'?' is a parameter: expected a value"),
    ("l.i < r.i AND nothing(l.i)", "no function is called NOTHING"),
    ("l.i < r.i AND l.i", "'l.i' is a int, no condition: expected a comparison"),
    ("l.i < r.i AND l.i LIKE r.i", "'l.i LIKE r.i': No function matches"),
    ("l.i", "no condition compares both sides, 'l.i' names only l"),
    (f"l.i < r.i + {'(' * 2000}1{')' * 2000}", ""),
]

#: Conditions that filter rows or pairs, but say nothing that an index could look for.
WITHOUT_INDEX = [
    ("l.i < 5", "no condition compares both sides, 'l.i < 5' names only l"),
    ("l.i < l.g", "no condition compares both sides, 'l.i < l.g' names only l"),
    ("r.i < 5", "'r.i < 5' names only r"),
    ("l.i < 5 AND r.i > 7", "'l.i < 5' names one side"),
    ("1 < 2", "'1 < 2' names no column"),
    ("l.i IS NULL", "'l.i IS NULL' names only l"),
    ("ABS(l.d) < 1", "'ABS(l.d) < 1' names only l"),
    ("ABS(l.d - l.i) < 1", "'ABS(l.d - l.i) < 1' names only l"),
    ("l.d + r.d < r.g", "'l.d + r.d < r.g' can only filter pairs that an index finds"),
    ("l.d < r.g - l.g", "'l.d < r.g - l.g' can only filter pairs"),
    ("l.i < r.i OR l.g < r.g", "'l.i < r.i OR l.g < r.g' can only filter pairs"),
    ("l.i NOT BETWEEN r.i AND r.g", "'NOT l.i BETWEEN r.i AND r.g' can only filter pairs"),
    ("ABS(l.d - r.d) > 1", "'ABS(l.d - r.d) > 1' can only filter pairs"),
    ("ABS(l.d - r.d) = 1", "'ABS(l.d - r.d) = 1' can only filter pairs"),
    ("1 < ABS(l.d - r.d)", "'1 < ABS(l.d - r.d)' can only filter pairs"),
    ("ABS(l.d + r.d) < 1", "'ABS(l.d + r.d) < 1' can only filter pairs"),
    ("ABS(l.d - r.d - 1) < 1", "'ABS(l.d - r.d - 1) < 1' can only filter pairs"),
    ("ABS(l.d - r.d) < l.i", "'ABS(l.d - r.d) < l.i' can only filter pairs"),
    ("l.seq < r.seq", "'l.seq < r.seq' can only filter pairs"),
    ("l.seq < 5", "'l.seq < 5' can only filter pairs"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "parts"),
    [(old, new, line, parts) for old, new, line, *parts in [*DOCUMENT, *STREAMS, *WINDOWS, *STATEMENTS]],
)
def test_mistakes_in_a_file(old: str, new: str, line: int | None, parts: list[str]):
    assert old in TRIPS
    found, message = mistake(TRIPS.replace(old, new, 1) if old else new)
    assert [part for part in parts if part not in message] == [], message
    assert line is None or (found == line and re.search(rf"line {line}(, column \d+)?: ", message)), message


@pytest.mark.parametrize(("predicate", "parts"), [(predicate, parts) for predicate, *parts in PREDICATES])
def test_mistakes_in_a_predicate(predicate: str, parts: list[str]):
    found, message = mistake(typed(predicate))
    assert [part for part in parts if part not in message] == [], message
    assert found in (19, None), message


@pytest.mark.parametrize(("predicate", "part"), WITHOUT_INDEX)
def test_conditions_that_no_index_can_look_for_are_not_enough(predicate: str, part: str):
    found, message = mistake(typed(predicate))
    assert part in message
    assert "expected a comparison of an expression of l with one of r, such as l.a < r.a or ABS(" in message
    assert found == 19
    assert parse_query(typed(f"l.i < r.i AND ({predicate})")).predicates


@pytest.mark.parametrize(
    ("predicate", "column"),
    [
        ("l.x < r.i", 6),
        ("l.i < r.i AND l.g > r.nothing", 26),
        ("l.i < r.i AND l.d > 2 * random()", 30),
        ("l.i < r.i AND NOT coalesce(sum(l.g), 1) > 1", 33),
        ("l.i < r.i AND l.i + 1", 20),
        ("l.i < r.i AND lower(l.i) = 'a'", 20),
        ("l.i < r.i AND 1 > 2", 20),
        ("ABS(l.d - r.d) < -1", 6),
        ("l.i < AND l.g < r.g", 12),
        ("l.i < r.i LIMIT 5", 22),
    ],
)
def test_the_column_of_a_mistake(predicate: str, column: int):
    """Columns count the file's characters: the statement is indented by two, and ON comes before the predicate."""
    with pytest.raises(QueryError) as caught:
        parse_query(typed(predicate))
    assert (caught.value.line, caught.value.column) == (19, column), caught.value
    assert f"query, line 19, column {column}: " in str(caught.value)


def test_the_column_of_a_name_of_a_stream_and_of_the_end():
    with pytest.raises(QueryError) as caught:
        parse_query(typed("l.i < r.i").replace("JOIN b AS", "JOIN c AS"))
    assert (caught.value.line, caught.value.column) == (18, 29)
    with pytest.raises(QueryError) as caught:
        parse_query(typed("l.i < r.i").replace("'10' ON '100'", "'10' ON '105'"))
    assert (caught.value.line, caught.value.column) == (20, 3)


def test_a_mistake_of_the_yaml_has_a_line_alone():
    with pytest.raises(QueryError) as caught:
        parse_query(TRIPS.replace("order: arrival", "order: event-time"))
    assert (caught.value.line, caught.value.column) == (11, None)


def test_streams_must_be_a_mapping():
    found, message = mistake("name: x\nsql: SELECT\nstreams: [a]\n")
    assert found == 3
    assert "streams: expected stream names" in message


def test_the_line_of_a_predicate_on_a_later_line():
    assert mistake(typed("l.i < r.i -- one\n    AND l.g >= r.g\n\n    AND l.nothing != r.d"))[0] == 22
    assert mistake(typed("l.i < r.i\n  AND (l.g >= r.g\n  OR\n  l.d < r.none)"))[0] == 22


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("sql: >\n  SELECT * FROM a\n  AS l JOIN b AS r\n  ON l.none < r.i\n", 5, 6),
        ("sql: >-  # folded\n\n  SELECT * FROM a\n  AS l JOIN b AS r\n\n  ON l.none < r.i\n", 7, 6),
        ("sql: SELECT * FROM a\n  AS l JOIN b AS r\n  ON l.none < r.i\n", 4, 6),
        ("sql: SELECT * FROM a AS l JOIN b AS r ON l.none < r.i\n", 2, 42),
        ('sql: "SELECT * FROM a\n  AS l JOIN b AS r\n  ON l.none < r.i\n', 4, 6),
        ('sql: "SELECT * FROM a AS l JOIN b AS r ON l.none < r.i\n', 2, 43),
        ("sql: 'SELECT * FROM a\n  AS l JOIN b AS r\n  ON l.none < r.i\n", 4, 6),
        ("sql: 'SELECT * FROM a AS l JOIN b AS r ON ''a'' <> ''b'' AND l.none < r.i\n", 2, 62),
        ("sql: |2-\n\n  SELECT * FROM a AS l JOIN b AS r\n  ON l.none < r.i\n", 5, 6),
        ("sql: |\n    SELECT * FROM a AS l JOIN b AS r\n\n      ON   l.none < r.i\n    ", 5, 12),
        ("sql:\n  |\n  SELECT * FROM a AS l JOIN b AS r\n  ON l.none < r.i\n", 5, 6),
    ],
)
def test_places_in_every_style_of_text(sql: str, line: int, column: int):
    quote = {'"': '"', "'": "'"}.get(sql[5], "")
    inner = "''1''" if quote == "'" else "'1'"
    tail = f"  WINDOW AS (SLIDE INTERVAL {inner} ON {inner}){quote}\n"
    head = "name: x\n"
    text = head + sql + tail + "streams: {a: {schema: {i: int}}, b: {schema: {i: int}}}\n"
    found, message = mistake(text)
    assert "unknown column of stream a 'none'" in message
    assert found == line, message
    assert f"line {line}, column {column}: " in message


def test_missing_time_columns():
    text = typed("l.i < r.i").replace("    time: at\n  b:", "  b:")
    found, message = mistake(text)
    assert found == 3
    assert "stream a: missing time column" in message
    assert "time: <column>" in message
    text = typed("l.i < r.i").replace("    time: at\nsql", "sql").replace("'10' ON '100'", "'1 s' ON '10 s'")
    assert mistake(text)[0] == 14


def test_a_time_window_without_an_order():
    text = typed("l.i < r.i").replace("order: event_time\n", "").replace("'10' ON '100'", "'1 s' ON '10 s'")
    found, message = mistake(text)
    assert found == 17
    assert "add 'order: event_time'" in message


PIECES = [
    "l.i",
    "r.*",
    "*",
    "(",
    ")",
    "'",
    '"',
    "AND",
    "WINDOW",
    "ABS(",
    "INTERVAL",
    "--",
    ";",
    "\n",
    ":",
    "{",
    "}",
    "1e9",
    "<",
    "NOT",
]


@given(st.integers(0, 600), st.integers(0, 12), st.sampled_from(["", *PIECES]))
def test_a_broken_query_is_a_query_error_or_a_query(at: int, length: int, piece: str):
    """Whatever is cut out or inserted, only a QueryError is raised."""
    text = typed("ABS(l.i - r.i) < 5 AND (l.d + 1) >= 2 * r.d")
    at = min(at, len(text))
    said = None
    try:
        assert parse_query(text[:at] + piece + text[at + length :]).predicates
    except QueryError as error:
        said = str(error)
    assert said is None or said.startswith("query, ")
