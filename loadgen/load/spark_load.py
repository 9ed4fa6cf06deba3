"""A load as a Spark job: the same rows as the direct producer's, by PySpark Structured Streaming.

Each micro-batch carries the rows of an eighth of a second. So the feed may fall behind its rate, and Kafka's timestamps
are the times of writing. To measure latency under overload, use the direct producer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa

from loadgen.load.connection import Connection, java_properties
from loadgen.load.feed import Pace, Target, feed_tables
from loadgen.load.formats import MessageFormat
from loadgen.load.load import Digest, Load
from loadgen.load.produce import Produced
from loadgen.load.spark import Kafka, start


def produce(load: Load, connection: Connection, say: Callable[[str], None]) -> Produced:
    """Send a finite load evenly, and wait for its end."""
    assert load.rows is not None, "Spark replays a table"
    kafka = Kafka(connection.bootstrap, java_properties(connection.properties))
    spark = start(progress=say)
    digests = {stream.name: Digest() for stream in load.workload.streams}
    tables = []
    for stream in load.workload.streams:
        batch = stream.batch(load.first, load.rows, load.seed)
        digests[stream.name].update(batch)
        tables.append(pa.Table.from_batches([batch]))
    rows_per_message = load.packet_rows if load.message is MessageFormat.ARROW else 1
    say(f"Spark sends {load.rows:,} rows of each stream")
    began_s = time.monotonic()
    targets = [
        Target(kafka, load.topic_of(stream.name), load.partitions, load.message, rows_per_message)
        for stream in load.workload.streams
    ]
    feed_tables(spark, [*zip(tables, targets, strict=True)], Pace(rows_per_second=load.arrivals.rate)).wait()
    seconds = time.monotonic() - began_s
    rows = load.rows * len(tables)
    messages = rows if load.message is MessageFormat.JSON else None
    return Produced(load, rows, messages, seconds, seconds, 0.0, digests)
