"""Section `services`: all services over the real broker and Redis, from input topic to results topic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from loadgen.promises.context import Context
from loadgen.promises.data import Columns, columns, keyed_self_join_text, with_keys
from loadgen.promises.figures import Measurement, at_least, at_most
from loadgen.promises.produce import INTERVAL_S, PacedProducer, arrow_messages, fill, json_messages
from loadgen.promises.serving import READER, MeasuredServices, PreparedQuery, measured, prepared
from loadgen.promises.sizes import PromiseSizes
from loadgen.promises.window import check_counts
from spojoin.local.cluster import local_cluster
from spojoin.local.usage import Usage
from spojoin.protocol.topology import Role
from spojoin.roles.router.config import RouterConfig

THROUGHPUT_BAR = at_least(100_000, goal=250_000)
LATENCY_BAR = at_most(150)
#: Of JSON rows, one a message, that the router alone could take with one core.
JSON_CORE_BAR = at_least(200_000)
WORKLOAD = "uniform"
#: The cores that the promise is made for.
CORES = 2
#: Results that are compared with a scan.
CHECKED = 8


@dataclass(frozen=True, slots=True)
class Throughput:
    """With the window full: the rate, microseconds of CPU a tuple by process, and what each has used in the end."""

    tuples_per_second: float
    cpu_us: dict[str, float]
    usage: dict[str, Usage]


def measure(context: Context) -> Iterator[Measurement]:
    """Throughput with Arrow batches, latency at half of it, throughput with single JSON messages."""
    sizes = context.sizes
    with on_cores(CORES), local_cluster(context.say) as cluster:
        with prepared(cluster, "bench-arrow", sizes, context.scratch) as ready:
            yield from _arrow(context, ready)
        text = keyed_self_join_text(sizes.window, sizes.slide, "bench-json")
        with prepared(cluster, "bench-json", sizes, context.scratch, text) as ready:
            yield from _json(context, ready)


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict what is started within the block to `count` of this machine's cores."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def _arrow(context: Context, ready: PreparedQuery) -> Iterator[Measurement]:
    sizes = context.sizes
    end = sizes.window + sizes.services_after
    data = columns(WORKLOAD, end + ahead(sizes))
    context.say(f"filling {ready.input.topic}")
    fill(ready.log, ready.input, arrow_messages(data))
    with measured(ready) as running:
        context.say("services started; filling the window, then measuring")
        found = throughput(running, sizes.window, end)
        _check(context, data, running)
        note = f"over {sizes.services_after:,} tuples"
        yield Measurement("services, Arrow batches", found.tuples_per_second, "tuples/s", THROUGHPUT_BAR, note)
        yield from _usage(found)
        running.tap.until(len(data), running.tend)
        context.say(f"half of that rate for {sizes.settle_s + sizes.latency_s:.0f} s")
        yield from _latency(context, running, data, found.tuples_per_second / 2)


def _json(context: Context, ready: PreparedQuery) -> Iterator[Measurement]:
    """The window is filled with Arrow batches, and only what follows comes as JSON."""
    sizes = context.sizes
    end = sizes.window + sizes.json_after
    data = columns(WORKLOAD, end + ahead(sizes))
    context.say(f"filling {ready.input.topic}")
    table = with_keys(data)
    fill(ready.log, ready.input, arrow_messages(table[: sizes.window]))
    fill(ready.log, ready.input, json_messages(table[sizes.window :]))
    with measured(ready) as running:
        context.say("services started; filling the window, then measuring")
        found = throughput(running, sizes.window, end)
        _check(context, data, running)
        yield from json_figures(found, f"over {sizes.json_after:,} messages of four fields, three of them read")


def json_figures(found: Throughput, note: str) -> Iterator[Measurement]:
    """The rate of all services, and the rate at which the router alone would use one core."""
    cpu_us = found.cpu_us[Role.ROUTER.value]
    yield Measurement("services, one JSON message a tuple", found.tuples_per_second, "tuples/s", note=note)
    about = f"{cpu_us:.2f} us of CPU each, from Kafka's client to the frames in the log; {note}"
    yield Measurement("router, one JSON message a tuple", 1e6 / cpu_us, "tuples/s a core", JSON_CORE_BAR, about)


def ahead(sizes: PromiseSizes) -> int:
    """The tuples that the router may have read before the results of those measured are out."""
    return sizes.credits_frames * RouterConfig(router_id="bench").frame_tuples


def throughput(running: MeasuredServices, window: int, tuples: int) -> Throughput:
    """Measure from the full window until `tuples` are answered; the topic holds more all the while."""
    running.tap.until(window, running.tend)
    full, before = running.tap.tuples, running.usage()
    running.tap.until(tuples, running.tend)
    after, measured = running.usage(), running.tap.tuples - full
    if measured < (tuples - window) / 2:
        raise RuntimeError(f"{full:,} of {tuples:,} results were read at once: measure more tuples")
    cpu_us = {name: (after[name].cpu_s - before[name].cpu_s) / measured * 1e6 for name in before}
    return Throughput(running.tap.rate(window), cpu_us, after)


def _usage(found: Throughput) -> Iterator[Measurement]:
    reading = found.cpu_us[READER]
    whole = sum(found.cpu_us.values()) - reading
    for name, cpu_us in found.cpu_us.items():
        if name != READER:
            yield Measurement(
                f"{name}: CPU", cpu_us, "us a tuple", note=f"{cpu_us / whole:.0%} of all" if whole else ""
            )
            yield Measurement(f"{name}: peak memory", found.usage[name].peak_rss_bytes / (1 << 20), "MiB")
    yield Measurement(
        "services, broker and Redis: CPU", whole, "us a tuple", note=f"{READER} takes {reading:.2f} us more"
    )


def _latency(context: Context, running: MeasuredServices, data: Columns, rate: float) -> Iterator[Measurement]:
    sizes, ready, tap = context.sizes, running.prepared, running.tap
    rows = max(round(rate * INTERVAL_S), 1)
    count = round((sizes.settle_s + sizes.latency_s) / INTERVAL_S)
    repeated = Columns(np.resize(data.a, rows * count), np.resize(data.b, rows * count))
    messages = list(arrow_messages(repeated, rows))
    tap.listen()
    wanted = tap.tuples + rows * count
    with PacedProducer(ready.log.writer(), ready.input, messages) as producer:
        tap.until(wanted, lambda: _tend(running, producer))
        began_ms = (producer.began_s + sizes.settle_s) * 1000
    settled = np.concatenate(tap.produced_ms) >= began_ms
    latencies = np.concatenate(tap.latencies_ms)[settled]
    note = f"at {rows / INTERVAL_S:,.0f} tuples/s in messages of {rows}; {len(latencies):,} tuples"
    for percent, bar in ((50, None), (99, LATENCY_BAR), (100, None)):
        yield Measurement(f"latency p{percent}", float(np.percentile(latencies, percent)), "ms", bar, note)


def _tend(running: MeasuredServices, producer: PacedProducer) -> None:
    running.tend()
    producer.check()


def _check(context: Context, data: Columns, running: MeasuredServices) -> None:
    counts = pa.Table.from_batches(running.tap.samples)
    check_counts(data, context.sizes.window, context.sizes.slide, counts, CHECKED)
