"""What a command says about refused rows when it ends, and with which status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from spojoin.cli.errors import STATUS_ROWS
from spojoin.embedded.refused_words import Door, refused_line, too_many_refused
from spojoin.embedded.reject_limit import RejectLimit
from spojoin.model import Query


def end_with_refused(
    report: Mapping[str, Any], query: Query | None, door: Door, limit: RejectLimit, files: tuple[Path, Path | None]
) -> None:
    """Say which rows were refused; status 1 where these are too many. files: of results and of refused rows."""
    if line := refused_line(report, query, door):
        typer.echo(f"spojoin: {line}", err=True)
    if sentence := too_many_refused(report, limit, door):
        typer.echo(f"spojoin: {sentence}: {_kept(report, *files)}", err=True)
        raise typer.Exit(STATUS_ROWS)


def _kept(report: Mapping[str, Any], output: Path, rejects: Path | None) -> str:
    others = report["rows"] - report["rejected"]
    name = "the output" if str(output) == "-" else output
    kept = f"{name} holds the results of the other {others:,}" if others else f"{name} is empty"
    return (
        f"{kept}; {rejects} holds the refused rows"
        if rejects
        else f"{kept}; add --rejects FILE to see each with its reason"
    )
