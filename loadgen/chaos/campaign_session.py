"""`loadgen chaos` from its file to its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console

from loadgen import machine
from loadgen.chaos.campaign import Campaign, CampaignOutcome, Rules, checked, progress_lines, table, write
from loadgen.chaos.chaos_file import ChaosFile, Where
from loadgen.chaos.driver import Driver, LocalDriver
from loadgen.chaos.plan import Fault, Timing, plan
from loadgen.load import produce as producing
from loadgen.load.connection import Connection
from loadgen.load.files import ending
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.progress import log_console
from spojoin.local.cluster import local_cluster
from spojoin.local.serve import serve
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import ending_on_signals

STATUS_DIVERGED = 1
#: Faults may strike a service any number of times.
RESTARTS_MAX = 100_000


def show_schedule(file: ChaosFile) -> None:
    """Print the planned faults without injecting them."""
    targets = _local_names(file) if file.where is Where.LOCAL else _pods(file).targets()
    log_console().print("\n".join(map(str, _faults(file, targets))), highlight=False)


def break_things(file: ChaosFile) -> int:
    """Run the campaign and print its outcome; the exit status is 0 if it passed."""
    console = log_console()
    about = {"workload": file.workload.value, "seed": file.seed, "rate": file.rate, **machine.describe()}
    outcome = _campaign(file, console)
    console.print(table(outcome, f"{file.workload.value}, seed {file.seed}"))
    console.print(checked(outcome), highlight=False, soft_wrap=True)
    if file.output is not None:
        console.print(f"{write(outcome, about, file.output)} written", highlight=False)
    return 0 if outcome.is_passed else STATUS_DIVERGED


def _campaign(file: ChaosFile, console: Console) -> CampaignOutcome:
    query = file.query()
    with ending_on_signals(), ExitStack() as stack:
        driver, where = stack.enter_context(_driver(file, console))
        faults = _faults(file, driver.targets())
        log = stack.enter_context(where.opened())
        load = producing.settled(log, file.load(file.rate, file.duration), file.rows.partitions)
        return Campaign(
            driver,
            log,
            lambda: KafkaSender(where, load.message),
            query,
            load,
            faults,
            Rules(ending(file.stall), file.sample, file.seed),
            note=lambda text: console.print(text, highlight=False, soft_wrap=True),
            show=progress_lines(console),
        ).run()


@contextmanager
def _driver(file: ChaosFile, console: Console) -> Iterator[tuple[Driver, Connection]]:
    if file.where is Where.KUBERNETES:
        yield _pods(file), file.connection()
        return
    serve_plan = file.serve_plan(RESTARTS_MAX)
    with local_cluster(console.print) as cluster, serve(serve_plan, cluster.servers) as served:
        console.print(served.about, highlight=False)
        yield LocalDriver(cluster, served.supervisor), Connection(served.servers.bootstrap)


def _pods(file: ChaosFile) -> Driver:
    from loadgen.chaos.kubernetes import PodCluster, connect  # noqa: PLC0415  (an extra)

    pods = file.pods
    cluster = PodCluster(
        pods.namespace, pods.release, pods.broker_labels, pods.redis_url, pods.delete_broker, pods.delete_redis
    )
    return connect(cluster)


def _local_names(file: ChaosFile) -> list[str]:
    """The names that the services will have."""
    served = file.serve_plan()
    return [each.name for each in services_of(Deployment(served.query, served.query_file, "", "", served.workers))]


def _faults(file: ChaosFile, targets: Sequence[str]) -> Sequence[Fault]:
    every_s = ending(file.every)
    timing = Timing(ending(file.duration), every_s, ending(file.settle), pause_s_max=2 * every_s)
    return plan(file.seed, targets, file.kinds, timing) if file.kinds else ()
