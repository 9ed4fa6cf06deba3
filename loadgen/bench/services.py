"""Section `services`: all services over the real broker and Redis, from input topic to results topic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from loadgen.bench.context import Context
from loadgen.bench.data import Columns, columns
from loadgen.bench.figures import Figure, at_least, at_most
from loadgen.bench.produce import INTERVAL_S, PacedProducer, arrow_messages, fill, json_messages
from loadgen.bench.serving import Prepared, Serving, prepared, serving
from loadgen.bench.window import check_counts
from spojoin.cli.usage import Usage
from spojoin.runtime.local.cluster import local_cluster

THROUGHPUT_BAR = at_least(100_000, goal=250_000)
LATENCY_BAR = at_most(150)
WORKLOAD = "uniform"
#: Results that are compared with a scan.
CHECKED = 8


def measure(context: Context) -> Iterator[Figure]:
    """Throughput with Arrow batches, latency at half of it, throughput with single JSON messages."""
    sizes = context.sizes
    with local_cluster(context.say) as cluster:
        with prepared(cluster, "bench-arrow", sizes.window, sizes.slide, context.scratch) as ready:
            yield from _arrow(context, ready)
        with prepared(cluster, "bench-json", sizes.window, sizes.slide, context.scratch) as ready:
            yield from _json(context, ready)


def _arrow(context: Context, ready: Prepared) -> Iterator[Figure]:
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.services_after)
    context.say(f"filling {ready.input.topic}")
    fill(ready.log, ready.input, arrow_messages(data))
    with serving(ready) as running:
        context.say("services started; filling the window, then measuring")
        rate, used, after = _throughput(running, sizes.window, len(data))
        _check(context, data, running)
        yield Figure(
            "services, Arrow batches", rate, "tuples/s", THROUGHPUT_BAR, f"over {sizes.services_after:,} tuples"
        )
        yield from _usage(used, after, sizes.services_after)
        context.say(f"half of that rate for {sizes.settle_s + sizes.latency_s:.0f} s")
        yield from _latency(context, running, data, rate / 2)


def _json(context: Context, ready: Prepared) -> Iterator[Figure]:
    """The window is filled with Arrow batches, and only what follows comes as JSON."""
    sizes = context.sizes
    data = columns(WORKLOAD, sizes.window + sizes.json_after)
    context.say(f"filling {ready.input.topic}")
    fill(ready.log, ready.input, arrow_messages(data[: sizes.window]))
    fill(ready.log, ready.input, json_messages(data[sizes.window :]))
    with serving(ready) as running:
        context.say("services started; filling the window, then measuring")
        rate, used, _ = _throughput(running, sizes.window, len(data))
        _check(context, data, running)
        note = (
            f"over {sizes.json_after:,} messages; router {used['router'] / sizes.json_after * 1e6:.1f} us of CPU each"
        )
        yield Figure("services, one JSON message a tuple", rate, "tuples/s", note=note)


def _throughput(running: Serving, window: int, tuples: int) -> tuple[float, dict[str, float], dict[str, Usage]]:
    """Tuples a second from the full window to the end, seconds of CPU meanwhile, and usage at the end."""
    full_s = running.tap.until(window, running.tend)
    full, before = running.tap.tuples, running.usage()
    end_s = running.tap.until(tuples, running.tend)
    after = running.usage()
    used = {name: after[name].cpu_s - before[name].cpu_s for name in before}
    return (running.tap.tuples - full) / (end_s - full_s), used, after


def _usage(used: dict[str, float], after: dict[str, Usage], tuples: int) -> Iterator[Figure]:
    whole = sum(used.values())
    for name, seconds in used.items():
        yield Figure(f"{name}: CPU", seconds / tuples * 1e6, "us a tuple", note=f"{seconds / whole:.0%} of all")
        yield Figure(f"{name}: peak memory", after[name].peak_rss_bytes / (1 << 20), "MiB")
    yield Figure("all processes: CPU", whole / tuples * 1e6, "us a tuple")


def _latency(context: Context, running: Serving, data: Columns, rate: float) -> Iterator[Figure]:
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
        yield Figure(f"latency p{percent}", float(np.percentile(latencies, percent)), "ms", bar, note)


def _tend(running: Serving, producer: PacedProducer) -> None:
    running.tend()
    producer.check()


def _check(context: Context, data: Columns, running: Serving) -> None:
    counts = pa.Table.from_batches(running.tap.samples)
    check_counts(data, context.sizes.window, context.sizes.slide, counts, CHECKED)
