"""Known rows through a running deployment of the demo's query, alongside any other rows.

Each row draws less power and needs more cooling than every earlier row. So it matches its whole window as the left
side, and no row as the right side. Other rows don't change this: its answer follows from the window's definition.

    python -m loadgen.check.smoke
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import uuid4

import orjson
import pyarrow as pa

from loadgen.errors import one_sentence
from loadgen.load.connection import connection
from loadgen.window import window_of
from spojoin.errors import Retryable, SpoJoinError
from spojoin.model import Query
from spojoin.ports.interfaces import Log, LogPartition
from spojoin.protocol.topology import Topic, input_topic, topic_name
from spojoin.query.load import load_query
from spojoin.runtime.ordered_results import OrderedResults
from spojoin.runtime.settings import load_settings
from spojoin.wire.results import result_from_message

ROWS = 200
TIMEOUT_S = 120.0
POLL_S = 0.5


class SmokeFailed(SpoJoinError):
    """An answer is wrong or missing."""


class SmokeRow(NamedTuple):
    """A row of the results."""

    seq: int
    key: str
    as_left: int
    as_right: int


def main() -> None:
    """Send the rows, wait for their answers, and compare them with the definition."""
    with one_sentence(is_debug=False):
        query = load_query(load_settings().query_file)
        log = connection(None, {}).log()
        try:
            wait_for_topics(log, [topic_name(query.name, Topic.RESULTS)])
            log.create_topics({input_topic(query.streams[0].name): 1})
            answers = run(log, query)
        finally:
            log.close()
        check(answers, query)
        print(f"{len(answers)} known rows were answered, each once, in order and right")


def wait_for_topics(log: Log[bytes], topics: Sequence[str], timeout_s: float = TIMEOUT_S) -> None:
    """Wait until Kafka answers and has these topics, which the services create once they are installed.

    Raises SmokeFailed.
    """
    deadline = time.monotonic() + timeout_s
    while (said := _missing(log, topics)) is not None:
        if time.monotonic() > deadline:
            raise SmokeFailed(f"after {timeout_s:.0f} s {said}: look at Kafka and at the services' logs")
        time.sleep(POLL_S)


def _missing(log: Log[bytes], topics: Sequence[str]) -> str | None:
    """The missing topics, in words."""
    try:
        absent = [topic for topic in topics if not log.partitions(topic)]
        for topic in () if absent else topics:
            log.bounds(LogPartition(topic, 0))
    except Retryable as error:
        return str(error)
    return f"there is no topic {absent[0]}" if absent else None


def run(log: Log[bytes], query: Query) -> list[SmokeRow]:
    """The answers to ROWS new rows, in the order of the results."""
    results, mark = OrderedResults(log, topic_name(query.name, Topic.RESULTS), from_start=False), uuid4().hex
    send(log, LogPartition(input_topic(query.streams[0].name), 0), mark)
    found: list[SmokeRow] = []
    for answer in answers_from(results):
        if answer.key.startswith(mark):
            found.append(answer)
        if len(found) == ROWS:
            break
    return found


def send(log: Log[bytes], target: LogPartition, mark: str) -> None:
    """Append the rows; their time distinguishes them from later runs."""
    first = time.time_ns() // 1_000_000 * ROWS
    writer = log.writer()
    try:
        for number in range(ROWS):
            extreme = float(first + number)
            row = {"reading": f"{mark}-{number:03}", "power": -extreme, "cooling": extreme}
            writer.append(target, orjson.dumps(row))
        writer.flush(TIMEOUT_S)
    finally:
        writer.close()


def answers_from(results: OrderedResults) -> Iterator[SmokeRow]:
    """All answers from now on, each once. Raises SmokeFailed if none comes in time."""
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            for record in results.poll(POLL_S):
                yield from answers_of(result_from_message(dict(record.headers), record.value).rows)
    finally:
        results.close()
    raise SmokeFailed(f"not all of {ROWS} rows were answered within {TIMEOUT_S:.0f} s: look at the services' logs")


def answers_of(rows: pa.RecordBatch) -> Iterator[SmokeRow]:
    """The rows of a result."""
    columns = (rows[name].to_pylist() for name in ("seq", "key", "as_left", "as_right"))
    return (SmokeRow(seq, str(key), left, right) for seq, key, left, right in zip(*columns, strict=True))


def check(answers: list[SmokeRow], query: Query) -> None:
    """Compare with the definition of the window.

    Raises SmokeFailed with the first difference.
    """
    keys = [answer.key for answer in answers]
    if keys != sorted(set(keys)):
        raise SmokeFailed("answers are doubled or out of order")
    length, slide = query.window.length, query.window.slide
    for answer in answers:
        window = answer.seq - window_of(answer.seq, length, slide).start
        if (answer.as_left, answer.as_right) != (window, 0):
            raise SmokeFailed(
                f"row {answer.key} (seq {answer.seq}) matches {answer.as_left} as left and {answer.as_right} as right; "
                f"expected {window} and 0"
            )


if __name__ == "__main__":
    main()
