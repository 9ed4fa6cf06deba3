"""Section `services`: all services over the real broker and Redis, from input topic to results topic."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from loadgen.bench.measurement import Bar, Measurement, at_least, at_most, seconds
from loadgen.promises.data import Columns, check_counts, columns, self_join, with_keys
from loadgen.promises.echo import OF_A_PROCESS_EACH, OF_ONE_PROCESS, OF_ONE_PROCESS_WITHOUT, Echo, echo_latencies
from loadgen.promises.serving import (
    INTERVAL_S,
    MESSAGE_ROWS,
    READER,
    MeasuredServices,
    PacedProducer,
    PreparedQuery,
    Way,
    arrow_messages,
    fill,
    json_messages,
    measured,
    prepared,
)
from loadgen.promises.sizes import Context, PromiseSizes
from spojoin.arrays import F64
from spojoin.embedded.run import engine_for
from spojoin.local.cluster import local_cluster
from spojoin.local.usage import Usage
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import Role
from spojoin.roles.router.config import RouterConfig

THROUGHPUT_BAR = at_least(100_000, goal=250_000)
#: A rate at which nothing queues, and a busy user's rate.
CALM_RATE, BUSY_RATE = 10_000.0, 100_000.0
CALM_BAR = at_most(30)
#: The bar of the rate of JSON messages of one row that the router could take with one core.
JSON_CORE_BAR = at_least(200_000)
WORKLOAD = "uniform"
#: The number of cores for which the promise is made.
CORES = 2
#: The number of results to compare with a scan.
CHECKED = 8


@dataclass(frozen=True, slots=True)
class ServiceBars:
    """The bars of a way to serve.

    of_embedded: of the rate relative to the embedded engine's; of_echo: of p99 relative to the p99 of `echo`
    """

    way: Way
    rate: Bar
    of_embedded: Bar | None
    of_echo: Bar
    echo: Echo


TOGETHER_BARS = ServiceBars(Way(TOGETHER), THROUGHPUT_BAR, at_least(0.6, goal=0.8), at_most(2), OF_ONE_PROCESS)
APART_BARS = ServiceBars(Way(APART), THROUGHPUT_BAR, None, at_most(3), OF_A_PROCESS_EACH)


@dataclass(frozen=True, slots=True)
class Throughput:
    """With a full window: the rate, CPU microseconds per tuple by process, and each process's final usage."""

    tuples_per_second: float
    cpu_us: dict[str, float]
    usage: dict[str, Usage]


def measure(context: Context) -> Iterator[Measurement]:
    """All services in one process and apart: throughput, and latency compared with an echo's; then JSON messages."""
    sizes = context.sizes
    context.say("the embedded engine, with one thread")
    alone = embedded_rate(sizes)
    yield Measurement("embedded engine, one thread", alone, "tuples/s", note="for the ratios")
    with on_cores(CORES), local_cluster(context.say) as cluster:
        for bars in (TOGETHER_BARS, APART_BARS):
            with prepared(cluster, f"bench-{bars.way.packing}", sizes, context.scratch, way=bars.way) as ready:
                yield from _arrow(context, ready, bars, alone)
        with prepared(cluster, "bench-plain", sizes, context.scratch, way=Way(TOGETHER, transactions=False)) as ready:
            yield from _without_transactions(context, ready)
        with prepared(cluster, "bench-json", sizes, context.scratch) as ready:
            yield from _json(context, ready)


def embedded_rate(sizes: PromiseSizes) -> float:
    """Tuples per second of the embedded engine with one thread and a full window."""
    rows = sizes.services_after
    data = columns(WORKLOAD, sizes.window + rows).table()
    engine = engine_for(self_join(sizes.window, sizes.slide), 1, 1)
    for batch in data.slice(0, sizes.window).to_batches(MESSAGE_ROWS):
        deque(engine.feed(0, batch), 0)
    pieces = data.slice(sizes.window).to_batches(MESSAGE_ROWS)
    taken = seconds(lambda: deque(chain.from_iterable(engine.feed(0, batch) for batch in pieces), 0))
    engine.close()
    return rows / taken


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict processes started within the block to `count` of this machine's cores."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def _arrow(context: Context, ready: PreparedQuery, bars: ServiceBars, alone: float) -> Iterator[Measurement]:
    sizes, packing = context.sizes, bars.way.packing
    end = sizes.window + sizes.services_after
    data = columns(WORKLOAD, end + ahead(sizes))
    context.say(f"filling {ready.input.topic}")
    fill(ready.log, ready.input, arrow_messages(data))
    with measured(ready) as running:
        context.say(f"services started, {packing}; filling the window, then measuring")
        found = throughput(running, sizes.window, end)
        check(context, data, running)
        rate, note = found.tuples_per_second, f"over {sizes.services_after:,} tuples"
        yield Measurement(f"{packing}: services, Arrow batches", rate, "tuples/s", bars.rate, note)
        yield Measurement(f"{packing}: rate / embedded engine", rate / alone, "times", bars.of_embedded, "one thread")
        yield from _usage(found, packing)
        running.tap.until(len(data), running.tend)
        busy = _latencies(context, running, data, BUSY_RATE)
        calm = _latencies(context, running, data, CALM_RATE) if packing == TOGETHER else None
    yield from _beside_echo(context, ready, data, busy, bars)
    if calm is not None:
        yield from _percentiles(f"{packing}: latency", CALM_RATE, calm, CALM_BAR)


def _without_transactions(context: Context, ready: PreparedQuery) -> Iterator[Measurement]:
    """Latency without transactions."""
    data = columns(WORKLOAD, context.sizes.window)
    fill(ready.log, ready.input, arrow_messages(data))
    with measured(ready) as running:
        context.say("services started, together, without transactions; filling the window")
        running.tap.until(len(data), running.tend)
        busy = _latencies(context, running, data, BUSY_RATE)
    bars = replace(TOGETHER_BARS, way=ready.way, echo=OF_ONE_PROCESS_WITHOUT)
    yield from _beside_echo(context, ready, data, busy, bars)


def _json(context: Context, ready: PreparedQuery) -> Iterator[Measurement]:
    """The rates with JSON rows; Arrow batches fill the window first."""
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
        check(context, data, running)
        yield from json_figures(found, f"over {sizes.json_after:,} messages of four fields, three of them read")


def json_figures(found: Throughput, note: str) -> Iterator[Measurement]:
    """The rate of all services, and the rate at which the router alone would use one core."""
    cpu_us = found.cpu_us[Role.ROUTER.value]
    yield Measurement("services, one JSON message a tuple", found.tuples_per_second, "tuples/s", note=note)
    about = f"{cpu_us:.2f} us of CPU each, from Kafka's client to the frames in the log; {note}"
    yield Measurement("router, one JSON message a tuple", 1e6 / cpu_us, "tuples/s a core", JSON_CORE_BAR, about)


def ahead(sizes: PromiseSizes) -> int:
    """The tuples that the router may have read before the measured results are out."""
    return sizes.credits_frames * RouterConfig(router_id="bench").frame_tuples


def throughput(running: MeasuredServices, window: int, tuples: int) -> Throughput:
    """Measure from the full window until `tuples` are answered; the topic always holds more."""
    running.tap.until(window, running.tend)
    full, before = running.tap.tuples, running.usage()
    running.tap.until(tuples, running.tend)
    after, measured = running.usage(), running.tap.tuples - full
    if measured < (tuples - window) / 2:
        raise RuntimeError(f"{full:,} of {tuples:,} results were read at once: measure more tuples")
    cpu_us = {name: (after[name].cpu_s - before[name].cpu_s) / measured * 1e6 for name in before}
    return Throughput(running.tap.rate(window), cpu_us, after)


def _usage(found: Throughput, packing: str) -> Iterator[Measurement]:
    reading = found.cpu_us[READER]
    whole = sum(found.cpu_us.values()) - reading
    for name, cpu_us in found.cpu_us.items():
        if name != READER:
            yield Measurement(
                f"{packing}, {name}: CPU", cpu_us, "us a tuple", note=f"{cpu_us / whole:.0%} of all" if whole else ""
            )
            yield Measurement(f"{packing}, {name}: peak memory", found.usage[name].peak_rss_bytes / (1 << 20), "MiB")
    yield Measurement(
        f"{packing}, services, broker and Redis: CPU", whole, "us a tuple", note=f"{READER} takes {reading:.2f} us more"
    )


def _latencies(context: Context, running: MeasuredServices, data: Columns, rate: float) -> F64:
    """Latencies in milliseconds at a rate in tuples per second, float64 (n,), once they have settled."""
    tap = running.tap
    context.say(f"{rate:,.0f} tuples/s for {context.sizes.settle_s + context.sizes.latency_s:.0f} s")
    messages = paced(context, data, rate)
    tap.forget()
    wanted = tap.tuples + len(messages) * rows_of(rate)
    with PacedProducer(running.prepared.log.writer(), running.prepared.input, messages) as producer:
        tap.until(wanted, lambda: tend(running, producer))
    began_ms = (producer.began_s + context.sizes.settle_s) * 1000
    settled = np.concatenate(tap.produced_ms) >= began_ms
    return np.concatenate(tap.latencies_ms)[settled]


def rows_of(rate: float) -> int:
    """Rows of a message of a paced stream."""
    return max(round(rate * INTERVAL_S), 1)


def paced(context: Context, data: Columns, rate: float) -> list[bytes]:
    """The messages of a paced stream."""
    sizes, rows = context.sizes, rows_of(rate)
    count = rows * round((sizes.settle_s + sizes.latency_s) / INTERVAL_S)
    return list(arrow_messages(Columns(np.resize(data.a, count), np.resize(data.b, count)), rows))


def _beside_echo(
    context: Context, ready: PreparedQuery, data: Columns, found: F64, bars: ServiceBars
) -> Iterator[Measurement]:
    """Latencies at the busy rate, compared with an echo of the same messages on the same broker."""
    name = ready.plan.query.name
    context.say(f"{name}: the same messages through an echo")
    messages, settled = paced(context, data, BUSY_RATE), round(context.sizes.settle_s / INTERVAL_S)
    floor = echo_latencies(ready.cluster, name, bars.echo, messages, settled)
    prefix = bars.way.packing if bars.way.transactions else f"{bars.way.packing}, no transactions"
    yield from _percentiles(f"{prefix}: latency", BUSY_RATE, found)
    yield from _percentiles(f"{prefix}: echo", BUSY_RATE, floor)
    ratio = float(np.percentile(found, 99) / np.percentile(floor, 99))
    through = f"the echo: {sum(each.topics for each in bars.echo)} topics, processes: {len(bars.echo)}"
    yield Measurement(f"{prefix}: latency p99 / an echo's", ratio, "times", bars.of_echo, through)


def _percentiles(name: str, rate: float, found: F64, p99: Bar | None = None) -> Iterator[Measurement]:
    note = f"in messages of {rows_of(rate)} tuples"
    for percent in (50, 99, 100):
        value = float(np.percentile(found, percent))
        yield Measurement(
            f"{name} p{percent} at {rate:,.0f} tuples/s", value, "ms", p99 if percent == 99 else None, note
        )


def tend(running: MeasuredServices, producer: PacedProducer) -> None:
    running.tend()
    producer.check()


def check(context: Context, data: Columns, running: MeasuredServices) -> None:
    """Compare some of the results that were read with a scan. Raises AssertionError."""
    counts = pa.Table.from_batches(running.tap.samples)
    check_counts(data, context.sizes.window, context.sizes.slide, counts, CHECKED)
