"""Section `scale`: what each process of a release costs, by the number of those that divide its work.

A run in this process makes the records of all internal topics. Then each process of a release is alone on a broker
whose topics hold what it reads, and its CPU per tuple is taken. So the figures hold for machines with more cores than
this one: the rate of a release is that of its busiest process. What a process writes must equal what the run wrote.
Releases for whose processes this machine has enough cores run as a whole, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from loadgen.bench.measurement import Bar, Measurement, at_least, at_most
from loadgen.promises import works
from loadgen.promises.alone import (
    FramedTuples,
    IntakesRows,
    SameRecords,
    SameWorkersRecords,
    ScaleStage,
    SinksAnswers,
    WorkersRecords,
    cpu_us,
)
from loadgen.promises.recording import Recording, Release, ScaleWork, recorded
from loadgen.promises.serving import json_messages
from loadgen.promises.sizes import Context
from loadgen.promises.whole import whole_rates
from spojoin.local.cluster import local_cluster
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.redis_store import RedisStore
from spojoin.protocol.grid import Grid
from spojoin.protocol.services import names_from_one
from spojoin.protocol.topology import Role, Topic

MUTABLE_JOINER = "mutable joiner"
ALONE = Release(Grid(1, 1))
GROWN = Release(Grid(8, 1), 4, 4)
#: Releases that grow with rows of workers of one column each, and columns of one row beside them.
RELEASES = (ALONE, Release(Grid(2, 1)), Release(Grid(4, 1), 2, 2), GROWN)
COLUMNS = (Release(Grid(1, 2)), Release(Grid(1, 8)))
WITH_INTAKE = Release(Grid(1, 1), intakes=1)
#: The intakes of the largest release.
INTAKES = 8
RATE_BAR, JSON_BAR, BLOCKS_BAR = at_least(3_000_000), at_least(2_000_000), at_most(0.05)
#: CPU of each of a service in microseconds a tuple, and how many there are, by the service's name.
Divided = dict[str, tuple[float, int]]
#: Makes the stage of a work, with its recorded run, or with another one.
MakeStage = Callable[[ScaleWork, Recording | None], ScaleStage]


def measure(context: Context) -> Iterator[Measurement]:
    """CPU of each process alone; the rate and the cost of a release with as many rows of workers; columns."""
    with stages(context) as stage_of:
        stage = stage_of(works.plain(context.sizes), None)
        whatever = whatever_us(stage)
        for name, each_us in whatever.items():
            yield Measurement(f"{name}: CPU", each_us, "us a tuple", note="whatever the release")
        divided: dict[Release, Divided] = {}
        for release in RELEASES:
            divided[release] = divided_us(stage, release)
            yield from release_figures(stage, release, whatever, divided[release], bar=_rate_bar(release))
        json = stage_of(replace(stage.work, name="json", messages=json_messages), stage.run)
        yield from _intake_figures(stage, json, whatever, divided[GROWN])
        for release in RELEASES:
            yield from _answerer_figures(stage, release, whatever, divided[release])
        for release in COLUMNS:
            named = f"{release.grid.columns} columns: CPU of each worker"
            yield Measurement(named, worker_us(stage, release), "us a tuple")
        yield from whole_rates(context, stage.cluster, [*RELEASES, *(release.with_answerers for release in RELEASES)])


@contextmanager
def stages(context: Context) -> Iterator[MakeStage]:
    """Run a broker and a store, on which processes are alone."""
    with local_cluster(context.say) as cluster:
        log, store = KafkaLog(KafkaConfig(cluster.broker.bootstrap)), RedisStore(cluster.redis.url)

        def stage_of(work: ScaleWork, run: Recording | None) -> ScaleStage:
            context.say(f"{work.name}: recording a run")
            return ScaleStage(context, cluster, log, store, work, run or recorded(work))

        try:
            yield stage_of
        finally:
            log.close()
            store.close()


def whatever_us(stage: ScaleStage) -> dict[str, float]:
    """CPU of the services whose number does not follow the workers', in microseconds a tuple; of each of several."""
    return {
        "router": cpu_us(stage, ALONE, "router", partial(FramedTuples, topic=Topic.FRAMES), Topic.INPUT),
        MUTABLE_JOINER: max(_joiner(stage, number) for number in range(_joiners(stage))),
        "permutation": cpu_us(stage, ALONE, "permutation", partial(SameRecords, topic=Topic.BATCHES), Topic.RUNS),
    }


def divided_us(stage: ScaleStage, release: Release) -> Divided:
    """CPU of each of the services that divide the work by frames, and how many there are."""
    return {
        "PO-Join worker": (worker_us(stage, release), release.grid.rows),
        "logical AND": (_logical_and(stage, release.logical_ands), release.logical_ands),
        "sink": (_sink(stage, release), release.sinks),
    }


def release_figures(
    stage: ScaleStage,
    release: Release,
    whatever: dict[str, float],
    divided: Divided,
    prefix: str = "",
    bar: Bar | None = None,
) -> Iterator[Measurement]:
    """The CPU of each process of a release, its rate and its cost."""
    named = prefix + release.named
    for name, (each_us, count) in divided.items():
        yield Measurement(f"{named}: CPU of a {name}, one of {count}", each_us, "us a tuple")
    yield from _whole(named, _counted(stage, whatever) | divided, bar)


def _intake_figures(
    stage: ScaleStage, json: ScaleStage, whatever: dict[str, float], divided: Divided
) -> Iterator[Measurement]:
    """Intakes beside a router that takes their blocks, and the largest release with them, where all rows are JSON."""
    rows_of = partial(IntakesRows, topic=Topic.BLOCKS)
    router = partial(FramedTuples, topic=Topic.FRAMES)
    alone_us = cpu_us(json, ALONE, "router", router, Topic.INPUT)
    yield Measurement("JSON, one row a message: CPU of a router that reads it", alone_us, "us a tuple")
    json_us, arrow_us = (cpu_us(each, WITH_INTAKE, "intake-0", rows_of, Topic.INPUT) for each in (json, stage))
    for name, each_us in (("JSON, one row a message", json_us), ("Arrow", arrow_us)):
        yield Measurement(f"{name}: CPU of an intake for each row that it reads", each_us, "us")
    router_us = cpu_us(stage, WITH_INTAKE, "router", router, Topic.BLOCKS)
    yield Measurement("CPU of a router that takes blocks", router_us, "us a tuple", BLOCKS_BAR)
    services = _counted(stage, whatever | {"router": router_us}) | divided
    services |= {"intake": (json_us / INTAKES, INTAKES)}
    yield from _whole(f"JSON, {GROWN.grid.rows} rows of workers, {INTAKES} intakes", services, JSON_BAR)


def _answerer_figures(
    stage: ScaleStage, release: Release, whatever: dict[str, float], divided: Divided
) -> Iterator[Measurement]:
    """A release with answerers in place of its workers, joiners and logical ANDs."""
    answerers = release.with_answerers
    each_us = worker_us(stage, answerers)
    yield Measurement(f"{answerers.named}: CPU of each", each_us, "us a tuple")
    services = _counted(stage, {name: us for name, us in whatever.items() if name != MUTABLE_JOINER})
    services |= {"answerer": (each_us, release.grid.rows), "sink": divided["sink"]}
    yield from _whole(answerers.named, services, _rate_bar(release))


def _rate_bar(release: Release) -> Bar | None:
    return RATE_BAR if release is GROWN else None


def _counted(stage: ScaleStage, whatever: Mapping[str, float]) -> Divided:
    """The CPU of each service whose number does not follow the workers', and how many there are."""
    return {name: (each_us, _joiners(stage) if name == MUTABLE_JOINER else 1) for name, each_us in whatever.items()}


def _whole(named: str, services: Divided, bar: Bar | None = None) -> Iterator[Measurement]:
    """The rate and the cost of a release; services: the CPU of each, and how many there are."""
    busiest = max(services, key=lambda name: services[name][0])
    yield Measurement(f"{named}: rate of the busiest process", 1e6 / services[busiest][0], "tuples/s", bar, busiest)
    whole = sum(each_us * count for each_us, count in services.values())
    yield Measurement(f"{named}: CPU of all services", whole, "us a tuple", note="without the broker")


def _joiners(stage: ScaleStage) -> int:
    """A joiner for each of the query's predicates."""
    return len(stage.work.query().predicates)


def _joiner(stage: ScaleStage, number: int) -> float:
    follow = partial(SameRecords, topic=Topic.PARTIALS, number=number)
    return cpu_us(stage, ALONE, f"mutable-{number}", follow, Topic.FRAMES)


def _logical_and(stage: ScaleStage, count: int) -> float:
    """CPU of the first of several logical ANDs."""
    name, follow = names_from_one(Role.LOGICAL_AND, count)[0], partial(SameRecords, topic=Topic.MATCHES)
    return cpu_us(stage, Release(ALONE.grid, count), name, follow, Topic.PARTIALS, Topic.FRAMES)


def worker_us(stage: ScaleStage, release: Release) -> float:
    """CPU of a grid's first worker, which may be an answerer."""
    output = SameWorkersRecords if release.grid.columns == 1 else WorkersRecords
    follow = partial(output, topic=Topic.MATCHES, number=1)
    return cpu_us(stage, release, "pojoin-0", follow, Topic.BATCHES, Topic.FRAMES)


def _sink(stage: ScaleStage, release: Release) -> float:
    """CPU of the first of several sinks."""
    name, follow = names_from_one(Role.SINK, release.sinks)[0], partial(SinksAnswers, topic=Topic.RESULTS)
    return cpu_us(stage, release, name, follow, Topic.MATCHES, Topic.BATCHES, Topic.FRAMES)
