"""The latest results and dead letters, from the ends of their topics."""

import base64

import numpy as np
import orjson
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from spojoin.errors import WireError
from spojoin.model import Output
from spojoin.page.latest import (
    DEPTH_MAX,
    ROWS,
    TEXT_MAX,
    VALUE_MAX,
    TopicTail,
    letters_of,
    readable,
    result_rows,
    rows_of,
)
from spojoin.page.watch import LogWatch
from spojoin.ports.interfaces import LogPartition, LogRecord, LogUnavailable
from spojoin.ports.memory import MemoryLog
from spojoin.wire.codec import encode
from spojoin.wire.records import Result, WorkerCount
from spojoin.wire.results import result_messages_json
from tests.support.page_world import CONTROL, LETTERS, RESULTS, World, append_letter, append_results


class CountingLog(MemoryLog):
    """A log that counts the records its readers return."""

    given = 0

    def reader(self):
        reader, log = super().reader(), self
        poll = reader.poll

        def counting(records_max, timeout_s):
            found = poll(records_max, timeout_s)
            log.given += len(found)
            return found

        reader.poll = counting
        return reader


def log_of(*counts, is_json=False, kind=MemoryLog):
    log = kind()
    log.create_topics({RESULTS.topic: 1})
    first = 0
    for count in counts:
        append_results(log, first, count, is_json=is_json)
        first += count
    return log


def latest_seqs(log, wanted=ROWS):
    tail = TopicTail(log, RESULTS, wanted, rows_of)
    tail.look(log.reader())
    return [row["seq"] for row in tail.items]


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize("counts", [(100,), (3, 5, 2), (1,) * 50, (500, 1), (1, 500)])
def test_the_latest_results_in_order(counts, is_json):
    total = sum(counts)
    assert latest_seqs(log_of(*counts, is_json=is_json)) == list(range(max(0, total - ROWS), total))


def test_only_the_end_of_a_long_topic_is_read():
    log = log_of(*[4] * 3_000, kind=CountingLog)
    assert latest_seqs(log)[-1] == 11_999
    assert log.given < DEPTH_MAX
    tail = TopicTail(log, RESULTS, ROWS, rows_of)
    tail.look(log.reader())
    log.given = 0
    tail.look(log.reader())
    assert log.given == 0  # nothing new, nothing read


def test_a_topic_without_items_is_read_to_a_limit():
    log = log_of(*[1] * (2 * DEPTH_MAX), kind=CountingLog)
    tail = TopicTail(log, RESULTS, 1, lambda _: [])
    tail.look(log.reader())
    assert tail.items == []
    assert log.given < 2 * DEPTH_MAX


def test_a_topic_that_does_not_exist_yet_is_empty():
    tail = TopicTail(MemoryLog(), LogPartition("none", 0), ROWS, rows_of)
    tail.look(MemoryLog().reader())
    assert (tail.items, tail.end) == ([], None)


def test_trimmed_and_new_results():
    log = log_of(30)
    log.trim(RESULTS, 1)
    assert latest_seqs(log) == []
    append_results(log, 30, 2)
    assert latest_seqs(log) == [30, 31]


def record(headers, value):
    return LogRecord(RESULTS, 7, 1_000, value, tuple(headers.items()))


def messages(rows, is_json=True):
    made = Result(0, 0, 2, True, rows, np.array([1]), np.array([2], np.uint32))
    return [record(message.headers, message.value) for message in result_messages_json(made)]


def test_pairs_in_json_are_one_row_each():
    rows = pa.record_batch({"probe_seq": [4, 4, 5], "left_seq": [1, 2, 5], "right_seq": [4, 4, 3]})
    found = [row for each in messages(rows) for row in rows_of(each)]
    assert found == rows.to_pylist()


def test_a_probe_with_many_pairs_gives_only_the_last():
    rows = pa.record_batch({"probe_seq": [4] * 500, "left_seq": list(range(500)), "right_seq": [4] * 500})
    (found,) = [rows_of(each) for each in messages(rows)]
    assert [row["left_seq"] for row in found] == list(range(500 - ROWS, 500))


def test_a_result_without_rows():
    rows = pa.record_batch({"probe_seq": pa.array([], pa.int64()), "left_seq": pa.array([], pa.int64())})
    assert [rows_of(each) for each in messages(rows)] == [[]]


def test_records_other_than_results_are_refused():
    with pytest.raises(WireError):
        rows_of(record({}, b"x"))
    with pytest.raises(WireError, match="offset 7"):
        rows_of(record({"content-type": b"application/json"}, b"[1, 2]"))


def test_cells_are_short_texts_and_the_latest_comes_first():
    bitmap = BitMap64([1, 2, 9]).serialize()
    rows = [
        {"seq": 1, "as_left": bitmap, "cut": True, "key": "x" * 500},
        {"seq": 2, "as_left": base64.b64encode(bitmap).decode(), "cut": False, "key": None},
    ]
    table = result_rows(rows, Output.BITMAP)
    assert table.columns == ["seq", "as_left", "cut", "key"]
    assert table.rows == [["2", "3 partners", "no", ""], ["1", "3 partners", "yes", "x" * (TEXT_MAX - 1) + "…"]]
    assert result_rows([{"key": b"\x00\x01"}], Output.COUNT).rows == [["AAE="]]


def test_a_dead_letter_shows_its_reason_and_place():
    world = World()
    append_letter(world.log, b'{"draw": "much"}' + b" " * 9_000)
    (letter,) = letters_of(world.log.records(LETTERS)[0])
    assert (letter.reason, letter.detail) == ("type", "draw is 'much', expected a double")
    assert letter.place == "offset 41 of in.readings[3]"
    assert letter.value.startswith('{"draw": "much"}')
    assert len(letter.value) == VALUE_MAX


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"", ""),
        (b'{"draw":\t"much"}\n', '{"draw":\t"much"}\n'),
        ("zu wenig Kühlung".encode(), "zu wenig Kühlung"),
        ("zu wenig Kühlung".encode("latin-1"), r"16 bytes: zu wenig K\xfchlung"),
        (b"ARROW1\x00\x00\xff", r"9 bytes: ARROW1\x00\x00\xff"),
        (b"\x1b[2J", r"4 bytes: \x1b[2J"),
    ],
)
def test_bytes_are_readable(value, shown):
    assert readable(value) == shown


def test_a_sentence_that_quotes_bytes_is_readable():
    world = World()
    append_letter(world.log, b"x", detail="got 1: A\x00\x1b[2J")
    assert letters_of(world.log.records(LETTERS)[0])[0].detail == r"got 1: A\x00\x1b[2J"


def test_a_long_text_is_text_wherever_it_is_cut():
    for extra in range(4):
        assert readable(b"x" * extra + "ü".encode() * 4 * VALUE_MAX).startswith("x" * extra + "üü")


def test_long_bytes_show_their_length():
    shown = readable(bytes(range(256)) * 40)
    assert shown.startswith("10,240 bytes: ")
    assert len(shown) == VALUE_MAX


def test_the_watch_gathers_what_is_new():
    world = World()
    watch = LogWatch(world.log, world.subject, world.clock)
    watch.look()
    assert watch.news.results.rows == []
    assert watch.news.letters == []
    append_results(world.log, 0, 3)
    for number in range(ROWS + 5):
        world.clock.sleep(0.01)
        append_letter(world.log, b"%d" % number)
    world.clock.sleep(0.75)
    watch.look()
    assert [row[0] for row in watch.news.results.rows] == ["2", "1", "0"]
    assert [letter.value for letter in watch.news.letters] == [str(n) for n in range(ROWS + 4, 4, -1)]
    assert {topic.value: rate for topic, rate in watch.news.per_s.items()} == {"results": 1.0, "dlq": 25.0}
    assert (watch.news.workers, watch.trouble) == (None, None)


def test_the_watch_finds_the_worker_count_with_the_largest_version():
    world = World()
    world.log.create_topics({CONTROL.topic: 1})
    writer = world.log.writer()
    for count in (WorkerCount(1, 2), WorkerCount(3, 5), WorkerCount(2, 4)):
        writer.append(CONTROL, encode(count))
    watch = LogWatch(world.log, world.subject, world.clock)
    watch.look()
    assert watch.news.workers == 5


def test_an_unreachable_log_is_reported_and_retried():
    world = World()
    append_results(world.log, 0, 1)
    watch = LogWatch(world.log, world.subject, world.clock)
    watch.look()
    bounds = world.log.bounds

    def away(source):
        raise LogUnavailable("Kafka at user:secret@kafka does not answer")

    world.log.bounds = away
    watch.look()
    assert "Kafka does not answer" in watch.trouble
    assert "secret" not in watch.trouble
    assert len(watch.news.results.rows) == 1  # what was known is kept
    world.log.bounds = bounds
    append_results(world.log, 1, 1)
    watch.look()
    assert watch.trouble is None
    assert len(watch.news.results.rows) == 2


def test_an_unknown_record_is_reported():
    world = World()
    world.log.writer().append(RESULTS, b"hello")
    watch = LogWatch(world.log, world.subject, world.clock)
    watch.look()
    assert "can't be read" in watch.trouble
    assert orjson.dumps(watch.trouble)
