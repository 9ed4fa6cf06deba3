"""Which topics a query has: those that lie between its processes, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spojoin.protocol.packing import APART, TOGETHER, touched
from spojoin.protocol.topology import PACKABLE, TOPOLOGY, Topic
from spojoin.runtime.settings import load_settings
from spojoin.runtime.topics import Topics
from spojoin.runtime.wiring import topics_needed

LOG = {Topic.FRAMES, Topic.BATCHES, Topic.RESULTS, Topic.DEAD, Topic.GENERATIONS, Topic.PLAN, Topic.CONTROL}
BESIDE = (Topic.PLAN, Topic.CONTROL)
DERIVED = {Topic.RUNS, Topic.PARTIALS, Topic.MATCHES}


def needed(tmp_path, **given):
    return topics_needed(load_settings(query_file=tmp_path / "query.yaml", **given))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"packing": APART}, LOG | DERIVED),
        ({"packing": TOGETHER, "workers": 1}, LOG),
        ({"packing": TOGETHER, "workers": 3}, LOG | {Topic.MATCHES}),
        ({"packing": "router+sink mutable+pojoin", "workers": 1}, LOG | DERIVED),
        ({"packing": "mutable+permutation+logical-and", "workers": 1}, LOG | {Topic.MATCHES}),
        ({"packing": "answerer", "workers": 1}, LOG | {Topic.RUNS, Topic.MATCHES}),
        ({"packing": APART, "standbys": True}, LOG | DERIVED | {Topic.PRESENCE}),
    ],
)
def test_only_what_lies_between_processes_is_a_topic(tmp_path, given, wanted):
    assert needed(tmp_path, **given) == wanted


def test_how_many_partitions_a_query_takes(tmp_path):
    """The figures of CAPACITY.md: a self join of two conditions, and one input."""
    apart, together = Topics("q", ("in.a",), 2, 8, streams=1), Topics("q", ("in.a",), 2, 1, streams=1)

    def counts(topics, *absent, **given):
        among = needed(tmp_path, **given) - set(absent)
        found = topics.trimmed(among) | topics.kept(among)
        return len(found), sum(found.values())

    # By default no predictor runs; a release of one process has no controller either.
    assert counts(apart, Topic.PLAN, packing=APART, workers=2, workers_max=8) == (9, 18)
    assert counts(apart, Topic.PLAN, packing=APART, workers=2, workers_max=8, standbys=True) == (10, 34)
    answerers = replace(apart, logical_ands=8)
    assert counts(answerers, Topic.PLAN, packing="answerer", workers=2, workers_max=8) == (8, 23)
    assert counts(together, *BESIDE, packing=TOGETHER, workers=1) == (5, 5)
    assert counts(together, *BESIDE, packing=TOGETHER, workers=1, standbys=True) == (6, 21)


def test_topics_of_hints_and_requests_come_with_those_that_write_them():
    assert {topic for edge in TOPOLOGY for topic in touched(edge) if topic in BESIDE} == set(BESIDE)
    assert not {topic for edge in TOPOLOGY if edge.role in PACKABLE for topic in touched(edge) if topic in BESIDE}
