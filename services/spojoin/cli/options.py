"""Options of commands: those that several commands share, and how a dataclass becomes a command's options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from spojoin.errors import ConfigurationError
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.packing import TOGETHER

if TYPE_CHECKING:
    from spojoin.model import Query

C = TypeVar("C")

QueryFile = Annotated[Path, typer.Argument(help="The query's YAML file.", show_default=False)]
Redis = Annotated[
    str,
    typer.Option(envvar=["SPOJOIN_REDIS_URL", "REDIS_URL"], metavar="URL", help="The Redis that services report to."),
]
Bootstrap = Annotated[str, typer.Option(envvar="SPOJOIN_BOOTSTRAP_SERVERS", metavar="HOST:PORT", help="Kafka.")]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="The file of results: JSON lines, CSV, Parquet or Arrow, by its extension; - is standard output.",
    ),
]
ResultFormat = Annotated[
    str | None,
    typer.Option(
        metavar="json|csv|arrow|parquet|table",
        help="The format of results; default by the extension; for - a table on a terminal, JSON lines otherwise.",
    ),
]
Rejects = Annotated[
    Path | None, typer.Option(help="The file of refused rows with their reasons: JSON lines or Parquet.")
]
MaxRejects = Annotated[
    str,
    typer.Option(
        metavar="SHARE|ROWS",
        help="End with status 1 if more rows are refused: a share, 0.5 or 50%, or a number. Results are kept.",
    ),
]
Csv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[INPUT=]NAME=VALUE,...",
        help="How CSV is written: 'delim=;,decimal=,', timestampformat, encoding, nullstr, comment, names and more.",
    ),
]
Schema = Annotated[
    list[str] | None,
    typer.Option(metavar="[FILE=]COLUMN=TYPE,...", help="The types of columns, such as 'x=double,at=timestamp(s)'."),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Show no progress and no summary; refused rows are still counted on stderr."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")]


class Command(TyperCommand):
    """A command whose arguments may be SQL: one that begins with a comment is none of the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  (click's own)
        """The arguments, with a space before such a comment."""
        return super().parse_args(ctx, [f" {each}" if re.match(r"--\s", each) else each for each in args])


def with_options(command: Callable[[C], None]) -> Callable[..., None]:
    """Let Typer read a command's options from the fields of the dataclass that is its one parameter.

    A field is annotated as Typer reads a parameter: `Annotated[type, typer.Option(...)]`; a default is the option's.
    """
    (parameter,) = inspect.signature(command).parameters
    options: type[Any] = get_type_hints(command)[parameter]

    @functools.wraps(command)
    def from_options(**given: object) -> None:
        command(options(**given))

    del from_options.__wrapped__  # Typer would read the dataclass as an option
    from_options.__signature__ = inspect.Signature(_parameters(options))  # type: ignore[attr-defined]
    from_options.__annotations__ = get_type_hints(options, include_extras=True)
    return from_options


def _parameters(options: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in dataclasses.fields(options)
    ]


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def version_option(program: str, version: str) -> Any:  # noqa: ANN401  (Typer's own type for an option's default)
    """An option that prints the program's name and version and ends the command."""

    def show(is_asked: bool) -> None:
        if is_asked:
            typer.echo(f"{program} {version}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")


def stream_files(inputs: Sequence[str]) -> dict[str, Path]:
    """The file of each stream, from texts STREAM=FILE. Raises ConfigurationError."""
    paths: dict[str, Path] = {}
    for text in inputs:
        stream, equals, path = text.partition("=")
        if not (stream and equals and path):
            raise ConfigurationError(f"--input {text}: expected STREAM=FILE, such as trips=trips.csv")
        if stream in paths:
            raise ConfigurationError(f"--input {text}: the stream {stream!r} has a file already, {paths[stream]}")
        paths[stream] = Path(path)
    return paths


def say_notes(query: Query) -> None:
    """Print the query's notes on standard error."""
    for note in query.notes:
        typer.echo(f"spojoin: {note}", err=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """Which history is answered, how far, by what, and where to."""

    query: QueryFile
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="[NAME=]PATH",
            help="The history of the query's stream, or of each by name: a file or folder that Spark reads, such as "
            "s3a://lake/trips.",
        ),
    ]
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="PATH", help="Where results go, as a folder of files.")
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|TIME|began",
            help="Answer only rows before this value of the first order column, or before this event time; with "
            "`began`, those before the first row that the generation which is served answers.",
        ),
    ] = None
    order_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]",
            help="The columns that order the rows as they arrived; in event time they only resolve ties.",
        ),
    ] = None
    format: Annotated[str, typer.Option(help="The history's format, in Spark's words: parquet, csv, json, orc ...")] = (
        "parquet"
    )
    output_format: Annotated[str, typer.Option(help="The format of the results.")] = "parquet"
    mode: Annotated[str, typer.Option(metavar="error|overwrite|append", help="What to do with existing results.")] = (
        "error"
    )
    shares: Annotated[
        int | None,
        typer.Option(min=1, help="The number of parts in which rows are answered; default as many as are worthwhile."),
    ] = None
    memory: Annotated[str, typer.Option(help="The memory that a task may take.")] = "2 GiB"
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master; default that of spark-submit, or local[*]: all cores of this machine."),
    ] = None
    conf: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; repeatable.")] = None
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of Spark's reader; repeatable.")
    ] = None
    bootstrap: Annotated[
        str,
        typer.Option(envvar="SPOJOIN_BOOTSTRAP_SERVERS", metavar="HOST:PORT", help="Kafka, for --until began."),
    ] = "127.0.0.1:9092"
    explain: Annotated[bool, typer.Option("--explain", help="Print how the history would be answered, and end.")] = (
        False
    )
    quiet: Quiet = False
    debug: Debug = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What to serve, with which servers and services."""

    query: QueryFile
    packing: Annotated[
        str,
        typer.Option(
            metavar="together|apart|GROUPS",
            help="Which roles share a process: all of them, none, or groups such as 'router+sink mutable+logical-and'; "
            "'answerer' gives each worker a mutable part and a logical AND.",
        ),
    ] = TOGETHER
    standbys: Annotated[
        bool,
        typer.Option(
            "--standbys", help="Run a second instance of each process, which takes over if the first one ends."
        ),
    ] = False
    workers: Annotated[
        int | None, typer.Option(min=1, help="PO-Join workers; default the layout's number, or 1 together and 2 apart.")
    ] = None
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the input topics that are created.")] = 1
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A Kafka that is already running.")] = None
    redis: Annotated[str | None, typer.Option(metavar="URL", help="A Redis that is already running.")] = None
    port: Annotated[int | None, typer.Option(help="The port of the Kafka that is started.")] = None
    results: Annotated[
        str, typer.Option(metavar="frames|json|avro|json-schema", help="The format of the results topic.")
    ] = "frames"
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="A schema registry, for inputs and results with its schemas.")
    ] = None
    logs: Annotated[Path | None, typer.Option(help="Keep the services' logs in this folder.")] = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another query that is served under this name.")
    ] = False
    adopt: Annotated[
        str, typer.Option(metavar="OWNER", help="Take over the query's name from an owner that is gone for good.")
    ] = ""
    backfill: Annotated[
        Backfill, typer.Option(help="With --replace: how far back the inputs are reread to fill the windows.")
    ] = Backfill.WINDOW
    columns: Annotated[
        int | None, typer.Option(min=1, help="Columns of workers, which divide the window; default 1.")
    ] = None
    columns_by: Annotated[
        str | None, typer.Option(metavar="batch|key", help="How columns divide the window; default batch.")
    ] = None
    intakes: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that read the inputs for the router, each some of their partitions."),
    ] = None
    joiners: Annotated[int | None, typer.Option(min=1, help="Mutable joiners; default one per predicate.")] = None
    logical_ands: Annotated[
        int | None, typer.Option(min=1, help="Logical ANDs, which divide the frames; default 1.")
    ] = None
    sinks: Annotated[
        int | None, typer.Option(min=1, help="Sinks, each with its own partition of the results; default 1.")
    ] = None
    debug: Debug = False
