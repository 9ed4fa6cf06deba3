"""The options `key` and `trace`: what they need, what they mean, and that nothing else pays for them."""

from dataclasses import replace

import pytest

from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.input_options import check_without_kafka
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import TRACE
from spojoin.query.fingerprint import differences, fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.registry import check_single_rows

TEXT = """name: q
streams:
  a: {schema: {x: long, y: string}}
  b: {schema: {x: long}}
sql: |
  SELECT l.y AS name, r.x FROM a AS l JOIN b AS r ON l.x < r.x
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
COUNTS = TEXT.replace("l.y AS name, r.x", "*")


@pytest.mark.parametrize(("said", "named"), [("name", "name"), ("NAME", "name"), ("x", "x")])
def test_a_key_is_a_column_of_results(said, named):
    assert parse_query(f"{TEXT}key: {said}\n").results.key == named


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (f"{TEXT}key: nam\n", 8, "did you mean 'name'"),
        (f"{TEXT}key: y\n", 8, "unknown column of results 'y'"),
        (f"{TEXT}key: [name]\n", 8, "the name of a column of results"),
        (f"{COUNTS}key: x\n", 8, "key needs 'output: rows'"),
        (f"{COUNTS}output: pairs\nkey: left_key\n", 9, "key needs 'output: rows'"),
        (f"{COUNTS}trace: true\n", 8, "trace needs 'output: rows'"),
        (f"{TEXT}trace: yes please\n", 8, "unknown trace 'yes please'"),
        (TEXT.replace("y: string", "y: string, headers: long") + "trace: true\n", 8, "another name"),
    ],
)
def test_mistakes(text, line, sentence):
    with pytest.raises(QueryError, match=sentence) as caught:
        parse_query(text)
    assert caught.value.line == line


def test_a_trace_travels_with_the_rows_only_where_it_is_asked_for():
    plain, traced = parse_query(f"{TEXT}trace: false\n"), parse_query(f"{TEXT}trace: true\n")
    assert [stream.payload for stream in plain.streams] == [("y",), ("x",)]
    assert [stream.payload for stream in traced.streams] == [("y", TRACE), ("x", TRACE)]
    assert "headers" in arrow_schema(traced.streams[1]).names
    assert "headers" not in arrow_schema(plain.streams[1]).names


def test_both_are_part_of_the_meaning_and_their_absence_is_none():
    plain, keyed, traced = (parse_query(TEXT + more) for more in ("", "key: name\n", "trace: true\n"))
    assert differences(plain, keyed) == ["key of results was nothing, is name"]
    assert len({fingerprint(each) for each in (plain, keyed, traced)}) == 3
    assert fingerprint(parse_query(f"{TEXT}trace: false\n")) == fingerprint(plain)
    assert fingerprint(replace(keyed, results=replace(keyed.results, key=None))) == fingerprint(plain)


@pytest.mark.parametrize("more", ["key: name\n", "trace: true\n"])
def test_frames_have_neither(more):
    query = parse_query(TEXT + more)
    check_single_rows(query, "json")
    with pytest.raises(ConfigurationError, match="results_format is frames"):
        check_single_rows(query, "frames")
    check_single_rows(parse_query(TEXT), "frames")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{TEXT}trace: true\n", "trace: true"),
        (TEXT.replace("l.y AS name", "l.headers['a'] AS name"), "stream 'a': the statement names 'headers'"),
        (TEXT.replace("ON l.x < r.x", "ON l.x < r.x AND l.y = r.headers['a']"), "stream 'b': the statement names"),
        (TEXT.replace("ON l.x < r.x", "ON l.x < r.x WHERE l.headers['a'] = 'b'"), "stream 'a': the statement names"),
    ],
)
def test_files_have_no_headers(text, said):
    with pytest.raises(ConfigurationError, match=said):
        check_without_kafka(parse_query(text))


def test_a_column_called_headers_is_any_column():
    check_without_kafka(parse_query(TEXT.replace("y: string", "headers: string").replace("l.y", "l.headers")))
