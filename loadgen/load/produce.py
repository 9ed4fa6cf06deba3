"""`loadgen produce`: sends a load and reports its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rich.table import Table

from loadgen.load.load import Digest, Load
from loadgen.load.open_loop import Behind, OpenLoop, Sender
from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Bounds, Log, LogPartition
from spojoin.protocol.topic_config import DEFAULTS, TopicKind

POLL_S = 0.2

#: Called repeatedly with the progress of the run.
Progress = Callable[[OpenLoop], None]


@dataclass(frozen=True, slots=True)
class Produced:
    """The sent load.

    messages: None if they weren't counted
    seconds: until the last packet was sent; acknowledged_seconds: until all was acknowledged
    behind_s_max: the latest that a packet was; digests: by stream
    """

    load: Load
    rows: int
    messages: int | None
    seconds: float
    acknowledged_seconds: float
    behind_s_max: float
    digests: Mapping[str, Digest]

    @property
    def rate(self) -> float:
        """Rows a second, acknowledged."""
        return self.rows / max(self.acknowledged_seconds, 1e-9)

    def as_json(self) -> dict[str, object]:
        return {
            "workload": self.load.workload.name,
            "seed": self.load.seed,
            "rate_asked": self.load.arrivals.rate,
            "rows": self.rows,
            "messages": self.messages,
            "seconds": round(self.acknowledged_seconds, 3),
            "rows_per_second": round(self.rate, 1),
            "behind_s_max": round(self.behind_s_max, 3),
            "streams": {
                name: {"topic": self.load.topic_of(name), "first": self.load.first, "rows": d.rows, "sha256": d.hex()}
                for name, d in self.digests.items()
            },
        }


def settled(log: Log[bytes], load: Load, partitions: int | None, retention_bytes: int | None = None) -> Load:
    """The load with the partitions of its topics.

    A missing topic is created with `partitions` (default 1), each of which keeps `retention_bytes` (default all).
    Raises ConfigurationError if a topic has fewer partitions than requested.
    """
    topics = [load.topic_of(stream.name) for stream in load.workload.streams]
    kept = {} if retention_bytes is None else {"retention.bytes": str(retention_bytes)}
    missing = {topic: partitions or 1 for topic in topics if not log.partitions(topic)}
    log.create_topics(missing, {**DEFAULTS[TopicKind.INTERNAL], **kept})
    counts = {topic: log.partitions(topic) for topic in topics}
    for topic, count in counts.items():
        if partitions and count < partitions:
            raise ConfigurationError(
                f"--partitions {partitions}: the topic {topic} has {count}; "
                f"give it more (kafka-topics.sh --alter) or ask for at most {count}"
            )
    return replace(load, partitions=partitions or min(counts.values()))


def ends_of(log: Log[bytes], load: Load) -> dict[LogPartition, Bounds]:
    """The begins and ends of all partitions of a load's topics."""
    topics = [load.topic_of(stream.name) for stream in load.workload.streams]
    inputs = [LogPartition(topic, partition) for topic in topics for partition in range(log.partitions(topic))]
    return {each: log.bounds(each) for each in inputs}


def produce(load: Load, sender: Sender, warn: Callable[[Behind], None], progress: Progress) -> Produced:
    """Send a load and wait until it is acknowledged; Ctrl-C and SIGTERM end it in order."""
    digests = {stream.name: Digest() for stream in load.workload.streams}
    with OpenLoop(sender, replace(load, digests=digests).packets(), warn) as loop:
        try:
            _follow(loop, progress)
        except KeyboardInterrupt:
            loop.stop()
            _follow(loop, progress)
        acknowledged_s = loop.acknowledged_s or time.time()
        return Produced(
            load, loop.rows, loop.messages, loop.seconds, acknowledged_s - loop.began_s, loop.behind_s_max, digests
        )


def _follow(loop: OpenLoop, progress: Progress) -> None:
    while not loop.is_done:
        loop.wait(POLL_S)
        progress(loop)
    loop.check()


def table(produced: Produced) -> Table:
    """The outcome as a table."""
    load = produced.load
    shown = Table(title=f"{load.workload.name}, seed {load.seed}", show_header=False, title_justify="left")
    shown.add_row("rows", f"{produced.rows:,}")
    shown.add_row("messages", "-" if produced.messages is None else f"{produced.messages:,} ({load.message})")
    shown.add_row("rows/s", f"{produced.rate:,.0f} of {load.arrivals.rate:,.0f}")
    shown.add_row("seconds", f"{produced.acknowledged_seconds:,.2f}")
    shown.add_row("latest", f"{produced.behind_s_max * 1000:,.0f} ms after it was due")
    for name, digest in produced.digests.items():
        topic = f"{load.topic_of(name)} ({load.partitions} partition{'s' * (load.partitions > 1)})"
        shown.add_row(topic, f"{digest.rows:,} rows from {load.first:,} on, sha256 {digest.hex()[:16]}")
    return shown
