"""A command's options are the fields of a dataclass."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from spojoin.cli.options import with_options


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """An option of each kind."""

    source: Annotated[Path, typer.Argument(help="The file to copy.")]
    tags: Annotated[list[str], typer.Option("--tag", "-t", help="A label; repeatable.")]
    times: Annotated[int, typer.Option(min=1, help="How many copies.")] = 2
    folders: Annotated[list[str], typer.Option("--folder", help="Where to.")] = dataclasses.field(
        default_factory=lambda: ["here"]
    )
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False


@pytest.fixture
def taken():
    return []


@pytest.fixture
def invoke(taken):
    @with_options
    def copy(options: Copy) -> None:
        """Copy a file."""
        taken.append(options)

    app = typer.Typer()
    app.command()(copy)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_an_omitted_option_has_the_fields_default(invoke, taken):
    assert invoke("a.txt", "--tag", "x").exit_code == 0
    assert taken == [Copy(source=Path("a.txt"), tags=["x"], times=2, folders=["here"], quiet=False)]


def test_every_option_reaches_its_field(invoke, taken):
    given = ("-t", "x", "--tag", "y", "--times", "3", "--folder", "p", "--folder", "q", "-q", "a.txt")
    assert invoke(*given).exit_code == 0
    assert taken == [Copy(source=Path("a.txt"), tags=["x", "y"], times=3, folders=["p", "q"], quiet=True)]


@pytest.mark.parametrize(
    ("given", "named"),
    [(("--tag", "x"), "source"), (("a.txt",), "--tag"), (("a.txt", "--tag", "x", "--times", "0"), "--times")],
)
def test_a_field_without_a_default_is_required_and_limits_hold(invoke, taken, given, named):
    result = invoke(*given)
    assert result.exit_code == 2
    assert named in result.output.lower()
    assert taken == []


def test_help_shows_the_commands_docstring_and_each_fields_help(invoke):
    shown = " ".join(invoke("--help").output.split())
    assert "Copy a file." in shown
    for text in ("The file to copy.", "A label; repeatable.", "How many copies.", "Where to.", "Print nothing."):
        assert text in shown
    assert "default: here" in shown
    assert "default: 2" in shown


def test_the_command_keeps_its_name():
    def copy(options: Copy) -> None:
        """Copy a file."""

    assert with_options(copy).__name__ == "copy"
