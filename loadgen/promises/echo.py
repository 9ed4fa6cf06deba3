"""The broker's own minimum latency: processes that only pass messages on, through as many topics as the services."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadgen.load.tap import POLL_S, RECORDS_MAX, STALL_S
from loadgen.promises.serving import PacedProducer
from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog

FLUSH_S = 60.0
STOP_S = 10.0


class EchoProcess(NamedTuple):
    """A process that passes messages on from each of its topics to the next; another process writes the first.

    topics: how many it writes; is_transactional: whether it writes in transactions
    """

    topics: int
    is_transactional: bool


#: Processes, each after the previous one.
Echo = Sequence[EchoProcess]

#: The topics of services in one process (frames and results), and in one each (frames, partials, matches, results).
OF_ONE_PROCESS: Echo = (EchoProcess(2, True),)
OF_ONE_PROCESS_WITHOUT: Echo = (EchoProcess(2, False),)
OF_A_PROCESS_EACH: Echo = (EchoProcess(1, True), EchoProcess(1, False), EchoProcess(1, False), EchoProcess(1, True))


def echo_latencies(
    cluster: LocalCluster, name: str, echo: Echo, messages: Sequence[bytes], settled: int
) -> NDArray[np.float64]:
    """Milliseconds from the time at which each message was due until it was read from the last topic, float64 (n,).

    settled: messages before this number don't count
    """
    topics = [f"echo.{name}.{number}" for number in range(sum(each.topics for each in echo) + 1)]
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    log.create_topics(dict.fromkeys(topics, 1))
    reader = log.reader()
    reader.open(LogPartition(topics[-1], 0), 0)
    late: list[float] = []
    try:
        with (
            _passing(cluster.broker.bootstrap, topics, echo),
            PacedProducer(log.writer(), LogPartition(topics[0], 0), messages) as producer,
        ):
            heard_s = time.monotonic()
            while len(late) < len(messages):
                producer.check()
                found = reader.poll(RECORDS_MAX, POLL_S)
                now_ms = time.time() * 1000
                late += [now_ms - record.timestamp_ms for record in found]
                heard_s = time.monotonic() if found else heard_s
                if time.monotonic() - heard_s > STALL_S:
                    raise RuntimeError(
                        f"the echo has passed {len(late):,} of {len(messages):,} messages on, and stands"
                    )
    finally:
        reader.close()
        log.close()
    return np.array(late[settled:])


@contextmanager
def _passing(bootstrap: str, topics: Sequence[str], echo: Echo) -> Iterator[None]:
    """The processes of an echo while the block runs."""
    running, first = [], 0
    for each in echo:
        names = topics[first : first + each.topics + 1]
        kind = "transactional" if each.is_transactional else "plain"
        running.append(subprocess.Popen([sys.executable, "-m", __name__, bootstrap, kind, *names]))
        first += each.topics
    try:
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(STOP_S)


def pass_on(bootstrap: str, topics: Sequence[str], transactional_id: str | None) -> None:
    """Pass messages on from each topic to the next one, with the times at which they were due; never returns."""
    log = KafkaLog(KafkaConfig(bootstrap))
    reader, writer = log.reader(), log.writer(transactional_id)
    targets = {LogPartition(a, 0): LogPartition(b, 0) for a, b in pairwise(topics)}
    for source in targets:
        reader.open(source, 0)
    while True:
        records = reader.poll(RECORDS_MAX, POLL_S)
        for record in records:
            writer.append(targets[record.input], record.value, timestamp_ms=record.timestamp_ms)
        if records:
            writer.flush(FLUSH_S)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        pass_on(sys.argv[1], sys.argv[3:], f"{sys.argv[3]}-echo" if sys.argv[2] == "transactional" else None)
