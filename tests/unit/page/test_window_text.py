"""The window in words."""

import pytest

from spojoin.page.subject import window_text
from spojoin.query.load import parse_query

TEXT = "name: q\nstreams:\n  s: {schema: {a: int, at: timestamp}, time: at}\nsql: SELECT * FROM s AS l JOIN s AS r ON "


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("l.a < r.a WINDOW AS (SLIDE INTERVAL '10' ON '1000')", "1,000 tuples, moving by 10"),
        (
            "l.a = r.a AND r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '2 min'",
            "right -60 to +120 s of left's event time",
        ),
    ],
)
def test_a_window_or_an_interval(condition, words):
    assert window_text(parse_query(TEXT + condition)) == words
