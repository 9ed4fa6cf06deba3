"""The picture derives from the topology, and nothing in it overlaps."""

import re
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from spojoin.page.document import ROLE_SIZE, TOPIC_SIZE, draw
from spojoin.page.flow import AGREEMENTS, OUTLETS, flow_of, readers, role_node, topic_node
from spojoin.page.placement import arrange
from spojoin.protocol.topology import TOPOLOGY, Edge, Role, Topic

CHAIN = (
    Edge(Role.ROUTER, (Topic.INPUT, Topic.PLAN), (Topic.FRAMES,)),
    Edge(Role.MUTABLE, (Topic.FRAMES, Topic.RESULTS), (Topic.PARTIALS,)),
    Edge(Role.SINK, (Topic.FRAMES, Topic.PARTIALS, Topic.RESULTS), (Topic.RESULTS, Topic.PLAN)),
)


def test_every_role_and_topic_of_the_topology_has_one_node():
    nodes = [node for row in flow_of().rows for node in row]
    named = {topic for edge in TOPOLOGY for topic in (*edge.reads, *edge.writes)} - {*AGREEMENTS}
    assert sorted(nodes) == sorted([role_node(e.role) for e in TOPOLOGY] + [topic_node(t) for t in named])


def test_links_are_what_roles_read_and_write():
    links = {(link.source, link.target) for link in flow_of().links}
    for edge in TOPOLOGY:
        for topic in {*edge.writes} - {*AGREEMENTS}:
            assert (role_node(edge.role), topic_node(topic)) in links
        for topic in edge.reads:
            is_drawn = topic not in edge.writes and topic not in (*OUTLETS, *AGREEMENTS)
            assert ((topic_node(topic), role_node(edge.role)) in links) == is_drawn


def test_data_flows_down_and_feedback_up():
    flow = flow_of(CHAIN)
    place = {node: number for number, row in enumerate(flow.rows) for node in row}
    order = ["topic-input", "role-router", "topic-frames", "role-mutable", "topic-partials", "role-sink"]
    assert [place[node] for node in order] == [0, 1, 2, 3, 4, 5]
    assert place["topic-plan"] == 4  # above its writer, the sink, since all its readers are further up
    assert readers(Topic.RESULTS, CHAIN) == []


def test_a_new_role_appears_by_itself():
    added = (*CHAIN, Edge(Role.PERMUTATION, (Topic.FRAMES,), (Topic.RUNS,)))
    drawn = draw(flow_of(added))
    assert 'id="role-permutation"' in drawn
    assert 'id="topic-runs"' in drawn
    assert 'data-topic="frames" data-role="permutation" data-way="read"' in drawn
    assert 'id="role-permutation"' not in draw(flow_of(CHAIN))


def grown():
    """The topology with more readers and writers than it has."""
    busy = [replace(edge, reads=tuple(dict.fromkeys((*edge.reads, Topic.PARTIALS)))) for edge in TOPOLOGY]
    return (*busy[:-1], replace(busy[-1], writes=(*busy[-1].writes, Topic.MATCHES)))


@pytest.mark.parametrize("topology", [TOPOLOGY, CHAIN, grown()], ids=["real", "chain", "grown"])
def test_nothing_overlaps(topology):
    flow = flow_of(topology)
    sizes = {node: TOPIC_SIZE if n % 2 == 0 else ROLE_SIZE for n, row in enumerate(flow.rows) for node in row}
    links = [(link.source, link.target) for link in flow.links]
    picture = arrange(flow.rows, links, sizes)
    assert picture.boxes.keys() == sizes.keys()
    for one, other in combinations(picture.boxes.values(), 2):
        beside = one.x + one.width < other.x or other.x + other.width < one.x
        above = one.y + one.height < other.y or other.y + other.height < one.y
        assert beside or above
    for box in picture.boxes.values():
        assert 0 <= box.x <= box.x + box.width <= picture.width + 1e-6
        assert 0 <= box.y <= box.y + box.height <= picture.height + 1e-6
    for (source, target), points in zip(links, picture.lines, strict=True):
        check_line(picture, source, target, points)


def check_line(picture, source, target, points):
    """Check that a line starts at its source, ends at its target and crosses no box on its way."""
    for node, point in ((source, points[0]), (target, points[-1])):
        box = picture.boxes[node]
        assert box.x < point[0] < box.x + box.width
        assert point[1] in (pytest.approx(box.y), pytest.approx(box.y + box.height))
    for (x0, y0), (x1, y1) in list(pairwise(points))[1::2]:
        assert x0 == pytest.approx(x1, abs=30)
        top, bottom = sorted((y0, y1))
        for box in picture.boxes.values():
            if box.y < bottom and top < box.y + box.height:
                assert max(x0, x1) < box.x or box.x + box.width < min(x0, x1)


def test_the_drawing_is_the_same_at_every_start():
    assert draw() == draw()


def test_every_text_that_the_script_fills_is_there():
    for edge in TOPOLOGY:
        group = re.search(rf'<g class="role" id="role-{edge.role.value}".*?</g>', draw())
        assert group
        assert re.findall(r'data-field="(\w+)"', group[0]) == ["state", "rate", "instances", "lag", "usage"]
