"""From a command's options to its deed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from rich.console import Console

from loadgen.chaos.campaign import Campaign, Rules
from loadgen.chaos.driver import Driver
from loadgen.chaos.plan import Fault, FaultKind, Timing, plan
from loadgen.chaos.serving import LocalPlan, served
from loadgen.load import produce as producing
from loadgen.load.arrivals import Arrivals
from loadgen.load.connection import Connection, connection, pairs
from loadgen.load.durations import seconds
from loadgen.load.formats import MessageFormat
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import Load
from loadgen.load.load_streams import LOADS
from loadgen.load.open_loop import Behind
from loadgen.load.progress import sending, stepping
from loadgen.promises import machine
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals
from spojoin.model import Query
from spojoin.ports.kafka import KafkaLog
from spojoin.query.load import load_query

STATUS_DIVERGED = 1
LOG_COLUMNS = 140
#: A service may be struck as often as it takes.
RESTARTS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Request:
    """The options that say what is sent, as they were given."""

    workload: str
    rate: float
    duration: str
    partitions: int | None
    message: str
    batch_rows: int | None
    seed: int
    first: int
    on_share: float | None
    period_s: float
    topics: Sequence[str] | None

    def load(self) -> Load:
        """The load, its partitions not yet known. Raises ConfigurationError."""
        workload = LOADS[self.workload]
        own = {stream.name for stream in workload.streams}
        topics = pairs(self.topics or (), "topic")
        for name in topics.keys() - own:
            raise ConfigurationError(f"--topic {name}: {self.workload} has the streams {', '.join(sorted(own))}")
        arrivals = Arrivals(self.rate, workload.on_share if self.on_share is None else self.on_share, self.period_s)
        lasts_s = seconds(self.duration)
        rows = None if lasts_s is None else max(1, int(arrivals.rows_due(lasts_s)) // len(own))
        message = MessageFormat(self.message)
        batch_rows = self.batch_rows if message is MessageFormat.ARROW else None
        return Load(workload, arrivals, self.seed, self.first, rows, message, batch_rows, topics=topics)


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """Services to start on this machine."""

    query: Path | None
    workers: int
    settings: Sequence[str] | None

    def plan(self, request: Request, restarts_max: int) -> LocalPlan:
        """Raises ConfigurationError."""
        if request.topics:
            raise ConfigurationError("--topic is for services that run already: those started here read in.<stream>")
        query_file = self.query or LOADS[request.workload].query_path
        return LocalPlan(
            query_file,
            self.workers,
            request.partitions or 1,
            pairs(self.settings or (), "set"),
            restarts_max=restarts_max,
        )


@dataclass(frozen=True, slots=True)
class PodsRequest:
    """Services that are pods."""

    namespace: str
    release: str
    broker_selector: str | None
    is_broker_deleted: bool
    is_redis_deleted: bool
    redis: str | None


@dataclass(frozen=True, slots=True)
class RampRequest:
    """How rates are tried."""

    most: float
    p99_ms: float
    settle: str
    drain: str
    precision: float
    output: Path
    fill: int | None


@dataclass(frozen=True, slots=True)
class ChaosRequest:
    """How things are broken."""

    every: str
    settle: str
    kinds: str
    sample: int | None
    stall: str
    is_dry: bool
    output: Path | None


# --- produce ----------------------------------------------------------------------------------------------------------


def send(
    request: Request,
    bootstrap: str | None,
    kafka: Sequence[str],
    report: Path | None,
    retention_bytes: int | None,
    *,
    is_spark: bool,
) -> None:
    """`loadgen produce`; `retention_bytes` is of topics that it makes."""
    console, errors = _console(), Console(stderr=True)
    where, load = connection(bootstrap, kafka), request.load()
    if is_spark:
        _require_spark_can(load)
    with ending_on_signals():
        with _log_of(where) as log:
            load = producing.settled(log, load, request.partitions, retention_bytes)
        if is_spark:
            from loadgen.load.spark_load import produce as produce_by_spark  # noqa: PLC0415  (an extra)

            produced = produce_by_spark(load, where, errors.print)
        else:
            with sending(errors, load) as progress:
                sender = KafkaSender(where, load.message)
                produced = producing.produce(load, sender, lambda behind: _warn(errors, behind), progress)
    console.print(producing.table(produced))
    if report is not None:
        report.write_bytes(orjson.dumps(produced.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _console() -> Console:
    """Logs have room for tables wherever they are read."""
    console = Console()
    return console if console.is_terminal else Console(width=LOG_COLUMNS)


def _require_spark_can(load: Load) -> None:
    if load.rows is None:
        raise ConfigurationError("--via spark needs an end: give --duration, such as 60s")
    if load.arrivals.on_share < 1:
        raise ConfigurationError("--via spark sends evenly: choose another workload, or give --on-share 1")


def _warn(console: Console, behind: Behind) -> None:
    advice = "send batches (--format arrow) of more rows, or share the rate among several load generators"
    console.print(f"[yellow]warning:[/] {behind}; {advice}", highlight=False, soft_wrap=True)


@contextmanager
def _log_of(where: Connection) -> Iterator[KafkaLog]:
    log = where.log()
    try:
        yield log
    finally:
        log.close()


# --- ramp -------------------------------------------------------------------------------------------------------------


def climb(
    request: Request,
    ramp: RampRequest,
    local: LocalRequest | None,
    query_file: Path | None,
    bootstrap: str | None,
    kafka: Sequence[str],
) -> int:
    """`loadgen ramp`; its exit status."""
    from loadgen.load.ramp import main as ramps  # noqa: PLC0415  (help is quick)
    from loadgen.load.ramp.measure import Bench, StepTimes  # noqa: PLC0415
    from loadgen.load.ramp.search import Search  # noqa: PLC0415

    console = _console()
    search = Search(request.rate, most=max(ramp.most, request.rate), precision=ramp.precision)
    times = StepTimes(_ending(ramp.settle), _ending(request.duration), _ending(ramp.drain))
    about = {**machine.describe(), "workload": request.workload, "p99_ms_max": ramp.p99_ms}
    about |= {"started": datetime.now(UTC).isoformat(timespec="seconds")}
    with ending_on_signals(), ExitStack() as stack:
        serving = stack.enter_context(served(local.plan(request, 0), console.print)) if local else None
        where = serving.connection if serving else connection(bootstrap, kafka)
        log = stack.enter_context(_log_of(where))
        query = _query(request, query_file)
        load = producing.settled(log, request.load(), request.partitions)
        tap = ramps.tap_at_end(log, query, load)
        stack.callback(tap.close)
        bench = Bench(load, tap, lambda: KafkaSender(where, load.message), times)
        if serving:
            bench.tend = serving.supervisor.tend
        ramps.fill_windows(bench, query, ramp.fill, console.print)
        bench.show = stack.enter_context(stepping(console))
        found = ramps.climb(bench, search, ramp.p99_ms, ramps.step_teller(console))
    console.print(ramps.table(found, request.workload))
    ramps.write(found, ramp.output, about, ramp.p99_ms)
    console.print(f"{ramp.output / 'ramp.html'} and {ramp.output / 'ramp.json'} written", highlight=False)
    return 0 if found.best is not None else STATUS_DIVERGED


def _ending(text: str) -> float:
    found = seconds(text)
    if found is None:
        raise ConfigurationError("this can't last for ever: write 90s, 5m or 1.5h")
    return found


def _query(request: Request, query_file: Path | None) -> Query:
    """The query that is served. Raises ConfigurationError where it has other streams than the workload."""
    query = load_query(query_file or LOADS[request.workload].query_path)
    names, made = [s.name for s in query.streams], [s.name for s in LOADS[request.workload].streams]
    if names != made:
        raise ConfigurationError(
            f"{query.name} joins the streams {', '.join(names)}, but {request.workload} sends {', '.join(made)}"
        )
    return query


# --- chaos ------------------------------------------------------------------------------------------------------------


def break_things(
    request: Request,
    chaos: ChaosRequest,
    place: LocalRequest | PodsRequest,
    query_file: Path | None,
    bootstrap: str | None,
    kafka: Sequence[str],
) -> int:
    """`loadgen chaos`; its exit status."""
    from loadgen.chaos import report  # noqa: PLC0415  (help is quick)

    console = _console()
    every_s = _ending(chaos.every)
    timing = Timing(_ending(request.duration), every_s, _ending(chaos.settle), pause_s_max=2 * every_s)
    kinds, query = _kinds(chaos.kinds), _query(request, query_file)
    about = {"workload": request.workload, "seed": request.seed, "rate": request.rate, **machine.describe()}
    with ending_on_signals(), ExitStack() as stack:
        if chaos.is_dry and isinstance(place, LocalRequest):
            faults = _plan(request, _local_names(query, place), kinds, timing)
            console.print("\n".join(map(str, faults)), highlight=False)
            return 0
        driver, where = stack.enter_context(_driver(request, place, bootstrap, kafka, console))
        faults = _plan(request, driver.targets(), kinds, timing)
        if chaos.is_dry:
            console.print("\n".join(map(str, faults)), highlight=False)
            return 0
        log = stack.enter_context(_log_of(where))
        load = producing.settled(log, request.load(), request.partitions)
        campaign = Campaign(
            driver,
            log,
            lambda: KafkaSender(where, load.message),
            query,
            load,
            faults,
            Rules(_ending(chaos.stall), chaos.sample, request.seed),
            note=lambda text: console.print(text, highlight=False, soft_wrap=True),
            show=report.progress_lines(console),
        )
        outcome = campaign.run()
    console.print(report.table(outcome, f"{request.workload}, seed {request.seed}"))
    console.print(report.checked(outcome), highlight=False, soft_wrap=True)
    if chaos.output is not None:
        console.print(f"{report.write(outcome, about, chaos.output)} written", highlight=False)
    return 0 if outcome.is_passed else STATUS_DIVERGED


@contextmanager
def _driver(
    request: Request, place: LocalRequest | PodsRequest, bootstrap: str | None, kafka: Sequence[str], console: Console
) -> Iterator[tuple[Driver, Connection]]:
    if isinstance(place, PodsRequest):
        from loadgen.chaos.kubernetes import PodCluster, connect  # noqa: PLC0415  (an extra)

        cluster = PodCluster(
            place.namespace,
            place.release,
            place.broker_selector or f"app.kubernetes.io/instance={place.release},app.kubernetes.io/component=kafka",
            place.redis,
            place.is_broker_deleted,
            place.is_redis_deleted,
        )
        yield connect(cluster), connection(bootstrap, kafka)
        return
    from loadgen.chaos.local import LocalDriver  # noqa: PLC0415  (Redis' client)

    if bootstrap or kafka:
        raise ConfigurationError("--bootstrap and --kafka are for --where kubernetes: locally Kafka is started, too")
    with served(place.plan(request, RESTARTS_MAX), console.print) as serving:
        yield LocalDriver(serving), serving.connection


def _local_names(query: Query, place: LocalRequest) -> list[str]:
    """What the services will be called."""
    from spojoin.local.services import Deployment, services_of  # noqa: PLC0415

    return [service.name for service in services_of(Deployment(query, Path(), "", "", place.workers))]


def _plan(
    request: Request, targets: Sequence[str], kinds: Sequence[FaultKind] | None, timing: Timing
) -> Sequence[Fault]:
    return () if kinds is None else plan(request.seed, targets, kinds, timing)


def _kinds(text: str) -> list[FaultKind] | None:
    """None for a run without faults."""
    if text.strip() == "none":
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in list(FaultKind):
            raise ConfigurationError(f"--kinds {name}: there is no such fault; choose from {', '.join(FaultKind)}")
    return [FaultKind(name) for name in names]
