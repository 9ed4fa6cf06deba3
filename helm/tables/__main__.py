"""`python -m helm.tables`: write the chart's dashboards, alert rules and metrics' page, or check them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from helm.tables import files

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def main(
    write: Annotated[bool, typer.Option("--write", help="Write the files.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Fail where a file is not what would be written.")] = False,
    chart: Annotated[Path, typer.Option(help="The chart's folder.", file_okay=False)] = Path("helm/spojoin"),
) -> None:
    """Make the dashboards, the alert rules and METRICS.md."""
    if write == check:
        raise typer.BadParameter("say either --write or --check")
    if write:
        files.write(chart)
    elif found := files.stale(chart):
        print(
            f"{', '.join(str(chart / name) for name in found)} not up to date: run python -m helm.tables --write",
            file=sys.stderr,
        )
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
