"""`loadgen silence` from its options to its table."""

from __future__ import annotations

import itertools
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path

from rich.console import Console

from loadgen import machine
from loadgen.chaos.driver import LocalDriver, Seats
from loadgen.chaos.listener import ResultListener
from loadgen.chaos.options import SilenceOptions
from loadgen.chaos.served import LoadedServices
from loadgen.chaos.silence import (
    TEND_S,
    Exactness,
    SilenceNotOver,
    SilenceOutcome,
    SilenceRun,
    StrikeCounts,
    markdown,
    planned,
    write,
)
from loadgen.chaos.ties import STREAM, SampledAnswers, TiedJoin
from loadgen.load.connection import Connection
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import BATCH_ROWS_MAX, Arrivals, Load
from loadgen.load.open_loop import OpenLoop
from loadgen.load.progress import LINE_S, Every, log_console
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.local.serve import ServedQuery, ServePlan, serve
from spojoin.local.supervise import ending_on_signals
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import load_query

STATUS_INEXACT = 1
RESTARTS_MAX = 100_000
SLIDES = 10
#: Distinct values of a column; so a tuple ties with about one in a thousand tuples of the window.
VALUES = 1_000
#: The run fails after this time without a result.
DRAIN_S = 300.0
#: The rate of the fill, which is as fast as possible.
AT_ONCE = 1e12


def measure(asked: SilenceOptions) -> int:
    """Serve, load, strike, print; the exit status is 0 if the output is exact."""
    console = log_console()
    with ending_on_signals(), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spojoin-silence-")))
        join = TiedJoin("silence", asked.window, max(asked.window // SLIDES, 1), asked.seed, VALUES)
        cluster = stack.enter_context(local_cluster(console.print))
        served = stack.enter_context(serve(_plan(asked, join, folder), cluster.servers))
        console.print(served.about, highlight=False, soft_wrap=True)
        outcome = _under_load(asked, join, cluster, served, console)
    console.print(markdown(outcome), highlight=False, soft_wrap=True, markup=False)
    if asked.output is not None:
        write(outcome, asked.output)
    return 0 if outcome.is_passed else STATUS_INEXACT


def _plan(asked: SilenceOptions, join: TiedJoin, folder: Path) -> ServePlan:
    query_file = folder / "query.yaml"
    query_file.write_text(join.text)
    return ServePlan(
        load_query(query_file),
        query_file,
        asked.workers,
        packing=asked.packing,
        standbys=asked.standbys,
        settings={"patience_ms": str(asked.patience_ms), "owner": "silence"},
        logs=asked.logs,
        restarts_max=RESTARTS_MAX,
    )


def _under_load(
    asked: SilenceOptions, join: TiedJoin, cluster: LocalCluster, served: ServedQuery, console: Console
) -> SilenceOutcome:
    """Fill the window, send at the rate, strike, and check the results."""
    connection, sample = Connection(cluster.broker.bootstrap), SampledAnswers()
    load = Load(
        join.workload(),
        Arrivals(AT_ONCE),
        join.seed,
        rows=join.window,
        message=asked.message,
        batch_rows=BATCH_ROWS_MAX,
    )
    results = topic_name(join.name, Topic.RESULTS)
    versions = itertools.count(1)

    def write_query() -> None:
        served.plan.query_file.write_text(replace(join, version=next(versions)).text)

    seats = Seats(RedisStore(cluster.redis.url), join.name)
    with connection.opened() as log, ResultListener(log, results, sample) as listener:
        with OpenLoop(KafkaSender(connection), load.packets()) as filling:
            driver = LocalDriver(cluster, served.supervisor)
            loaded = LoadedServices(driver, seats, filling, listener, asked.rate, write_query)
            console.print(f"filling the window with {join.window:,} rows", highlight=False)
            _drain(loaded, console)
        load = Load(join.workload(), Arrivals(asked.rate), join.seed, first=join.window, message=asked.message)
        run = None
        with OpenLoop(KafkaSender(connection), load.packets()) as loop:
            loaded = replace(loaded, loop=loop, first=join.window)
            run = SilenceRun(loaded, asked.stopped, note=lambda text: console.print(text, highlight=False))
            services = [service for service in loaded.services() if service.startswith(asked.struck)]
            run.run(
                planned(
                    services,
                    StrikeCounts(
                        asked.kills,
                        asked.stops,
                        asked.upgrades,
                        asked.replacements,
                        asked.restarts,
                        losses=int(asked.redis),
                    ),
                )
            )
            loop.stop()
            _drain(loaded, console)
        rows = join.window + loop.rows
        console.print(f"all faults are over; {rows:,} rows were sent; recomputing some", highlight=False)
        exactness = _exactness(join, rows, listener, sample)
    return SilenceOutcome(_about(asked, listener), asked.standbys, asked.workers, run.usual_ms, run.found, exactness)


def _exactness(join: TiedJoin, rows: int, listener: ResultListener, sample: SampledAnswers) -> Exactness:
    """Check that all rows are answered, and compare a sample of the answers with the definition."""
    recomputed, wrong = sample.recompute(join, rows)
    return Exactness(
        rows,
        listener.tuples,
        recomputed,
        listener.wrong + len(wrong),
        [*listener.differences, *(f"tuple {seq} has other counts than the definition" for seq in wrong[:10])],
    )


def _drain(loaded: LoadedServices, console: Console) -> None:
    """Wait until all rows are sent and answered. Raises SilenceNotOver if no result comes for DRAIN_S."""
    every, moved_s, answered = Every(LINE_S), time.monotonic(), -1
    while not loaded.loop.is_done or loaded.unanswered > 0:
        loaded.tend()
        if loaded.listener.tuples > answered:
            moved_s, answered = time.monotonic(), loaded.listener.tuples
        if time.monotonic() - moved_s > DRAIN_S:
            raise SilenceNotOver(f"no result for {DRAIN_S:.0f} s; {loaded.unanswered:,} rows have none")
        if every():
            console.print(f"{answered:,} rows answered", highlight=False)
        time.sleep(TEND_S)


def _about(asked: SilenceOptions, listener: ResultListener) -> dict[str, object]:
    found = machine.describe()
    return {
        "packing": asked.packing,
        "standbys": "on" if asked.standbys else "off",
        "workers": asked.workers,
        "rows/s": f"{asked.rate:,.0f}",
        "window": f"{asked.window:,} ({STREAM}, count)",
        "messages": asked.message.value,
        "patience_ms": asked.patience_ms,
        "stopped for s": asked.stopped,
        "seed": asked.seed,
        "machine": f"{found['cpu']}, {found['cores']} cores, load average {found['load_average_1min']}",
        "date": date.today().isoformat(),
        "records written again": listener.resent,
    }
