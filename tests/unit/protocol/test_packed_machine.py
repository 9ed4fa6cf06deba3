"""Records on their way to the members of a process."""

from __future__ import annotations

import pytest

from spojoin.protocol.machine import START, Rewind
from spojoin.protocol.packed_machine import Fellow, pack_of
from spojoin.protocol.packing import edge_of
from spojoin.protocol.topology import Role, Topic
from tests.support.runtime_world import FakeMachine, barrier


@pytest.mark.parametrize("topic", [Topic.FRAMES, Topic.BATCHES])
def test_what_waits_of_a_topic_that_a_member_rewinds_comes_only_in_its_turn(topic):
    """A machine that is given a later record first takes those before it, read again, for known ones."""
    machine = FakeMachine(START)
    machine.unwanted = {Topic.FRAMES, Topic.BATCHES}
    machine.answer = lambda _: [Rewind(topic)] if len(machine.seen("record")) == 1 else []
    pack = pack_of([Fellow(Role.POJOIN, machine)], edge_of((Role.POJOIN,)))
    for offset in (3, 4):
        for each in (Topic.FRAMES, Topic.BATCHES):
            assert list(pack.on_record(each, 0, offset, barrier(offset))) == []
    machine.unwanted = set()
    assert list(pack.on_caught_up()) == [Rewind(topic)]
    for offset in (2, 3, 4):
        list(pack.on_record(topic, 0, offset, barrier(offset)))
    given = [offset for read, _, offset, _ in machine.seen("record") if read is topic]
    assert given == ([3, 2, 3, 4] if topic is Topic.FRAMES else [2, 3, 4])
