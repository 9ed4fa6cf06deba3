"""The wiring of a process of several roles."""

from __future__ import annotations

import pytest

from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.runtime.generations import Serving
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring, packed
from spojoin.threads import cores

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '20')
order: arrival
""")


@pytest.mark.parametrize(("given", "expected"), [({"threads": 3}, 3), ({}, cores())])
def test_roles_that_share_a_process_share_its_threads(given: dict[str, int], expected: int):
    runners = []

    def wire(serving: Serving, settings: Settings) -> Wiring:
        runners.append(serving.runner)
        return Wiring("any", lambda _: pytest.fail("no machine is asked for"))

    packed(dict.fromkeys((Role.LOGICAL_AND, Role.SINK), wire), Serving(QUERY), Settings(query_file="q", **given))
    first, second = runners
    assert first is second
    assert first.threads == expected
