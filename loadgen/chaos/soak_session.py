"""`loadgen soak` from its options to its verdict."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from loadgen import machine
from loadgen.chaos.listener import Arrival, HeardAnswers, ResultListener
from loadgen.chaos.options import SoakOptions
from loadgen.chaos.soak import Soak, SoakOutcome, SoakRules, markdown
from loadgen.chaos.soak_plan import Act, SoakLimits, acts, sinks_of
from loadgen.chaos.soak_stage import SEGMENT_BYTES, SEGMENTS, SoakServed, SoakStage
from loadgen.chaos.ties import TiedJoin, TiedRows
from loadgen.chaos.watch import DiskWatch, MemoryWatch
from loadgen.load.connection import Connection
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import Arrivals, Load
from loadgen.load.open_loop import OpenLoop
from loadgen.load.progress import LINE_S, Every, log_console
from spojoin.errors import ConfigurationError
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.local.supervise import ending_on_signals
from spojoin.protocol.topology import Topic, topic_name

STATUS_FAILED = 1
SLIDES = 10
SEEDS = 1_000_000


@dataclass(slots=True)
class LoopFlow:
    """Rows in by an open loop, results out by a listener. show: called repeatedly with the progress."""

    loop: OpenLoop
    listener: ResultListener
    show: Callable[[int, int], None]

    @property
    def rows(self) -> int:
        """Rows sent so far."""
        return self.loop.rows

    @property
    def messages(self) -> int:
        """Messages sent so far."""
        return self.loop.messages

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """The times of results."""
        return self.listener.arrivals

    @property
    def answered(self) -> int:
        """Rows answered so far."""
        return self.listener.tuples

    def check(self) -> None:
        """Raise the exception that ended the load or the reading."""
        self.loop.check()
        self.listener.check()
        self.show(self.rows, self.answered)


def soak_services(asked: SoakOptions) -> int:
    """Run the soak and print its outcome; the exit status is 0 if it passed."""
    console = log_console()
    kinds = kinds_of(asked.kinds)
    seed = random.SystemRandom().randrange(SEEDS) if asked.seed is None else asked.seed
    console.print(f"seed {seed}", highlight=False)
    with ending_on_signals(), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spojoin-soak-")))
        join = TiedJoin("soak", asked.window, max(asked.window // SLIDES, 1), seed)
        cluster = stack.enter_context(local_cluster(console.print))
        log = stack.enter_context(Connection(cluster.broker.bootstrap).opened())
        logs = folder / "logs" if asked.output is None else asked.output / "logs"
        limits = SoakLimits(asked.workers, sinks_of(seed) if asked.sinks is None else asked.sinks)
        stage = SoakStage(cluster, log, SoakServed(join, limits, folder, logs), limits.first_setup)
        stage.prepare()
        stage.start(stage.setup)
        stack.callback(stage.close)
        outcome = _soaked(asked, kinds, stage, cluster, console)
    text = markdown(outcome)
    console.print(text, highlight=False, soft_wrap=True, markup=False)
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        (asked.output / "soak.md").write_text(text + "\n")
    return 0 if outcome.is_passed else STATUS_FAILED


def kinds_of(text: str | None) -> list[Act]:
    """The acts of a comma-separated list; all by default. Raises ConfigurationError."""
    if text is None:
        return list(Act)
    try:
        return [Act(name.strip()) for name in text.split(",")]
    except ValueError as error:
        raise ConfigurationError(f"--kinds: {error}; expected some of {', '.join(Act)}") from error


def recomputed(join: TiedJoin) -> Callable[[HeardAnswers], NDArray[np.bool_]]:
    """A function that judges answers by the definition."""
    stream = join.stream()

    def judge(answers: HeardAnswers) -> NDArray[np.bool_]:
        first, end = join.begin(int(answers.seqs[0])), int(answers.seqs[-1]) + 1
        return TiedRows(join, stream, first, end - first).contradict(*answers)

    return judge


def _soaked(
    asked: SoakOptions, kinds: Sequence[Act], stage: SoakStage, cluster: LocalCluster, console: Console
) -> SoakOutcome:
    join = stage.served.join
    results = topic_name(join.name, Topic.RESULTS)
    load = Load(join.workload(), Arrivals(asked.rate), join.seed)
    rules = SoakRules(60 * asked.minutes, asked.stall, asked.rate)
    disk = DiskWatch(SEGMENTS * SEGMENT_BYTES, stage.limits)
    with ResultListener(stage.log, results, recomputed(join)) as listener:
        with OpenLoop(KafkaSender(Connection(cluster.broker.bootstrap)), load.packets()) as loop:
            flow = LoopFlow(loop, listener, _shown(console))
            soak = Soak(
                stage, flow, rules, MemoryWatch(), disk, lambda text: console.print(text, highlight=False, markup=False)
            )
            soak.run(acts(join.seed, kinds, stage.served.limits, asked.every))
            loop.stop()
            soak.drain(lambda: loop.is_done)
            rows = loop.rows
        return SoakOutcome(
            _about(asked, stage.served),
            soak.done,
            listener.arrivals,
            rows,
            listener.wrong,
            listener.differences,
            soak.memory.growth(),
            soak.memory.peaks,
            disk,
            soak.stuck,
        )


def _shown(console: Console) -> Callable[[int, int], None]:
    every = Every(2 * LINE_S)

    def show(rows: int, answered: int) -> None:
        if every():
            console.print(f"rows in {rows:,}, answered {answered:,}", highlight=False)

    return show


def _about(asked: SoakOptions, served: SoakServed) -> dict[str, object]:
    found = machine.describe()
    return {
        "minutes": f"{asked.minutes:g}",
        "rows/s": f"{asked.rate:,.0f}",
        "window": f"{asked.window:,}",
        "seed": served.join.seed,
        "sinks": served.limits.sinks,
        "machine": f"{found['cpu']}, {found['cores']} cores, load average {found['load_average_1min']}",
        "date": date.today().isoformat(),
    }
