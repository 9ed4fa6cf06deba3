"""The query of a generation is read as the version that announced it read it."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.model import EmitOn
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.generations import announced_query
from spojoin.wire.records import Announcement

TEXT = """
name: q
streams: {a: {schema: {x: long, at: timestamp}, time: at}}
sql: SELECT l.x FROM a AS l ANTI JOIN a AS r ON l.x < r.x %s
order: event_time
"""
WINDOW, BOUNDS = "WINDOW AS (SLIDE INTERVAL '1' ON '9')", "AND r.at BETWEEN l.at AND l.at + INTERVAL '5 s'"


@pytest.mark.parametrize("bound", [WINDOW, BOUNDS])
def test_rows_of_earlier_versions_answer_at_arrival(bound: str) -> None:
    meant = parse_query(TEXT % f"{bound} EMIT ON ARRIVAL")
    found = announced_query(Announcement(1, fingerprint(meant), TEXT % bound, "window"))
    assert found.answers.emit is EmitOn.ARRIVAL
    assert fingerprint(found) == fingerprint(meant)


def test_rows_of_this_version_answer_as_it_reads_them() -> None:
    meant = parse_query(TEXT % BOUNDS)
    assert announced_query(Announcement(1, fingerprint(meant), meant.text, "window")).answers.emit is EmitOn.CLOSE
    with pytest.raises(ConfigurationError, match="EMIT ON CLOSE"):
        announced_query(Announcement(1, 7, TEXT % WINDOW, "window"))
