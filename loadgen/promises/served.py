"""Section `served`: rows with three columns of the partner through all services and readers, by form of results.

The services run in one process, over the real broker and Redis, beside the embedded engine with one thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain

import pyarrow as pa

import spojoin.spark
from loadgen.bench.measurement import Measurement, at_least, best_seconds, seconds
from loadgen.load import spark
from loadgen.load.messages import ipc_bytes
from loadgen.load.tap import POLL_S, RECORDS_MAX
from loadgen.promises.listing import listing_rows, listing_text
from loadgen.promises.results_source import CORES as SPARK_CORES
from loadgen.promises.results_source import by_data_source, read_all
from loadgen.promises.services import CORES, ahead, on_cores, throughput
from loadgen.promises.serving import MESSAGE_ROWS, MeasuredServices, PreparedQuery, Way, fill, prepared
from loadgen.promises.serving import measured as running_services
from loadgen.promises.sizes import Context
from spojoin.client.results import ServedQueries
from spojoin.embedded.run import engine_for
from spojoin.local.cluster import local_cluster
from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.packing import TOGETHER
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import parse_query
from spojoin.runtime.settings import load_settings
from spojoin.wire.registered import SchemaKind
from spojoin.wire.row_values import json_objects, row_writer

ON = "l.k = r.k AND l.x > r.x"
EMBEDDED_BAR, READ_BAR = at_least(0.6), at_least(1)
FRAMES, JSON = "served-frames", "served-json"
#: The number of rows written as message values in a timing.
ENCODED_ROWS = 8_192
#: With one row per message, one in this many tuples gives enough messages.
JSON_SHARE = 16
#: After this time without a message, all have come.
QUIET_S = 10.0
REPEATS = 5


def measure(context: Context) -> Iterator[Measurement]:
    """The rates of the embedded engine, the services, and the readers of their results."""
    sizes = context.sizes
    after = sizes.services_after // 4
    rows = listing_rows(sizes.window + after + ahead(sizes), sizes.window)
    context.say("the embedded engine, with one thread")
    alone, results = _embedded(rows, sizes.window, after)
    a_tuple = results.num_rows / after
    yield Measurement("embedded engine, one thread", alone, "tuples/s", note=f"{a_tuple:.1f} rows a tuple")
    with on_cores(CORES), local_cluster(context.say) as cluster:
        with prepared(cluster, FRAMES, sizes, context.scratch, _text(sizes.window, FRAMES), Way(TOGETHER)) as ready:
            with _running(context, ready, rows) as running:
                found = throughput(running, sizes.window, sizes.window + after)
            rate, cpu_us = found.tuples_per_second, found.cpu_us
            note = "CPU: " + ", ".join(f"{name} {us:.2f} us" for name, us in cpu_us.items() if us >= 0.005)
            yield Measurement("services, frames", rate, "tuples/s", note=note)
            yield Measurement("services, frames / embedded engine", rate / alone, "times", EMBEDDED_BAR)
            yield from _read(context, ready, rate * a_tuple)
        way = Way(TOGETHER, results="json")
        with prepared(cluster, JSON, sizes, context.scratch, _text(sizes.window, JSON), way) as ready:
            some = rows.slice(0, sizes.window + after // JSON_SHARE)
            with _running(context, ready, some) as running:
                yield _messages(running, round(a_tuple * after / JSON_SHARE / 2))
    yield from _encoded(results)


def _text(window: int, name: str) -> str:
    return listing_text(ON, window, "rows", name=name)


def _embedded(rows: pa.Table, window: int, after: int) -> tuple[float, pa.Table]:
    """Tuples per second of the embedded engine with one thread and a full window, and its rows."""
    engine = engine_for(parse_query(_text(window, "bench")), 1, 1)
    for batch in rows.slice(0, window).to_batches(MESSAGE_ROWS):
        deque(engine.feed(0, batch), 0)
    deque(engine.flush(), 0)
    found: list[pa.RecordBatch] = []
    pieces = rows.slice(window, after).to_batches(MESSAGE_ROWS)
    taken = seconds(lambda: found.extend(chain(*(engine.feed(0, batch) for batch in pieces), engine.flush())))
    engine.close()
    return after / taken, pa.Table.from_batches(found)


@contextmanager
def _running(context: Context, ready: PreparedQuery, rows: pa.Table) -> Iterator[MeasuredServices]:
    """The services, with all rows in their input."""
    context.say(f"filling {ready.input.topic}")
    fill(ready.log, ready.input, map(ipc_bytes, rows.to_batches(MESSAGE_ROWS)))
    with running_services(ready) as running:
        context.say(f"services started, {ready.way.results}; filling the window, then measuring")
        yield running


def _read(context: Context, ready: PreparedQuery, written: float) -> Iterator[Measurement]:
    """The rates of readers of all results, relative to the services' rate."""
    query, bootstrap = ready.plan.query.name, ready.cluster.broker.bootstrap
    context.say("reading the results")
    found: list[int] = []
    served = ServedQueries(load_settings(query_file="-", bootstrap_servers=bootstrap))
    took = seconds(lambda: found.extend(batch.num_rows for batch in served.results(query, follow=False)))
    rates = {"spojoin.connect": sum(found) / took}
    session = spark.start(cores=SPARK_CORES, name="served")
    try:
        spojoin.spark.register(session)
        frame = by_data_source(session, bootstrap, query)
        read_all(frame)
        rates["Spark's data source"] = sum(found) / seconds(partial(read_all, frame))
    finally:
        session.stop()
    for name, rate in rates.items():
        yield Measurement(f"{name}: rows read", rate, "rows/s", note=f"{sum(found):,} rows")
        yield Measurement(f"{name}: rows read / written", rate / written, "times", READ_BAR)


def _messages(running: MeasuredServices, measured: int) -> Measurement:
    """The rate of the last `measured` single-row results, by the times at which the sink wrote them."""
    ready = running.prepared
    reader = ready.log.reader()
    reader.open(LogPartition(topic_name(ready.plan.query.name, Topic.RESULTS), 0), 0)
    times: list[tuple[int, int]] = []
    count, heard_s = 0, time.monotonic()
    while time.monotonic() - heard_s < QUIET_S:
        running.tend()
        for record in reader.poll(RECORDS_MAX, POLL_S):
            count, heard_s = count + 1, time.monotonic()
            if not times or record.timestamp_ms > times[-1][1]:
                times.append((count, record.timestamp_ms))
    reader.close()
    first = next(mark for mark in times if mark[0] >= count - measured)
    rate = 1_000 * (times[-1][0] - first[0]) / (times[-1][1] - first[1])
    return Measurement("services, JSON", rate, "rows/s", note=f"a message each; {count:,} of them")


def _encoded(results: pa.Table) -> Iterator[Measurement]:
    """The time to write rows as message values, without Kafka."""
    rows = results.slice(0, ENCODED_ROWS).combine_chunks().to_batches()[0]
    ways: dict[str, Callable[[], object]] = {
        "frames": partial(ipc_bytes, rows),
        "JSON": partial(json_objects, rows),
        "Avro": partial(row_writer(SchemaKind.AVRO, "rows", rows.schema).values, rows),
    }
    for name, took in best_seconds(ways, REPEATS).items():
        yield Measurement(f"a row as {name}", took / rows.num_rows * 1e9, "ns")
