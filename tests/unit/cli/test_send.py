"""Ends of inputs, and what became of rows that were sent, over a log in memory."""

from __future__ import annotations

import gzip
from datetime import date

import orjson
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from spojoin.cli.main import app
from spojoin.cli.send import (
    Ended,
    Sent,
    append_rows,
    end_inputs,
    furthest_back,
    longest_open_us,
    not_ended,
    rows_left_open,
    sentences,
)
from spojoin.cli.sent_rows import Outcome, SentPart, SentRowsFollower
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import ManualClock, MemoryLog
from spojoin.protocol.topology import ENDED, HEARTBEAT
from spojoin.query.load import parse_query
from spojoin.reading.parse import NO_SCHEMAS, parse_messages
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import encode
from spojoin.wire.records import Barrier, Frame, SourcePosition
from tests.support.frames import make_frame, make_slice

TEXT = """
name: q
streams:
  orders: {schema: {a: long, at: timestamp}, time: at}
  views: {schema: {a: long, at: timestamp}, time: at}
sql: |
  SELECT l.a, r.a AS b FROM orders AS l JOIN views AS r
  ON l.a = r.a AND r.at BETWEEN l.at - INTERVAL '1 s' AND l.at + INTERVAL '4 s'
"""
QUERY = parse_query(TEXT)
ORDERS, VIEWS = "in.orders", "in.views"
SECOND = 1_000_000


class Sending:
    """A log with the query's topics, and rows in its inputs."""

    def __init__(self, query=QUERY, partitions: int = 1) -> None:
        self.query = query
        self.topics = Topics.for_query(query, 2, {})
        self.log = MemoryLog(ManualClock())
        self.log.create_topics(
            {**dict.fromkeys(self.topics.inputs, partitions), **self.topics.trimmed(), **self.topics.kept()}
        )

    def row(self, topic: str, seconds: float, partition: int = 0) -> None:
        value = orjson.dumps({"a": 1, "at": round(seconds * 1_000)})
        self.log.writer().append(LogPartition(topic, partition), value)

    def end(self, *named: str) -> Ended | None:
        return end_inputs(self.log, self.query, self.topics, named, NO_SCHEMAS)

    def promised(self, topic: str, partition: int = 0) -> int | None:
        """What the last message of a partition promises, in ms."""
        source, reader = LogPartition(topic, partition), self.log.reader()
        reader.open(source, 0)
        last = list(reader.poll(100, 0))[-1]
        headers = dict(last.headers)
        return int(headers[HEARTBEAT]) if ENDED in headers else None

    def held_by(self) -> list[str]:
        return not_ended(self.log, self.query, self.topics, NO_SCHEMAS)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "part*.csv"])
def test_rows_keep_the_columns_of_the_schema_that_their_file_has(name, tmp_path):
    (tmp_path / "rows.csv").write_text("more,at,b,a\nx,2026-01-01,7,1\n")
    (tmp_path / "part1.csv").write_text("more,at,b,a\nx,2026-01-01,7,1\n")
    (tmp_path / "rows.jsonl").write_text('{"more": "x", "at": "2026-01-01", "b": 7, "a": 1}\n')
    query = parse_query("""
        name: q
        streams: {s: {schema: {a: long, b: long, c: double, at: timestamp}, time: at}}
        sql: SELECT l.a FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')
        """)
    sending = Sending(query)
    append_rows(query, {"s": tmp_path / name}, sending.topics, sending.log)
    (message,) = sending.log.records(LogPartition("in.s", 0))
    (row,) = pa.ipc.open_stream(message.value).read_all().to_pylist()
    assert {name: str(value) for name, value in row.items()} == {"a": "1", "b": "7", "at": "2026-01-01"}


def test_inputs_end_behind_the_last_row_of_any():
    sending = Sending(partitions=2)
    for topic, seconds, partition in ((ORDERS, 10, 0), (VIEWS, 20, 1), (VIEWS, 30, 0)):
        sending.row(topic, seconds, partition)
    assert sending.end(ORDERS, VIEWS) == Ended((ORDERS, VIEWS), 30_001_000)
    assert {sending.promised(topic, number) for topic in (ORDERS, VIEWS) for number in (0, 1)} == {30_001}
    assert sending.held_by() == []


def test_where_more_rows_follow_they_wait_for_the_input_that_is_furthest_back():
    sending = Sending()

    def furthest() -> list[str]:
        return furthest_back(sending.log, sending.query, sending.topics, NO_SCHEMAS)

    sending.row(ORDERS, 10)
    assert furthest() == [VIEWS], "it has no row yet"
    sending.row(VIEWS, 5)
    assert furthest() == [VIEWS]
    sending.row(VIEWS, 20)
    assert furthest() == [ORDERS]
    sending.end(ORDERS, VIEWS)
    sending.row(ORDERS, 30)
    assert furthest() == [VIEWS], "its end lies before the next rows"


def test_an_input_that_ended_moves_on_with_those_that_end_later():
    sending = Sending()
    sending.row(ORDERS, 10)
    sending.end(ORDERS)
    assert (sending.promised(ORDERS), sending.held_by()) == (10_001, [VIEWS])
    sending.row(VIEWS, 30)
    assert sending.end(VIEWS) == Ended((ORDERS, VIEWS), 30_001_000)
    assert (sending.promised(ORDERS), sending.promised(VIEWS)) == (30_001, 30_001)
    sending.row(ORDERS, 40)
    sending.row(VIEWS, 50)
    sending.end(VIEWS)
    assert sending.promised(ORDERS) is None, "rows came after its end"


def test_an_end_closes_what_is_open_and_what_may_run_back():
    closing = parse_query(f"{TEXT}  EMIT ON CLOSE\nlateness: 2 s\n")
    assert longest_open_us(QUERY) == 0
    reach = longest_open_us(closing)
    assert reach >= 4 * SECOND
    sending = Sending(closing)
    sending.row(ORDERS, 10)
    found = sending.end(ORDERS)
    assert found is not None
    assert 10 * SECOND + 2 * SECOND + reach < found.until_us <= 10 * SECOND + 2 * SECOND + reach + 1_000


def test_where_nothing_is_there_or_time_plays_no_part_nothing_ends():
    assert Sending().end(ORDERS, VIEWS) is None
    by_arrival = parse_query(
        TEXT.replace("\n  ON", " ON").split(" AND ")[0] + "\n  WINDOW AS (SLIDE INTERVAL '1' ON '9')\n"
    )
    sending = Sending(by_arrival)
    sending.row(ORDERS, 10)
    assert sending.end(ORDERS) is None
    assert sending.held_by() == []


def test_an_end_says_what_it_does_not_close():
    counted = TEXT.split(" AND ", maxsplit=1)[0] + " WINDOW AS (SLIDE INTERVAL '10' ON '1K') EMIT ON "
    assert rows_left_open(parse_query(f"{TEXT}  EMIT ON CLOSE\n")) is None
    assert rows_left_open(parse_query(f"{counted}ARRIVAL\n")) is None
    for order in ("", "order: event_time\n"):
        said = rows_left_open(parse_query(f"{counted}CLOSE\n{order}"))
        assert said is not None
        assert "up to 1,000 of orders:" in said
    both = rows_left_open(parse_query(f"{counted}CLOSE\n".replace(" JOIN", " FULL JOIN")))
    assert both is not None
    assert "up to 1,000 of orders and up to 1,000 of views:" in both
    assert list(sentences(Sent({}, left_open=both), "q.yaml")) == [both]


# -- what became of rows


def frame(frame_id: int, *place: int) -> Frame:
    """A frame that has passed the orders before a place."""
    return make_frame(
        [make_slice([[1]])], frame_id=frame_id, first_seq=frame_id, source={(0, 0): SourcePosition(*place, 0)}
    )


def outcome_of(sending: Sending, parts, offsets=None, letters=()) -> tuple[Outcome, list[str]]:
    passage, said = SentRowsFollower(sending.log, sending.topics), []
    writer = sending.log.writer()
    if offsets is not None:
        log = LogPartition("q.frames", 0)
        writer.append(log, encode(Barrier(0, "r")))
        writer.append(log, encode(frame(0, *offsets)))
    for offset, row, reason in letters:
        said_of = {"reason": reason, "detail": f"what {reason} is", "source-partition": 0, "source-offset": offset}
        headers = {**said_of, "source-row": row}
        encoded = tuple((f"spojoin-{name}", str(value).encode()) for name, value in headers.items())
        writer.append(LogPartition(f"{ORDERS}.dlq", 0), b"", encoded)
    return passage.outcome(parts, 0.3, said.append), said


def sent_part(**more) -> SentPart:
    return SentPart(LogPartition(ORDERS, 0), 0, 5, [4, 4, 2], **more)


def test_rows_are_taken_once_the_log_has_passed_them():
    found, _ = outcome_of(Sending(), [sent_part()], (8, 0))
    assert found == Outcome(10, 0, {}, "", 0, True)


def test_refused_rows_are_told_apart_from_filtered_ones_and_those_of_others():
    letters = [(4, 0, "null"), (5, 1, "late"), (7, 1, "null"), (8, 0, "null")]
    part = sent_part(filtered={0: frozenset({1, 2}), 1: frozenset(), 2: frozenset({0})})
    found, _ = outcome_of(Sending(), [part], (9, 0), letters)
    assert found == Outcome(6, 2, {"late": 1, "null": 1}, "what late is", 0, True)


def test_rows_that_the_log_has_not_passed_wait():
    found, _ = outcome_of(Sending(), [sent_part()], (6, 1))
    assert (found.taken, found.waiting, found.is_served) == (5, 5, True)


def test_where_no_service_has_written_nobody_has_taken_them():
    found, _ = outcome_of(Sending(), [sent_part()])
    assert (found.waiting, found.is_served) == (10, False)


def test_a_log_that_a_service_is_about_to_claim_is_waited_for(monkeypatch):
    sending = Sending()
    writer, log = sending.log.writer(), LogPartition("q.frames", 0)

    def write(_: float) -> None:
        writer.append(log, encode(Barrier(0, "r")))
        writer.append(log, encode(frame(0, 8, 0)))

    monkeypatch.setattr("spojoin.cli.sent_rows.time.sleep", write)
    found = SentRowsFollower(sending.log, sending.topics).outcome([sent_part()], 0.3, lambda _: None)
    assert (found.waiting, found.is_served) == (0, True)


def test_a_log_that_is_trimmed_meanwhile_is_read_on():
    sending = Sending()
    writer, log = sending.log.writer(), LogPartition("q.frames", 0)
    writer.append(log, encode(Barrier(0, "r")))
    writer.append(log, encode(frame(0, 5, 0)))
    writer.append(log, encode(frame(1, 8, 0)))
    sending.log.trim(log, 2)
    found, _ = outcome_of(sending, [sent_part()])
    assert found.taken == 10


@pytest.mark.parametrize(
    ("outcome", "held_by", "said"),
    [
        (Outcome(9, 1, {}, "", 0, True), [], ["9 rows taken, 1 filtered out, 0 refused"]),
        (
            Outcome(8, 0, {"late": 2}, "event time", 0, True),
            [],
            ["8 rows taken, 2 refused: 2 late (first: event time)"],
        ),
        (Outcome(0, 0, {}, "", 10, False), [], ["not processed yet", "spojoin up q.yaml --bootstrap k:1"]),
        (
            Outcome(0, 0, {}, "", 10, True),
            [VIEWS],
            ["10 rows wait: event time waits for in.views", "q.yaml --bootstrap k:1 --end"],
        ),
        (
            Outcome(0, 0, {}, "", 10, True),
            [ORDERS],
            ["10 rows wait: they wait for later rows; `spojoin send q.yaml --bootstrap k:1 --end` promises"],
        ),
    ],
)
def test_what_is_said(outcome, held_by, said):
    sent = Sent({ORDERS: 10}, outcome=outcome, held_by=held_by)
    text = "\n".join(sentences(sent, "q.yaml --bootstrap k:1"))
    assert all(each in text for each in ["10 rows to in.orders", *said]), text
    assert sent.is_refused == bool(outcome.refused)


# -- files as a run reads them

OF_FILES = """
name: q
streams:
  s: {schema: {id: long, price: double, day: date, note: string}CSV}
sql: |
  SELECT l.*, l.headers['from'] AS origin FROM s AS l JOIN s AS r ON l.price < r.price
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
GERMAN = "id/price/day/note\n1/1.234,5/01.03.2024/-\n2/-/02.03.2024/NA\n3\n"
OPTIONS = "delim=/,decimal=,,thousands=.,dateformat=%d.%m.%Y,nullstr=-"
IN_QUERY = ", csv: {delim: /, decimal: ',', thousands: '.', dateformat: '%d.%m.%Y', nullstr: '-'}"
SENT = [
    {"id": 1, "price": 1234.5, "day": date(2024, 3, 1), "note": None},
    {"id": 2, "price": None, "day": date(2024, 3, 2), "note": "NA"},
]


@pytest.mark.parametrize(("in_query", "told"), [(IN_QUERY, []), ("", [OPTIONS]), ("", [f"s={OPTIONS}"])])
def test_files_are_sent_as_a_run_reads_them(tmp_path, monkeypatch, in_query, told):
    sending = Sending(parse_query(OF_FILES.replace("CSV", "")))
    monkeypatch.setattr("spojoin.cli.send.KafkaLog", lambda _: sending.log)
    monkeypatch.setattr("spojoin.local.reachable.check_kafka_takes", lambda *_: None)
    monkeypatch.setattr("spojoin.cli.send.OPEN_PATIENCE_S", 0.1)
    (tmp_path / "q.yaml").write_text(OF_FILES.replace("CSV", in_query))
    (tmp_path / "s.csv.gz").write_bytes(gzip.compress(GERMAN.encode()))
    csv = [part for each in told for part in ("--csv", each)]
    done = CliRunner().invoke(
        app, ["send", str(tmp_path / "q.yaml"), "-i", f"s={tmp_path / 's.csv.gz'}", "--follow", *csv]
    )
    assert "2 rows to in.s" in done.output, done.output
    assert "1 lines are no rows" in done.output
    assert done.exit_code == 1
    reader = sending.log.reader()
    reader.open(LogPartition("in.s", 0), 0)
    records = list(reader.poll(10, 0))
    stream = sending.query.inputs[0]
    found = parse_messages(stream, sending.query.needs_time, 0, 0, records)
    assert not found.dead
    rows = found.payload.to_pylist()
    assert [{name: row[name] for name in SENT[0]} for row in rows] == SENT


def test_a_stream_that_the_query_does_not_have_has_no_csv(tmp_path):
    (tmp_path / "q.yaml").write_text(OF_FILES.replace("CSV", ""))
    done = CliRunner().invoke(app, ["send", str(tmp_path / "q.yaml"), "-i", "s=s.csv", "--csv", "t=delim=;"])
    assert done.exit_code == 2
    assert "unknown stream 't'" in done.output
