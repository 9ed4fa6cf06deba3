from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.load.tap import ResultsTap
from loadgen.promises import parts
from loadgen.promises.data import (
    FIRST_MS,
    FLIGHTS,
    NAMES,
    columns,
    keyed_self_join_text,
    self_join,
    self_join_text,
    with_keys,
)
from loadgen.promises.parts import Stopwatch, run_by_part
from loadgen.promises.produce import INTERVAL_S, PacedProducer, arrow_messages, fill, json_messages
from loadgen.promises.services import Throughput, json_figures, on_cores
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.query.load import parse_query
from spojoin.roles.router.parse import parse
from spojoin.wire.records import Result
from spojoin.wire.results import result_to_message
from tests.support.messages import InputMessage

ROWS, RESULTS = LogPartition("in.rows", 0), LogPartition("bench.results", 0)


@pytest.mark.parametrize("name", NAMES)
def test_workloads_are_finite_and_repeatable(name: str) -> None:
    data = columns(name, 1_000)
    assert len(data) == 1_000
    assert np.isfinite(data.a).all()
    assert np.isfinite(data.b).all()
    assert (columns(name, 500).a == data.a[:500]).all()


def test_flights_are_looped() -> None:
    data = columns(FLIGHTS, 700_000)
    period = np.flatnonzero((data.a[1:] == data.a[0]) & (data.b[1:] == data.b[0])) + 1
    assert any((data.a[p : p + 1_000] == data.a[:1_000]).all() for p in period[period > 300_000])


def test_router_reads_back_the_messages() -> None:
    data, stream = columns("ties", 10), self_join(10, 5).streams[0]
    for values in (arrow_messages(data, 4), json_messages(data)):
        messages = [InputMessage(offset, 0, value) for offset, value in enumerate(values)]
        rows = parse(stream, False, 0, 0, messages)
        assert not rows.dead
        assert [column.tolist() for column in rows.codes] == [column.tolist() for column in data.codes]


def test_router_reads_back_the_messages_with_keys_and_times() -> None:
    data, query = columns("ties", 2_001), parse_query(keyed_self_join_text(10, 5, "bench"))
    table = with_keys(data)
    for values in (arrow_messages(table, 1_000), json_messages(table)):
        messages = [InputMessage(offset, 0, value) for offset, value in enumerate(values)]
        rows = parse(query.streams[0], True, 0, 0, messages)
        assert not rows.dead
        assert [column.tolist() for column in rows.codes] == [column.tolist() for column in data.codes]
        assert rows.keys[2_000].as_py() == "order-00002000"
        assert rows.times_us is not None
        assert rows.times_us.tolist() == [(FIRST_MS + number) * 1000 for number in range(2_001)]


def test_the_routers_part_of_json_is_given_as_a_rate_on_one_core() -> None:
    found = Throughput(90_000.0, {"router": 2.5, "sink": 1.0}, {})
    whole, router = json_figures(found, "over 10 messages")
    assert (whole.value, whole.unit, whole.bar) == (90_000.0, "tuples/s", None)
    assert (router.value, router.unit) == (400_000.0, "tuples/s a core")
    assert router.bar is not None
    assert not router.bar.is_met(199_999)
    assert router.bar.is_met(200_000)


def read_all(log: MemoryLog[bytes], source: LogPartition) -> list:
    reader = log.reader()
    reader.open(source, 0)
    return list(reader.poll(1_000, 0.0))


def test_fill_appends_in_order() -> None:
    log: MemoryLog[bytes] = MemoryLog()
    log.create_topics({ROWS.topic: 1})
    fill(log, ROWS, [b"1", b"2", b"3"])
    assert [record.value for record in read_all(log, ROWS)] == [b"1", b"2", b"3"]


def test_paced_messages_carry_their_due_time() -> None:
    log: MemoryLog[bytes] = MemoryLog()
    log.create_topics({ROWS.topic: 1})
    with PacedProducer(log.writer(), ROWS, [b"x"] * 5) as producer:
        while len(read_all(log, ROWS)) < 5:
            producer.check()
            time.sleep(INTERVAL_S)
    due = [round((producer.began_s + number * INTERVAL_S) * 1000) for number in range(5)]
    assert [record.timestamp_ms for record in read_all(log, ROWS)] == due


def test_paced_producer_raises_the_error_that_ended_it() -> None:
    class Broken:
        def append(self, *_: object, **__: object) -> None:
            raise OSError("no room")

        def close(self) -> None: ...

    def wait(producer: PacedProducer) -> None:
        while True:
            producer.check()
            time.sleep(INTERVAL_S)

    with PacedProducer(Broken(), ROWS, [b"x"]) as producer, pytest.raises(OSError, match="no room"):
        wait(producer)


def test_children_stay_on_the_cores_and_the_parent_does_not() -> None:
    usable = os.sched_getaffinity(0)
    with on_cores(1):
        done = subprocess.run(
            [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"], capture_output=True, check=True
        )
    assert done.stdout.strip() == b"1"
    assert os.sched_getaffinity(0) == usable


def result(frame_id: int, rows: int, produced_ms: int) -> Result:
    seqs = np.arange(rows) + frame_id * rows
    batch = pa.record_batch({"seq": seqs, "as_left": seqs, "as_right": seqs})
    return Result(frame_id, 0, rows, True, batch, np.array([produced_ms]), np.array([rows], np.uint32))


def results_log(results: list[Result]) -> MemoryLog[bytes]:
    log: MemoryLog[bytes] = MemoryLog()
    log.create_topics({RESULTS.topic: 1})
    writer = log.writer()
    for each in results:
        message = result_to_message(each)
        writer.append(RESULTS, message.value, tuple(message.headers.items()))
    writer.flush(1.0)
    return log


def test_tap_counts_each_result_once_and_knows_its_age() -> None:
    now_ms = int(time.time() * 1000)
    first, second = result(0, 3, now_ms - 5_000), result(1, 3, now_ms - 1_000)
    tap = ResultsTap(results_log([first, second, first, second]).reader(), RESULTS)
    tap.listen()
    tended: list[int] = []
    tap.until(6, lambda: tended.append(1))
    assert tap.tuples == 6
    assert tended
    latencies = np.concatenate(tap.latencies_ms)
    assert len(latencies) == 6
    assert np.diff(latencies).tolist() == [0, 0, -4_000, 0, 0]
    assert np.concatenate(tap.produced_ms).tolist() == [now_ms - 5_000] * 3 + [now_ms - 1_000] * 3


def test_rate_follows_the_times_of_writing() -> None:
    log, clock = MemoryLog[bytes](), [1_000, 1_500, 2_000]
    log.create_topics({RESULTS.topic: 1})
    writer = log.writer()
    for frame_id, at_ms in enumerate(clock):
        message = result_to_message(result(frame_id, 100, 0))
        writer.append(RESULTS, message.value, tuple(message.headers.items()), timestamp_ms=at_ms)
    writer.flush(1.0)
    tap = ResultsTap(log.reader(), RESULTS)
    tap.until(300, lambda: None)
    assert tap.rate(1) == 200.0
    assert tap.rate(101) == 200.0
    with pytest.raises(RuntimeError, match="at once"):
        tap.rate(201)


def test_tap_stops_waiting_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.load.tap.STALL_S", 0.0)
    tap = ResultsTap(results_log([result(0, 3, 0)]).reader(), RESULTS)
    with pytest.raises(RuntimeError, match="3 of 4 tuples"):
        tap.until(4, lambda: None)


def test_stopwatch_stands_still_while_the_consumer_works(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(parts.time, "perf_counter", lambda: now[0])

    def items() -> Iterator[int]:
        for number in range(3):
            now[0] += 1.0
            yield number

    stopwatch = Stopwatch()
    for _ in stopwatch.draw("made", items()):
        now[0] += 100.0
    assert stopwatch.seconds["made"] == 3.0


def test_parts_cover_the_engine(tmp_path: Path) -> None:
    query, source = tmp_path / "query.yaml", tmp_path / "rows.parquet"
    query.write_text(self_join_text(100, 10))
    pq.write_table(columns("ties", 400).table(), source, row_group_size=100)
    figures = {
        figure.name.removeprefix("embedded part: "): figure
        for figure in run_by_part(query, source, tmp_path / "out.parquet", 100)
    }
    assert {
        "Router",
        "Mutable",
        "LogicalAnd",
        "Sink",
        "PoJoin",
        "engine",
        "read Parquet",
        "write Parquet",
    } <= figures.keys()
    # The engine's part is a difference, and the clocks of two cores may differ by microseconds.
    assert {name: figure.value for name, figure in figures.items() if figure.value < -1} == {}
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 400
