"""Section `services`: all services over the real broker and Redis, from input topic to results topic."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from loadgen.promises.context import Context
from loadgen.promises.data import Columns, columns, self_join, with_keys
from loadgen.promises.figures import Bar, Measurement, at_least, at_most
from loadgen.promises.produce import INTERVAL_S, MESSAGE_ROWS, PacedProducer, arrow_messages, fill, json_messages
from loadgen.promises.serving import READER, MeasuredServices, PreparedQuery, Way, measured, prepared
from loadgen.promises.sizes import PromiseSizes
from loadgen.promises.timing import seconds
from loadgen.promises.window import check_counts
from spojoin.embedded.run import engine_for
from spojoin.local.cluster import local_cluster
from spojoin.local.usage import Usage
from spojoin.protocol.packing import APART, TOGETHER
from spojoin.protocol.topology import Role
from spojoin.roles.router.config import RouterConfig

THROUGHPUT_BAR = at_least(100_000, goal=250_000)
#: A rate at which nothing has to wait for anything else.
CALM_RATE = 10_000.0
CALM_BAR = at_most(30)
#: Of JSON rows, one a message, that the router alone could take with one core.
JSON_CORE_BAR = at_least(200_000)
WORKLOAD = "uniform"
#: The cores that the promise is made for.
CORES = 2
#: Results that are compared with a scan.
CHECKED = 8


@dataclass(frozen=True, slots=True)
class ServiceBars:
    """What is promised of a way to serve; of_embedded: of the rate relative to the embedded engine's."""

    way: Way
    rate: Bar
    of_embedded: Bar | None
    p50: Bar | None
    p99: Bar


TOGETHER_BARS = ServiceBars(Way(TOGETHER), THROUGHPUT_BAR, at_least(0.6, goal=0.8), at_most(25), at_most(60))
APART_BARS = ServiceBars(Way(APART), THROUGHPUT_BAR, None, None, at_most(80))


@dataclass(frozen=True, slots=True)
class LatencyBars:
    """Latency at a rate in tuples a second; `prefix` begins the figures' names."""

    prefix: str
    rate: float
    p50: Bar | None
    p99: Bar | None


@dataclass(frozen=True, slots=True)
class Throughput:
    """With the window full: the rate, microseconds of CPU a tuple by process, and what each has used in the end."""

    tuples_per_second: float
    cpu_us: dict[str, float]
    usage: dict[str, Usage]


def measure(context: Context) -> Iterator[Measurement]:
    """All services in one process and apart: throughput, and latency at half of it; then single JSON messages."""
    sizes = context.sizes
    context.say("the embedded engine, with one thread")
    alone = embedded_rate(sizes)
    yield Measurement("embedded engine, one thread", alone, "tuples/s", note="for the ratios")
    with on_cores(CORES), local_cluster(context.say) as cluster:
        rates: dict[str, float] = {}
        for bars in (TOGETHER_BARS, APART_BARS):
            with prepared(cluster, f"bench-{bars.way.packing}", sizes, context.scratch, way=bars.way) as ready:
                for figure in _arrow(context, ready, bars, alone):
                    rates.setdefault(bars.way.packing, figure.value)
                    yield figure
        with prepared(cluster, "bench-plain", sizes, context.scratch, way=Way(TOGETHER, transactions=False)) as ready:
            yield from _without_transactions(context, ready, rates[TOGETHER])
        with prepared(cluster, "bench-json", sizes, context.scratch) as ready:
            yield from _json(context, ready)


def embedded_rate(sizes: PromiseSizes) -> float:
    """Tuples a second of the embedded engine with one thread, the window being full."""
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
    """Restrict what is started within the block to `count` of this machine's cores."""
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
        _check(context, data, running)
        rate, note = found.tuples_per_second, f"over {sizes.services_after:,} tuples"
        yield Measurement(f"{packing}: services, Arrow batches", rate, "tuples/s", bars.rate, note)
        yield Measurement(f"{packing}: rate / embedded engine", rate / alone, "times", bars.of_embedded, "one thread")
        yield from _usage(found, packing)
        running.tap.until(len(data), running.tend)
        yield from _latency(context, running, data, LatencyBars(f"{packing}: ", rate / 2, bars.p50, bars.p99))
        if packing == TOGETHER:
            yield from _latency(context, running, data, LatencyBars(f"{packing}: ", CALM_RATE, None, CALM_BAR))


def _without_transactions(context: Context, ready: PreparedQuery, rate: float) -> Iterator[Measurement]:
    """Latency at half of the rate that was reached with transactions."""
    data = columns(WORKLOAD, context.sizes.window)
    fill(ready.log, ready.input, arrow_messages(data))
    with measured(ready) as running:
        context.say("services started, together, without transactions; filling the window")
        running.tap.until(len(data), running.tend)
        bars = LatencyBars("together, no transactions: ", rate / 2, at_most(10), at_most(40))
        yield from _latency(context, running, data, bars)


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


def _latency(context: Context, running: MeasuredServices, data: Columns, bars: LatencyBars) -> Iterator[Measurement]:
    sizes, ready, tap = context.sizes, running.prepared, running.tap
    context.say(f"{bars.rate:,.0f} tuples/s for {sizes.settle_s + sizes.latency_s:.0f} s")
    rows = max(round(bars.rate * INTERVAL_S), 1)
    count = round((sizes.settle_s + sizes.latency_s) / INTERVAL_S)
    repeated = Columns(np.resize(data.a, rows * count), np.resize(data.b, rows * count))
    messages = list(arrow_messages(repeated, rows))
    tap.forget()
    wanted = tap.tuples + rows * count
    with PacedProducer(ready.log.writer(), ready.input, messages) as producer:
        tap.until(wanted, lambda: _tend(running, producer))
        began_ms = (producer.began_s + sizes.settle_s) * 1000
    settled = np.concatenate(tap.produced_ms) >= began_ms
    latencies = np.concatenate(tap.latencies_ms)[settled]
    rate = f"{rows / INTERVAL_S:,.0f} tuples/s"
    note = f"at {rate} in messages of {rows}; {len(latencies):,} tuples"
    for percent, bar in ((50, bars.p50), (99, bars.p99), (100, None)):
        name = f"{bars.prefix}latency p{percent} at {rate}"
        yield Measurement(name, float(np.percentile(latencies, percent)), "ms", bar, note)


def _tend(running: MeasuredServices, producer: PacedProducer) -> None:
    running.tend()
    producer.check()


def _check(context: Context, data: Columns, running: MeasuredServices) -> None:
    counts = pa.Table.from_batches(running.tap.samples)
    check_counts(data, context.sizes.window, context.sizes.slide, counts, CHECKED)
