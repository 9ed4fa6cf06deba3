"""Section `featured`: the services with filters and an equality of texts, and with sums, against the plain query."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from loadgen.bench.measurement import Bar, Measurement, at_least
from loadgen.load.messages import ipc_bytes
from loadgen.promises.data import check_counts
from loadgen.promises.services import CHECKED, CORES, Throughput, ahead, on_cores, throughput
from loadgen.promises.serving import MESSAGE_ROWS, fill, prepared
from loadgen.promises.serving import measured as running_services
from loadgen.promises.sizes import Context
from loadgen.promises.statement import (
    RANGES,
    StatementRows,
    check_featured,
    check_summed,
    counting_text,
    featured_text,
    statement_rows,
    summing_text,
)
from spojoin.local.cluster import LocalCluster, local_cluster

RATIO_BAR, SUM_BAR = at_least(0.7), at_least(0.5)
#: The ratio of rows to answered rows, with a reserve: the filters drop one in 90.
MORE = 1.05
PLAIN, FEATURED, SUMMED = "bench-plain", "bench-featured", "bench-summed"


def measure(context: Context) -> Iterator[Measurement]:
    """The rates with a full window, and their ratios. All queries read the same messages, with all columns."""
    sizes = context.sizes
    rows = statement_rows(round((sizes.window + sizes.services_after + ahead(sizes)) * MORE))
    window = sizes.window

    def plain(counts: pa.Table) -> None:
        check_counts(rows.measured, window, sizes.slide, counts, CHECKED)

    def featured(counts: pa.Table) -> None:
        check_featured(rows, window, counts, CHECKED)

    def summed(answers: pa.Table) -> None:
        check_summed(rows, window, answers, CHECKED)

    with on_cores(CORES), local_cluster(context.say) as cluster:
        one = _rate(context, cluster, PLAIN, counting_text(PLAIN, RANGES, window), rows, plain)
        yield _figure("services, plain query", one)
        two = _rate(context, cluster, FEATURED, featured_text(FEATURED, window), rows, featured)
        yield _figure("services, two filters and an equality of texts", two)
        yield _ratio("services, that statement / the plain query", two, one, RATIO_BAR)
        three = _rate(context, cluster, SUMMED, summing_text(SUMMED, window), rows, summed)
        yield _figure("services, a sum of each row's partners", three)
        yield _ratio("services, sums / the plain query", three, one, SUM_BAR)


def _ratio(name: str, found: Throughput, plain: Throughput, bar: Bar) -> Measurement:
    return Measurement(name, found.tuples_per_second / plain.tuples_per_second, "times", bar)


def _figure(name: str, found: Throughput) -> Measurement:
    return Measurement(
        name, found.tuples_per_second, "tuples/s", note=f"router {found.cpu_us['router']:.2f} us of CPU each"
    )


def _rate(
    context: Context,
    cluster: LocalCluster,
    name: str,
    text: str,
    rows: StatementRows,
    check: Callable[[pa.Table], None],
) -> Throughput:
    sizes = context.sizes
    with prepared(cluster, name, sizes, context.scratch, text) as ready:
        context.say(f"filling {ready.input.topic}")
        fill(ready.log, ready.input, map(ipc_bytes, rows.table().to_batches(MESSAGE_ROWS)))
        with running_services(ready) as running:
            context.say("services started; filling the window, then measuring")
            found = throughput(running, sizes.window, sizes.window + sizes.services_after)
            check(pa.Table.from_batches(running.tap.samples))
    return found
