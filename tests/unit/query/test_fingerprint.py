"""Two queries share a fingerprint iff they mean the same."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spojoin.query.fingerprint import differences, fingerprint, is_same_order, meaning
from spojoin.query.load import parse_query

QUERY = """\
name: sensors
streams:
  warm:
    schema: {draw: double, cooling: decimal(8,2), at: timestamp}
    time: at
    key: id
  cold:
    schema: {draw: double, cooling: decimal(8,2), at: timestamp}
    time: at
sql: |
  SELECT * FROM warm AS l JOIN cold AS r
  ON l.draw + 1 < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '10' ON '2K')
order: event_time
lateness: 2 seconds
output: pairs
limit: 5
"""
ONE = parse_query(QUERY)

SAME = {
    "how long an idle input is waited for": ("lateness: 2 seconds", "lateness: 2 seconds\nidle_timeout: 1 min"),
    "a comment": ("order: event_time", "# why\norder: event_time   # so"),
    "spacing in SQL": ("l.draw + 1 < r.draw AND", "l.draw+1<r.draw\n    AND"),
    "a comment in SQL": ("SELECT *", "/* all of it */ SELECT *"),
    "small letters": ("SELECT * FROM warm AS l JOIN cold AS r", "select * from warm as l join cold as r"),
    "aliases": ("warm AS l JOIN cold AS r\n  ON l.draw + 1 < r.draw AND l.cooling >= r.cooling",
                "warm AS w JOIN cold AS c\n  ON w.draw + 1 < c.draw AND w.cooling >= c.cooling"),
    "a condition turned round": ("l.cooling >= r.cooling", "r.cooling <= l.cooling"),
    "numbers written out": ("'2K'", "'2000'"),
    "another unit": ("2 seconds", "2000 milliseconds"),
    "how it is searched": ("order: event_time", "order: event_time\nmethod: pim_tree"),
    "flow style": ("    time: at\n    key: id\n", "    'time': \"at\"\n    key: 'id'\n"),
}  # fmt: skip

CHANGED = {
    "a type": ("schema: {draw: double, cooling: decimal(8,2), at: timestamp}\n    time: at\n    key: id",
               "schema: {draw: float, cooling: decimal(8,2), at: timestamp}\n    time: at\n    key: id",
               "type of warm.draw was double, is float"),
    "a scale": ("    schema: {draw: double, cooling: decimal(8,2), at: timestamp}\n    time: at\nsql",
                "    schema: {draw: double, cooling: decimal(8,1), at: timestamp}\n    time: at\nsql",
                "type of cold.cooling was decimal(8,2), is decimal(8,1)"),
    "the order of columns": ("{draw: double, cooling: decimal(8,2), at: timestamp}\n    time: at\n    key",
                             "{cooling: decimal(8,2), draw: double, at: timestamp}\n    time: at\n    key",
                             "columns of warm was draw, cooling, at, is cooling, draw, at"),
    "an envelope": ("    key: id\n", "    key: id\n    envelope: after\n", "envelope of warm was nothing, is after"),
    "the record's time": ("    time: at\n    key", "    time: record\n    key", "time of warm was at, is record"),
    "a column more": ("cooling: decimal(8,2), at: timestamp}\n    time: at\n    key",
                      "cooling: decimal(8,2), at: timestamp, more: int}\n    time: at\n    key",
                      "type of warm.more was nothing, is int"),
    "a key": ("    key: id\n", "", "key of warm was id, is nothing"),
    "an operator": ("<", "<=", "condition was (left.draw + 1) < right.draw"),
    "a constant": ("+ 1", "+ 2", "condition was (left.draw + 1)"),
    "an arithmetic sign": ("+ 1", "- 1", "(left.draw - 1)"),
    "the order of conditions": ("l.draw + 1 < r.draw AND l.cooling >= r.cooling",
                                "l.cooling >= r.cooling AND l.draw + 1 < r.draw", "condition was"),
    "a condition less": (" AND l.cooling >= r.cooling", "", "condition was"),
    "sides": ("warm AS l JOIN cold AS r", "cold AS l JOIN warm AS r", "sides was warm JOIN cold, is cold JOIN warm"),
    "a length": ("'2K'", "'3K'", "window was 2000 tuples, sliding by 10, is 3000 tuples, sliding by 10"),
    "a slide": ("INTERVAL '10'", "INTERVAL '20'",
                "window was 2000 tuples, sliding by 10, is 2000 tuples, sliding by 20"),
    "lateness": ("2 seconds", "3 seconds", "lateness was 2000000 us, is 3000000 us"),
    "order": ("order: event_time\nlateness: 2 seconds", "order: arrival", "order was event_time, is arrival"),
    "output": ("output: pairs\nlimit: 5", "output: bitmap", "output was pairs, is bitmap"),
    "a limit": ("limit: 5", "limit: 6", "limit was 5, is 6"),
    "no limit": ("limit: 5\n", "", "limit was 5, is nothing"),
    "a layout": ("limit: 5", "limit: 5\nlayout: scale_join", "layout was"),
}  # fmt: skip


@pytest.mark.parametrize("change", SAME)
def test_the_notation_is_no_part_of_the_meaning(change):
    old, new = SAME[change]
    assert old in QUERY
    written = parse_query(QUERY.replace(old, new))
    assert differences(ONE, written) == []
    assert fingerprint(written) == fingerprint(ONE)


@pytest.mark.parametrize("change", CHANGED)
def test_each_change_makes_another_query_and_is_named(change):
    old, new, said = CHANGED[change]
    assert old in QUERY
    changed = parse_query(QUERY.replace(old, new, 1))
    assert fingerprint(changed) != fingerprint(ONE)
    assert any(said in phrase for phrase in differences(ONE, changed)), differences(ONE, changed)


def test_bands_and_intervals_are_part_of_the_meaning():
    band = QUERY.replace("l.draw + 1 < r.draw", "ABS(l.draw - r.draw) < WIDTH")
    marks = {fingerprint(parse_query(band.replace("< WIDTH", text))) for text in ("< 1", "<= 1", "< 1.5", "< 2")}
    assert len(marks) == 4


def test_the_name_is_no_part_of_the_meaning():
    assert fingerprint(parse_query(QUERY.replace("name: sensors", "name: other"))) == fingerprint(ONE)


def test_the_text_that_a_log_carries_means_the_same():
    assert meaning(parse_query(ONE.text)) == meaning(ONE)


def test_a_meaning_has_one_fingerprint_in_every_version():
    # Logs carry the fingerprint: if it changed, services of the next version would refuse this one's logs.
    kept = parse_query(
        "name: kept\nstreams: {s: {schema: {a: double, b: long}}}\n"
        "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b WINDOW AS (SLIDE INTERVAL '5' ON '20')\n"
    )
    assert fingerprint(kept) == 4_527_221_780_252_468_365


@settings(max_examples=60)
@given(st.data())
def test_reformatting_never_changes_the_meaning(data):
    plain = QUERY.replace("decimal(8,2)", "float")  # YAML would read it as two entries
    options, one = yaml.safe_load(plain), parse_query(plain)
    options["streams"] = {
        name: options["streams"][name] for name in data.draw(st.permutations(list(options["streams"])))
    }
    for name, stream in options["streams"].items():
        options["streams"][name] = {part: stream[part] for part in data.draw(st.permutations(list(stream)))}
    words = options["sql"].split()
    gaps = data.draw(
        st.lists(st.sampled_from([" ", "  ", "\n ", " /* x */ "]), min_size=len(words), max_size=len(words))
    )
    options["sql"] = "".join(word + gap for word, gap in zip(words, gaps, strict=True))
    shuffled = {name: options[name] for name in data.draw(st.permutations(list(options)))}
    text = yaml.safe_dump(shuffled, sort_keys=False, default_flow_style=data.draw(st.sampled_from([None, False, True])))
    written = parse_query(text)
    assert differences(one, written) == []
    assert fingerprint(written) == fingerprint(one)


PRICED = """\
name: priced
streams:
  a: {schema: {g: long, d: double, s: string}}
sql: |
  SELECT l.s, r.d + 1 AS more FROM a AS l JOIN a AS r
  ON l.g < r.d AND lower(l.s) = lower(r.s)
  WHERE l.d > 5 AND l.s < r.s || 'x'
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("l.g < r.d", "l.g <= r.d", "condition"),
        ("l.g < r.d", "l.g < r.d + 1", "condition"),
        ("lower(l.s) = lower(r.s)", "upper(l.s) = lower(r.s)", "condition"),
        ("lower(l.s) = lower(r.s)", "l.s = lower(r.s)", "condition"),
        ("l.d > 5", "l.d > 6", "filter of the left side"),
        ("l.d > 5", "r.d > 5", "filter of the right side"),
        ("|| 'x'", "|| 'y'", "residual conditions"),
        (" AND l.s < r.s || 'x'", "", "residual conditions"),
        ("r.d + 1 AS more", "r.d + 2 AS more", "columns of results"),
        ("AS more", "AS most", "columns of results"),
        ("l.s, r.d + 1 AS more", "r.d + 1 AS more, l.s", "columns of results"),
        ("SELECT l.s, r.d + 1 AS more", "SELECT *", "output"),
    ],
)
def test_every_part_of_a_statement_counts(old: str, new: str, part: str):
    assert old in PRICED
    one, other = parse_query(PRICED), parse_query(PRICED.replace(old, new, 1))
    assert fingerprint(one) != fingerprint(other)
    assert [each for each in differences(one, other) if each.startswith(f"{part} was ")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WHERE l.d > 5 AND", "AND l.d > 5 AND"),
        ("lower(l.s) = lower(r.s)", "(LOWER( l.S ) = lower(R.s))"),
        ("SELECT l.s, r.d + 1", "SELECT /* all */ L.s, (r.D + 1)"),
    ],
)
def test_the_spelling_of_a_statement_does_not_count(old: str, new: str):
    one, other = parse_query(PRICED), parse_query(PRICED.replace(old, new, 1))
    assert differences(one, other) == []
    assert fingerprint(one) == fingerprint(other)


# --- what only some statements have -----------------------------------------------------------------------------------

STATEMENT = """\
name: sensors
streams:
  warm: {schema: {draw: double, load: double, room: string, id: long}, key: id}
sql: |
  SELECT l.id AS first, r.room FROM warm AS l JOIN warm AS r
  ON l.draw < r.draw AND l.room = r.room AND (l.load < 1 OR r.load < 1)
  WHERE l.load > 0 AND r.load > 0
  WINDOW AS (SLIDE INTERVAL '10' ON '2K')
"""
OTHERS = {
    "a filter of one side": ("r.load > 0", "r.load > 2", "filter of the right side was "),
    "a filter less": (" AND r.load > 0", "", "is nothing"),
    "a residual condition": ("l.load < 1 OR", "l.load < 3 OR", "residual conditions was "),
    "a residual condition less": (" AND (l.load < 1 OR r.load < 1)", "", "is nothing"),
    "the columns of results": ("r.room FROM", "r.load FROM", "columns of results was "),
    "the name of one": ("AS first", "AS last", "columns of results was "),
    "what an expression computes": ("l.room = r.room", "lower(l.room) = lower(r.room)", "condition was "),
    "sides that compare different columns": ("l.draw < r.draw", "l.draw < r.load", "streams was nothing"),
}


@pytest.mark.parametrize("change", OTHERS)
def test_each_part_of_a_statement_is_part_of_its_meaning(change):
    old, new, said = OTHERS[change]
    one, other = parse_query(STATEMENT), parse_query(STATEMENT.replace(old, new))
    assert STATEMENT.replace(old, new) != STATEMENT
    assert fingerprint(one) != fingerprint(other)
    assert said in "; ".join(differences(one, other))


def test_aliases_and_spelling_are_no_part_of_a_statements_meaning():
    other = STATEMENT.replace("l.", "a.").replace("r.", "b.").replace("AS l", "AS a").replace("AS r\n", "AS b\n")
    assert other != STATEMENT
    assert fingerprint(parse_query(other)) == fingerprint(parse_query(STATEMENT))


def test_a_self_join_of_two_streams_reads_its_input_in_one_order():
    text = STATEMENT.replace("id: long}", "id: long, at: timestamp}, time: at").replace(
        "sql:", "order: event_time\nsql:"
    )
    one, two = parse_query(text), parse_query(text.replace("l.draw < r.draw", "l.draw < r.load"))
    assert (len(one.streams), len(two.streams)) == (1, 2)
    assert is_same_order(one, two)
