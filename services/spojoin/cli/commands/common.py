"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spojoin.errors import ConfigurationError

if TYPE_CHECKING:
    from spojoin.model import Query

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
        help="The format of results; default by the extension, and for - a table on a terminal, else JSON lines.",
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
    """Say on standard error what the query's author may not expect."""
    for note in query.notes:
        typer.echo(f"spojoin: {note}", err=True)
