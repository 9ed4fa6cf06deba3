from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.load.tap import ResultsTap
from loadgen.promises.data import FIRST_MS, columns, self_join_text, with_keys
from loadgen.promises.parts import run_by_part
from loadgen.promises.serving import INTERVAL_S, PacedProducer, arrow_messages, json_messages
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.query.load import parse_query
from spojoin.reading.parse import parse_messages
from spojoin.wire.records import Result
from spojoin.wire.results import result_to_message
from tests.support.messages import InputMessage

ROWS, RESULTS = LogPartition("in.rows", 0), LogPartition("bench.results", 0)


def test_router_reads_back_the_messages_with_keys_and_times() -> None:
    keyed = "schema: {id: string, a: double, b: double, ts: timestamp}\n    key: id\n    time: ts"
    text = self_join_text(10, 5).replace("schema: {a: double, b: double}", keyed)
    data, query = columns("ties", 2_001), parse_query(text)
    table = with_keys(data)
    for values in (arrow_messages(table, 1_000), json_messages(table)):
        messages = [InputMessage(offset, 0, value) for offset, value in enumerate(values)]
        rows = parse_messages(query.streams[0], True, 0, 0, messages)
        assert not rows.dead
        assert [column.tolist() for column in rows.codes] == [column.tolist() for column in data.codes]
        assert rows.keys[2_000].as_py() == "order-00002000"
        assert rows.times_us is not None
        assert rows.times_us.tolist() == [(FIRST_MS + number) * 1000 for number in range(2_001)]


def read_all(log: MemoryLog[bytes], source: LogPartition) -> list:
    reader = log.reader()
    reader.open(source, 0)
    return list(reader.poll(1_000, 0.0))


def test_paced_messages_carry_their_due_time() -> None:
    log: MemoryLog[bytes] = MemoryLog()
    log.create_topics({ROWS.topic: 1})
    with PacedProducer(log.writer(), ROWS, [b"x"] * 5) as producer:
        while len(read_all(log, ROWS)) < 5:
            producer.check()
            time.sleep(INTERVAL_S)
    due = [round((producer.began_s + number * INTERVAL_S) * 1000) for number in range(5)]
    assert [record.timestamp_ms for record in read_all(log, ROWS)] == due


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
