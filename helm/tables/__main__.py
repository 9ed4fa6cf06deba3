"""`python -m helm.tables` writes or checks the chart's generated files."""

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
    check: Annotated[bool, typer.Option("--check", help="Fail if a file is out of date.")] = False,
    chart: Annotated[Path, typer.Option(help="The chart's folder.", file_okay=False)] = Path("helm/spojoin"),
) -> None:
    """Write or check the dashboards, alert rules, topology, METRICS.md, and the tables of README.md and SECURITY.md."""
    if write == check:
        raise typer.BadParameter("expected either --write or --check")
    if write:
        files.write(chart)
    elif found := files.stale(chart):
        print(
            f"{', '.join(str(chart / name) for name in found)} out of date: run python -m helm.tables --write",
            file=sys.stderr,
        )
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
