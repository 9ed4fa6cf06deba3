"""What somebody tries in the first minutes: the module as a command, names of the package, help and run_report."""

import io
import subprocess
import sys

import numba
import pytest
from rich.console import Console
from typer.testing import CliRunner

import spojoin
from spojoin.cli import run_report
from spojoin.cli.main import app
from spojoin.embedded import warm_up
from spojoin.embedded.run import on_compiling, watch_compiling


def test_the_package_is_a_command():
    done = subprocess.run([sys.executable, "-m", "spojoin", "--version"], capture_output=True, text=True, check=True)
    assert spojoin.__version__ in done.stdout


def test_names_are_listed_before_they_are_imported():
    code = "import spojoin; print(dir(spojoin)); print(spojoin.errors.QueryError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, error = done.stdout.splitlines()
    assert eval(names) == ["Join", "__version__", "connect", "errors", "spark", "sql"]
    assert error == "QueryError"


def test_help_names_nothing_that_pip_does_not_install():
    assert "loadgen" not in CliRunner().invoke(app, ["--help"]).output


def test_warm_up_compiles_all(monkeypatch):
    called = []
    monkeypatch.setattr(warm_up, "warm_up", lambda show: (called.append(True), show(1, 4), show(4, 4)))
    done = CliRunner().invoke(app, ["warm-up"])
    assert (done.exit_code, called) == (0, [True])
    assert "100 %" in done.stderr


def test_progress_says_that_something_is_compiled():
    shown = []
    watch_compiling()
    with on_compiling(lambda: shown.append(True)):
        compiled = numba.njit(lambda x: x + 1)
        assert not shown
        assert compiled(1) == 2
        assert shown
    seen = len(shown)
    assert compiled(1.5) == 2.5
    assert len(shown) == seen


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_it_names_the_command_that_compiles_ahead(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("rich.console.Console", lambda **_: Console(file=out, force_terminal=True, width=200))
    watch_compiling()
    with run_report.run_progress("q", is_quiet=False):
        assert numba.njit(lambda x: x + 2)(1) == 3
    assert "spojoin warm-up" in out.getvalue()


@pytest.mark.parametrize("is_quiet", [False, True])
def test_elsewhere_one_line_says_so_where_that_takes_long(monkeypatch, capfd, is_quiet):
    monkeypatch.setattr(run_report, "UNSAID_S", 0.0)
    watch_compiling()
    with run_report.run_progress("q", is_quiet=is_quiet, has_bar=False):
        for step in (3, 4, 5):
            assert numba.njit(lambda x: x + step)(1) == 1 + step  # noqa: B023  (called at once)
    assert capfd.readouterr().err.count("spojoin warm-up") == (not is_quiet)


@pytest.mark.parametrize("name", ["sql", "Join", "connect", "errors", "spark"])
def test_what_is_listed_is_there(name):
    assert getattr(spojoin, name) is not None
