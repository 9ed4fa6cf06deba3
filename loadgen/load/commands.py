"""`loadgen produce`, `loadgen ramp` and `loadgen workloads`."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import orjson
import typer

from loadgen.errors import one_sentence
from loadgen.load import options
from loadgen.load.load_streams import LOADS
from loadgen.load.workloads import WORKLOADS
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True)
class ProduceOptions:
    """Those of `loadgen produce`."""

    file: options.File = None
    workload: options.Workload = None
    rate: options.Rate = None
    duration: Annotated[str | None, typer.Option(help="90s, 5m, 1.5h or forever.")] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka. Default: SPOJOIN_BOOTSTRAP_SERVERS, or 127.0.0.1:9092.", metavar="HOST:PORT"),
    ] = None
    via: Annotated[str | None, typer.Option(help="Straight to Kafka, or as a Spark job.", metavar="kafka|spark")] = None
    schema: options.Schema = False
    debug: options.Debug = False


@with_options
def produce(asked: ProduceOptions) -> None:
    """Send rows at a rate, by an open loop: a row goes out when it is due, however late the results are.

    Each message carries the moment at which it was due as its Kafka timestamp, so that latency is honest under
    overload. The same seed gives the same rows, which a checksum confirms. If the load generator itself can't hold the
    rate, it says so.

    Examples:

        loadgen produce --workload q3 --rate 300000 --duration 60s --bootstrap 127.0.0.1:9092

        loadgen produce '{workload: q1, rows: {format: json, partitions: 4}}' --rate 20000 --duration forever

        loadgen produce load.yaml --via spark
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.load.files import example, read
        from loadgen.load.load_file import ProduceFile

        if asked.schema:
            typer.echo(example(ProduceFile, workload="q3"), nl=False)
            return
        from loadgen.load.send import send

        given = {name: getattr(asked, name) for name in ("workload", "rate", "duration", "bootstrap", "via")}
        send(read(ProduceFile, asked.file, given))


@dataclass(frozen=True, slots=True)
class RampOptions:
    """Those of `loadgen ramp`."""

    file: options.File = None
    workload: options.Workload = None
    start: Annotated[float | None, typer.Option(help="The first rate to try, in rows a second.")] = None
    max: Annotated[float | None, typer.Option(help="The highest rate to try.")] = None
    p99_ms: Annotated[float | None, typer.Option(help="The bound of p99, in milliseconds.")] = None
    local: Annotated[
        bool | None, typer.Option("--local", help="Start Kafka, Redis and all services on this machine.")
    ] = None
    schema: options.Schema = False
    debug: options.Debug = False


@with_options
def ramp(asked: RampOptions) -> None:
    """Find the highest rate that holds, and draw latency by throughput.

    A rate holds if the lag is flat and p99, from the moment at which a row was due to its result in hand, stays within
    its bound. First the window is filled. Then rates go up by halves until one doesn't hold, and the search closes in
    on the limit. The services must be at rest, and in event-time order their topics must hold no later rows (or set
    rows.first). Exit status 0 if a rate holds.

    Examples:

        loadgen ramp --workload q3 --local

        SPOJOIN_BOOTSTRAP_SERVERS=kafka:9092 loadgen ramp --workload q1 --start 20000 --p99-ms 100

        loadgen ramp ramp.yaml --max 50000
    """
    with one_sentence(is_debug=asked.debug):
        from loadgen.load.files import example, read
        from loadgen.load.load_file import RampFile

        if asked.schema:
            typer.echo(example(RampFile, workload="q3"), nl=False)
            return
        from loadgen.load.ramp.session import climb

        given = {name: getattr(asked, name) for name in ("workload", "start", "max", "p99_ms", "local")}
        raise typer.Exit(climb(read(RampFile, asked.file, given)))


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
