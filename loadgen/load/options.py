"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from loadgen.load.load_streams import LoadName

#: A file of settings, or the settings themselves.
File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help='A YAML file of settings, or YAML text that begins with "{". Options win over it.',
        show_default=False,
    ),
]
Schema = Annotated[bool, typer.Option("--schema", help="Print an example of FILE: all fields, explained.")]
Workload = Annotated[LoadName | None, typer.Option(help="What to send; `loadgen workloads` describes them.")]
Rate = Annotated[float | None, typer.Option(help="Rows a second, of all streams together.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback where something fails.")]
Seed = Annotated[int, typer.Option(min=0, help="Each seed gives other rows; the same seed always gives the same.")]
