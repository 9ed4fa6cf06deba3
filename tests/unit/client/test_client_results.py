"""`spojoin.connect(...).results(...)` over a log in memory: each batch once, in order, to the end or on and on."""

import asyncio
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from spojoin.client.results import ServedResults
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.wire.records import Result
from spojoin.wire.results import result_messages_json, result_to_message

TOPIC = LogPartition("q.results", 0)


def made(frame, values, begin=0, end=4, is_last=True):
    rows = pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})
    nothing = np.empty(0, np.int64), np.empty(0, np.uint32)
    return Result(frame, begin, end, is_last, rows, *nothing, probes=np.arange(len(values)), matches=len(values))


def log_of(*results, form=result_to_message):
    log = MemoryLog()
    log.create_topics({TOPIC.topic: 1})
    append(log, *results, form=form)
    return log


def append(log, *results, form=result_to_message):
    writer = log.writer()
    for result in results:
        message = form(result)
        writer.append(TOPIC, message.value, tuple(message.headers.items()))
    writer.flush(1)


#: What a crash writes twice, frames without rows, and a frame in two parts.
FRAMES = [
    made(0, [1]),
    made(0, [1]),
    made(1, []),
    made(2, [2, 3], end=2, is_last=False),
    made(2, [2, 3], end=2, is_last=False),
    made(2, [4], begin=2),
    made(1, []),
    made(3, [5]),
]
WANTED = [[1], [2, 3], [4], [5]]


def values(batches):
    return [batch.column("x").to_pylist() for batch in batches]


def test_each_result_comes_once_in_order():
    assert values(ServedResults(log_of(*FRAMES), "q", follow=False)) == WANTED


def test_from_now_on():
    log = log_of(*FRAMES)
    results = ServedResults(log, "q", from_start=False)
    append(log, made(4, [6]), made(4, [6]), made(5, [7]))
    assert values([next(results), next(results)]) == [[6], [7]]


def test_by_async_for():
    async def read():
        return [batch async for batch in ServedResults(log_of(*FRAMES), "q", follow=False)]

    assert values(asyncio.run(read())) == WANTED


def test_nothing_follows_a_close():
    with ServedResults(log_of(*FRAMES), "q") as results:
        assert values([next(results)]) == [[1]]
    assert list(results) == []
    results.close()


def test_no_such_topic():
    with pytest.raises(ConfigurationError, match=r"no topic 'q.results'"):
        ServedResults(MemoryLog(), "q")


def test_other_forms_are_refused_with_a_sentence():
    counts = Result(
        0, 0, 1, True, pa.RecordBatch.from_pydict({"seq": [0], "matches": [1]}), np.empty(0, np.int64),
        np.empty(0, np.uint32),
    )  # fmt: skip
    log = log_of(counts, form=lambda result: result_messages_json(result)[0])
    with pytest.raises(ConfigurationError, match=r"are application/json: .* results_format frames"):
        next(ServedResults(log, "q"))


def test_a_missing_package_is_named_with_what_brings_it():
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "import spojoin\n"
        "try: spojoin.connect()\n"
        "except spojoin.client.connect.ConfigurationError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("spojoin.connect needs confluent_kafka")
    assert "pip install 'spojoin[services]'" in found.stdout
