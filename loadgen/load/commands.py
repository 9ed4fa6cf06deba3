"""`loadgen produce`, `loadgen ramp` and `loadgen workloads`."""

# --help prints a command's docstring with its blank lines. Commands import modules when they run, so help is quick.
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
    """The options of `loadgen produce`."""

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
    """Send rows at a rate, by an open loop: a row goes out when it is due, even if results are late.

    Each message carries the moment at which it was due as its Kafka timestamp, so that latency is honest under
    overload. The same seed gives the same rows, which a checksum confirms. The load generator warns if it can't hold
    the rate itself.

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
    """The options of `loadgen ramp`."""

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

    A rate holds if the lag is flat and p99 stays within its bound; latency runs from the moment at which a row is due
    to its result in hand. The command first fills the window. Then it raises the rate by halves until one doesn't hold,
    and closes in on the limit. The services must be at rest, and in event-time order their topics must hold no later
    rows (or set rows.first). The exit status is 0 if a rate holds.

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
        from loadgen.load.ramp.session import run_ramp

        given = {name: getattr(asked, name) for name in ("workload", "start", "max", "p99_ms", "local")}
        raise typer.Exit(run_ramp(read(RampFile, asked.file, given)))


def list_workloads(as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False) -> None:
    """List the load's workloads with their queries, and the feed's data sets.

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
