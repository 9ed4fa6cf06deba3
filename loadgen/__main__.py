"""The command `loadgen`: load for the services, the highest rate that holds, faults, and checks of results."""

# A command's arguments are its options, and its docstring is what --help shows, blank lines and all.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

import loadgen
from loadgen import options
from loadgen.chaos.plan import FaultKind
from loadgen.errors import one_sentence
from loadgen.load.feed_commands import check, feed_app
from loadgen.load.load_streams import LOADS, LoadName
from loadgen.load.workloads import WORKLOADS
from spojoin.cli.extras import COMMAND
from spojoin.cli.version import version_option

app = typer.Typer(
    name="loadgen",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Load for spojoin's services, and proof that they bear it.

`loadgen produce` sends rows, `loadgen ramp` finds the highest rate that holds, `loadgen chaos` breaks things while
every result is checked. `loadgen workloads` lists what can be sent, each with a query made for it.""",
)


@app.callback()
def first(
    context: typer.Context, version: Annotated[bool, version_option("loadgen", loadgen.__version__)] = False
) -> None:
    """Runs before every command."""
    COMMAND.set(context.invoked_subcommand)


app.add_typer(feed_app, name="feed")
app.command("check")(check)


class Via(StrEnum):
    """How rows get into Kafka."""

    KAFKA = "kafka"
    SPARK = "spark"


class SentFormat(StrEnum):
    """Many rows a message, or one."""

    ARROW = "arrow"
    JSON = "json"


class Deployment(StrEnum):
    """Where the services are that are struck."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


Workload = Annotated[LoadName, typer.Option(help="What to send; `loadgen workloads` describes them.")]
Format = Annotated[SentFormat, typer.Option("--format", help="Arrow batches, or one JSON object a message.")]
OnShare = Annotated[
    float | None,
    typer.Option(min=0.01, max=1.0, help="Send in this share of each period only. Default 1; with bursty 0.25."),
]
Period = Annotated[float, typer.Option(min=0.1, help="The period of --on-share, in seconds.")]


@app.command()
def produce(
    workload: Workload,
    rate: Annotated[float, typer.Option(min=0.1, help="Rows a second, of all streams together.")] = 1_000.0,
    duration: Annotated[str, typer.Option(help="90s, 5m, 1.5h or forever.")] = "60s",
    partitions: options.Partitions = None,
    message: Format = SentFormat.ARROW,
    batch_rows: options.BatchRows = None,
    seed: options.Seed = 0,
    first: options.First = 0,
    on_share: OnShare = None,
    period: Period = 2.0,
    via: Annotated[Via, typer.Option(help="Straight to Kafka, or as a Spark job.")] = Via.KAFKA,
    retention_bytes: options.RetentionBytes = None,
    report: Annotated[Path | None, typer.Option(help="Write what was sent as JSON.")] = None,
    bootstrap: options.Bootstrap = None,
    kafka: options.KafkaProperty = None,
    topic: options.TopicOf = None,
    debug: options.Debug = False,
) -> None:
    """Send rows at a rate, by an open loop: a row goes out when it is due, however late the results are.

    Each message carries the moment at which it was due as its Kafka timestamp, so that latency is honest under
    overload. The same seed gives the same rows, told by a checksum. If the load generator itself can't hold the rate,
    it says so.

    Examples:

        loadgen produce --workload q3 --rate 300000 --duration 60s --bootstrap 127.0.0.1:9092

        loadgen produce --workload q1 --rate 20000 --format json --partitions 4 --duration forever

        loadgen produce --workload bursty --rate 50000 --on-share 0.1 --period 5

        loadgen produce --workload q2 --rate 5000 --via spark
    """
    with one_sentence(is_debug=debug):
        from loadgen.chaos.session import Request, send

        request = Request(
            workload.value, rate, duration, partitions, message.value, batch_rows, seed, first, on_share, period, topic
        )
        send(request, bootstrap, kafka or (), report, retention_bytes, is_spark=via is Via.SPARK)


@app.command()
def ramp(
    workload: Workload,
    start: Annotated[float, typer.Option(min=1, help="The first rate to try, in rows a second.")] = 10_000.0,
    most: Annotated[float, typer.Option("--max", min=1, help="The highest rate to try.")] = 5_000_000.0,
    p99_ms: Annotated[float, typer.Option(min=1, help="The bound of p99, in milliseconds.")] = 150.0,
    measure: Annotated[str, typer.Option(help="How long each rate is measured.")] = "10s",
    settle: Annotated[str, typer.Option(help="How long each rate runs before that.")] = "3s",
    drain: Annotated[str, typer.Option(help="How long the services may take to catch up after it.")] = "60s",
    fill: Annotated[
        int | None, typer.Option(min=0, help="Rows of each stream to send before. Default: those of the window.")
    ] = None,
    precision: Annotated[float, typer.Option(min=0.01, help="How closely the limit is to be known.")] = 0.1,
    output: Annotated[Path, typer.Option(help="The folder for ramp.json and ramp.html.")] = Path("ramp"),
    query: options.QueryFile = None,
    partitions: options.Partitions = None,
    message: Format = SentFormat.ARROW,
    batch_rows: options.BatchRows = None,
    seed: options.Seed = 0,
    first: options.First = 0,
    on_share: OnShare = None,
    period: Period = 2.0,
    bootstrap: options.Bootstrap = None,
    kafka: options.KafkaProperty = None,
    topic: options.TopicOf = None,
    local: options.Local = False,
    workers: options.Workers = 2,
    setting: options.Setting = None,
    debug: options.Debug = False,
) -> None:
    """Find the highest rate that holds, and draw latency by throughput.

    A rate holds if the lag is flat and p99, from the moment at which a row was due to its result in hand, stays within
    its bound. First the window is filled. Then rates go up by halves until one doesn't hold, and the limit is closed
    in. The services must be at rest, in event-time order on topics that have seen no later rows (or give --first).
    Exit status 0 if a rate holds.

    Examples:

        loadgen ramp --workload q3 --local

        loadgen ramp --workload q1 --start 20000 --p99-ms 100 --bootstrap kafka:9092 --output q1-ramp
    """
    with one_sentence(is_debug=debug):
        from loadgen.chaos.session import LocalRequest, RampRequest, Request, climb

        request = Request(
            workload.value, start, measure, partitions, message.value, batch_rows, seed, first, on_share, period, topic
        )
        plan = RampRequest(most, p99_ms, settle, drain, precision, output, fill)
        where = LocalRequest(query, workers, setting) if local else None
        raise typer.Exit(climb(request, plan, where, query, bootstrap, kafka or ()))


@app.command()
def chaos(
    workload: Workload,
    seed: Annotated[int, typer.Option(min=0, help="Chooses rows and faults; the same seed, the same campaign.")] = 0,
    rate: Annotated[float, typer.Option(min=0.1, help="Rows a second, of all streams together.")] = 2_000.0,
    duration: Annotated[str, typer.Option(help="90s, 5m or 1.5h.")] = "60s",
    every: Annotated[str, typer.Option(help="Time between two faults, on average.")] = "5s",
    settle: Annotated[str, typer.Option(help="Time before the first fault, such as it takes to fill a window.")] = "5s",
    kinds: Annotated[
        str, typer.Option(help="Which faults, with commas; `none` for an undisturbed run.", metavar="KIND,...")
    ] = ",".join(FaultKind),
    sample: Annotated[int | None, typer.Option(min=1, help="Recompute so many probes instead of all.")] = None,
    stall: Annotated[str, typer.Option(help="Without a result for so long the services count as stuck.")] = "120s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the schedule.")] = False,
    output: Annotated[Path | None, typer.Option(help="The folder for chaos.json.")] = None,
    where: Annotated[Deployment, typer.Option(help="Services of its own on this machine, or pods.")] = Deployment.LOCAL,
    namespace: Annotated[str, typer.Option(envvar="POD_NAMESPACE", help="Kubernetes: namespace.")] = "default",
    release: Annotated[str, typer.Option(help="Kubernetes: the release's name.")] = "spojoin",
    broker_selector: Annotated[
        str | None, typer.Option(help="Kubernetes: labels of Kafka's pods. Default: the release's component kafka.")
    ] = None,
    delete_broker: Annotated[
        bool, typer.Option("--delete-broker", help="Kubernetes: delete Kafka's pod instead of ending its process.")
    ] = False,
    delete_redis: Annotated[
        bool, typer.Option("--delete-redis", help="Kubernetes: delete the release's Redis instead of flushing it.")
    ] = False,
    redis: Annotated[
        str | None, typer.Option(envvar=["SPOJOIN_REDIS_URL", "REDIS_URL"], metavar="URL", help="Kubernetes: Redis.")
    ] = None,
    query: options.QueryFile = None,
    partitions: options.Partitions = None,
    message: Format = SentFormat.ARROW,
    batch_rows: options.BatchRows = None,
    first: options.First = 0,
    bootstrap: options.Bootstrap = None,
    kafka: options.KafkaProperty = None,
    topic: options.TopicOf = None,
    workers: options.Workers = 2,
    setting: options.Setting = None,
    debug: options.Debug = False,
) -> None:
    """Break things by seed and schedule while rows flow, and compare every result with the join's definition.

    Kinds: *delete* a pod (locally SIGTERM), *kill* (SIGKILL) and *pause* (SIGSTOP for seconds) a service, restart the
    *broker*, flush *redis*. Each service is struck once a round. In the end all probes are recomputed by a nested loop
    over the same rows; SHA-256 of the output stands for all of it. A fault is survived when everything that was in by
    then is answered. Exit status 1 where a result differs or a fault isn't survived.

    Examples:

        loadgen chaos --workload q3 --seed 7 --duration 2m

        loadgen chaos --workload q1 --seed 7 --dry-run

        loadgen chaos --workload q3 --where kubernetes --namespace joins --release q3 --bootstrap kafka:9092
    """
    with one_sentence(is_debug=debug):
        from loadgen.chaos.session import ChaosRequest, LocalRequest, PodsRequest, Request, break_things

        request = Request(
            workload.value, rate, duration, partitions, message.value, batch_rows, seed, first, None, 2.0, topic
        )
        plan = ChaosRequest(every, settle, kinds, sample, stall, dry_run, output)
        pods = PodsRequest(namespace, release, broker_selector, delete_broker, delete_redis, redis)
        place = pods if where is Deployment.KUBERNETES else LocalRequest(query, workers, setting)
        raise typer.Exit(break_things(request, plan, place, query, bootstrap, kafka or ()))


@app.command("workloads")
def list_workloads(
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """What can be sent: the load's workloads with their queries, and the feed's data sets.

    Example:

        loadgen workloads
    """
    if as_json:
        found = {
            load.name: {"query": load.query, "streams": [stream.name for stream in load.streams], "about": load.about}
            for load in LOADS.values()
        }
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    from rich.console import Console
    from rich.table import Table

    loads = Table(title="produce, ramp, chaos", title_justify="left")
    for heading in ("workload", "streams", "query (loadgen/queries)", "what"):
        loads.add_column(heading)
    for load in LOADS.values():
        loads.add_row(load.name, ", ".join(stream.name for stream in load.streams), load.query, load.about)
    sets = Table(title="feed synthetic, feed rate", title_justify="left")
    for heading in ("data set", "what"):
        sets.add_column(heading)
    for workload in WORKLOADS.values():
        sets.add_row(workload.name, workload.about)
    Console().print(loads, sets)


def main() -> None:
    """Run the command; a mistake is one sentence."""
    with one_sentence(is_debug=False):
        app()


if __name__ == "__main__":
    main()
