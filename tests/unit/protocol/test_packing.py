"""Which roles share a process, and what passes between processes because of it."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.protocol.packing import (
    ANSWERER,
    APART,
    DERIVED,
    TOGETHER,
    edge_of,
    group_name,
    parse_group,
    parse_packing,
    roles_of,
)
from spojoin.protocol.topology import PACKABLE, TOPOLOGY, Role, Topic


def test_every_role_is_in_one_process():
    for text in (APART, TOGETHER, "router+sink", "sink+mutable, pojoin+router"):
        groups = parse_packing(text).groups
        assert sorted(role for group in groups for role in group) == sorted(PACKABLE)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (APART, APART),
        (TOGETHER, TOGETHER),
        ("+".join(role.value for role in PACKABLE), TOGETHER),
        ("router", APART),
        ("sink+router", "router+sink"),
        ("pojoin+mutable sink+router", "router+sink mutable+pojoin"),
        ("answerer sink+router", "router+sink mutable+pojoin+logical-and"),
    ],
)
def test_a_packing_is_said_in_the_datas_way(text, same):
    assert str(parse_packing(text)) == same
    assert str(parse_packing(same)) == same


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("router+sinc", "unknown role 'sinc': expected router, .* did you mean 'sink'"),
        ("predictor+router", "unknown role 'predictor'"),
        ("router+sink sink+mutable", "names sink twice"),
        ("answerer sink+mutable", "names mutable twice"),
        ("answerers", "unknown role 'answerers'.* did you mean 'answerer'"),
        ("router+router", "names a role twice"),
        ("", "names no role"),
    ],
)
def test_a_mistake_is_named(text, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        parse_packing(text)


def test_a_process_has_a_name_that_says_its_roles():
    for text in (TOGETHER, "router+sink", "predictor", "pojoin"):
        group = parse_group(text)
        assert group_name(group) == text
        assert roles_of(text) == group
    assert roles_of("nobody") == ()


def test_a_worker_is_an_answerer_or_inside_another_process_or_alone():
    answering, inside = parse_packing("answerer"), parse_packing("router+pojoin")
    assert (answering.has_answerers, answering.has_workers_inside) == (True, False)
    assert (inside.has_answerers, inside.has_workers_inside) == (False, True)
    assert parse_group("answerer") == ANSWERER
    assert not parse_packing("mutable+pojoin").has_answerers


def test_answerers_share_matches_and_runs_with_others_and_no_partials():
    edge = edge_of(ANSWERER)
    assert Topic.PARTIALS not in (*edge.reads, *edge.writes, *edge.trims)
    assert {Topic.MATCHES, Topic.RUNS} <= {*edge.writes}
    assert {Topic.FRAMES, Topic.BATCHES} <= {*edge.reads}


def test_a_role_alone_has_its_row_of_the_table():
    for edge in TOPOLOGY:
        assert edge_of((edge.role,), has_intakes=True) == edge


def test_without_intakes_there_are_no_blocks():
    assert Topic.INPUT in edge_of((Role.ROUTER,)).reads
    for edge in map(edge_of, ((edge.role,) for edge in TOPOLOGY)):
        assert {Topic.BLOCKS, Topic.POSITIONS}.isdisjoint((*edge.reads, *edge.writes, *edge.trims))


def test_what_all_readers_and_writers_share_is_no_topic():
    edge = edge_of(PACKABLE)
    assert not set(DERIVED).intersection(edge.reads, edge.writes, edge.trims)
    assert {Topic.FRAMES, Topic.BATCHES, Topic.RESULTS} <= {*edge.reads} & {*edge.writes}


def test_workers_beside_a_process_send_it_their_matches():
    edge = edge_of(PACKABLE, has_others=True)
    assert Topic.MATCHES in edge.reads
    assert Topic.MATCHES in edge.trims
    assert Topic.MATCHES not in edge.writes
    assert Topic.PARTIALS not in edge.reads


def test_a_topic_with_a_reader_elsewhere_is_written():
    edge = edge_of((Role.MUTABLE, Role.PERMUTATION))
    assert Topic.PARTIALS in edge.writes
    assert Topic.RUNS not in (*edge.reads, *edge.writes)
