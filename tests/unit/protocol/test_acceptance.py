import pytest

from spojoin.protocol.acceptance import LogFollower, chain
from spojoin.protocol.machine import Trim
from spojoin.protocol.retention import TrimLedger
from spojoin.protocol.topology import TOPOLOGY, Role, Topic
from spojoin.wire.records import Barrier, SourcePosition
from tests.support.frames import make_frame


def frame(epoch, frame_id, first_seq, previous_link, count=1, link=None):
    links = {"previous_link": previous_link, "link": link or previous_link + 1}
    return make_frame(epoch=epoch, frame_id=frame_id, first_seq=first_seq, count=count, **links)


def accepted(records):
    reader = LogFollower()
    return [reader.accept(record) for record in records]


def test_frames_count_in_their_order_only():
    log = [
        Barrier(0, "a"),
        frame(0, 0, 0, 0),
        frame(0, 2, 1, 1),
        frame(0, 1, 2, 1),
        frame(0, 1, 1, 1),
        frame(0, 1, 1, 1),
    ]
    assert accepted(log) == [True, True, False, False, True, False]


def test_a_barrier_voids_older_epochs_and_equal_claims():
    log = [Barrier(0, "a"), Barrier(1, "b"), Barrier(1, "c"), frame(0, 0, 0, 0), frame(1, 0, 0, 0), Barrier(0, "d")]
    assert accepted(log) == [True, True, False, False, True, False]


def test_a_frame_built_on_other_inputs_is_refused():
    assert accepted([Barrier(0, "a"), frame(0, 0, 0, 0, link=7), frame(0, 1, 1, 8), frame(0, 1, 1, 7)]) == [
        True, True, False, True,
    ]  # fmt: skip


def test_a_trimmed_log_is_accepted_from_its_first_frame():
    assert accepted([frame(3, 9, 40, 5), frame(2, 10, 41, 6), frame(3, 10, 41, 6)]) == [True, False, True]


@pytest.mark.parametrize("change", [{"offset": 2}, {"row": 1}, {"high_time_us": 9}])
def test_the_link_depends_on_every_source_position(change):
    at = {"offset": 1, "row": 0, "high_time_us": 5}
    one, other = SourcePosition(**at), SourcePosition(**at | change)
    assert chain(1, 2, {(0, 0): one}, b"") != chain(1, 2, {(0, 0): other}, b"")
    assert chain(1, 2, {(0, 0): one, (0, 1): other}, b"") == chain(1, 2, {(0, 1): other, (0, 0): one}, b"")


def test_a_trim_stops_at_the_first_record_still_needed():
    ledger = TrimLedger(Topic.MATCHES)
    for offset, needed_until in ((3, 0), (5, 1), (6, 0), (9, 4)):
        ledger.note_record(2, offset, needed_until)
    assert ledger.release(2, 1) == [Trim(Topic.MATCHES, 2, 5)]
    assert ledger.release(2, 1) == []
    assert ledger.release(2, 2) == [Trim(Topic.MATCHES, 2, 9)]
    assert ledger.release(2, 9) == [Trim(Topic.MATCHES, 2, 10)]


def test_every_role_stands_in_the_table_once_and_every_topic_has_a_reader_and_a_writer():
    assert [edge.role for edge in TOPOLOGY] == list(Role)
    # Every service whose instances may take turns reads and writes presence: it is no part of the flow.
    for topic in set(Topic) - {Topic.INPUT, Topic.DEAD, Topic.PRESENCE}:
        assert any(topic in edge.reads for edge in TOPOLOGY), topic
        assert any(topic in edge.writes for edge in TOPOLOGY), topic
    trimmed = [topic for edge in TOPOLOGY for topic in edge.trims]
    users = {Topic.INPUT, Topic.RESULTS, Topic.DEAD}
    assert sorted(trimmed) == sorted({*Topic} - users - {Topic.PLAN, Topic.GENERATIONS, Topic.PRESENCE})


def test_nothing_counts_after_a_closing_barrier():
    log = [
        Barrier(0, "a"),
        frame(0, 0, 0, 0),
        Barrier(1, "b", closes=True),
        frame(0, 1, 1, 1),
        frame(1, 1, 1, 1),
        Barrier(2, "c"),
        Barrier(2, "c", closes=True),
    ]
    assert accepted(log) == [True, True, True, False, False, False, False]


def test_a_closing_barrier_of_an_old_epoch_closes_nothing():
    assert accepted([Barrier(3, "a"), Barrier(2, "b", closes=True), frame(3, 0, 0, 0)]) == [True, False, True]


def test_numbers_begin_where_the_claim_says_under_which_the_first_frame_was_written():
    reader = LogFollower()
    assert reader.accept(Barrier(0, "a", first_indexes=(30, 12)))
    assert reader.accept(Barrier(1, "b", first_indexes=(31, 12)))
    assert (reader.first_indexes, reader.next_seq) == ((31, 12), 43)
    assert not reader.accept(frame(1, 0, 42, 0))
    assert reader.accept(frame(1, 0, 43, 0))
    assert reader.accept(Barrier(2, "c", first_indexes=(32, 12)))
    assert (reader.first_indexes, reader.next_seq) == ((31, 12), 44)
