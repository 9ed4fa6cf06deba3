"""The option `--version`, the same for each command of the repository."""

from __future__ import annotations

from typing import Any

import typer


def version_option(program: str, version: str) -> Any:  # noqa: ANN401  (Typer's own type for an option's default)
    """An option that prints the program's name and version and ends the command."""

    def show(is_asked: bool) -> None:
        if is_asked:
            typer.echo(f"{program} {version}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Show the version and exit.")
