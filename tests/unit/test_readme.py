"""The README's commands, statements and Python run as they stand, and print what stands there."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spojoin.cli.commands.sql import sql
from spojoin.query.load import load_served_query

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
#: Commands that need a cluster, a broker or a network: tests/unit/test_pages.py checks their names and options.
ELSEWHERE = re.compile(r"(pip|make|helm|kubectl|spojoin (up|send|results|status)) ")
_BLOCK = re.compile(r"(?m)(?:^ {4}.*\n(?:^\n(?=^ {4}))?)+")
_SAVED = re.compile(r"Save this as `([\w.]+)`:\n\n((?:    .*\n)+)")
_BIN = """#!/bin/sh
exec {python} -m spojoin.cli.main "$@"
"""


def blocks(kind):
    """The indented blocks of one kind, in order, each with the block after it."""
    found = [textwrap.dedent(match[0]).strip("\n") for match in _BLOCK.finditer(README)]
    return [(each, after) for each, after in zip(found, [*found[1:], ""], strict=True) if re.match(kind, each)]


def commands(block):
    """The commands of a block, each with the lines that its quotes or backslashes continue, without comments."""
    taken = ""
    for line in block.splitlines():
        taken += re.sub(r"\s+# .*", "", line) + "\n"
        if taken.count('"') % 2 == 0 and not taken.endswith("\\\n"):
            yield taken.strip()
            taken = ""
    assert not taken


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the README says to save, and `spojoin` on the path."""
    made = tmp_path_factory.mktemp("readme")
    for name, text in _SAVED.findall(README):
        (made / name).write_text(textwrap.dedent(text))
    (made / "bin").mkdir()
    (made / "bin/spojoin").write_text(_BIN.format(python=sys.executable))
    (made / "bin/spojoin").chmod(0o755)
    ran(made, "spojoin", "sample", "flights.csv")
    return made


def ran(folder, *command):
    paths = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr if "Error" in done.stderr else "") == (0, ""), done.stderr
    return done.stdout


def test_commands_run_and_print_what_is_shown(folder):
    shown, tried = [], 0
    for block, after in blocks(r"spojoin |pip install spojoin\n"):
        here = [command for command in commands(block) if not ELSEWHERE.match(command)]
        assert all(command.startswith("spojoin ") for command in here)
        tried += len(here)
        printed = "".join(
            ran(folder, "bash", "-o", "pipefail", "-c", f"{{ {each}; }} || test $? = 141") for each in here
        )
        if printed:
            assert printed.splitlines() == after.splitlines()
            shown.append(printed)
    assert (len(shown), tried) == (1, 3)
    assert (folder / "delays.jsonl").read_text().count("\n") > 10


def test_python_runs_and_prints_what_is_shown(folder):
    pieces = blocks(r"import ")
    script = "\nprint('--')\n".join(block for block, _ in pieces)
    first, second = ran(folder, sys.executable, "-c", script).split("--\n")
    assert first.splitlines() == pieces[0][1].splitlines()
    total = sum(int(line.removesuffix(" aircraft late again")) for line in second.splitlines())
    assert total == rows_of_delays(folder) > 0


def rows_of_delays(folder):
    """Results of the same statement over the file."""
    ran(folder, "spojoin", "run", "delays.yaml", "-i", "flights=flights.csv", "-o", "again.jsonl", "-q")
    return (folder / "again.jsonl").read_text().count("\n")


def test_what_is_saved_can_be_served(folder):
    names = [name for name, _ in _SAVED.findall(README)]
    assert names == ["delays.yaml"]
    assert load_served_query(folder / names[0]).name == "delays-passed-on"


def test_every_block_is_of_a_kind():
    kinds = r"(pip|spojoin|helm|kubectl|make|import|name:|\{)"
    assert [block for block, _ in blocks(f"(?!{kinds})")] == []


def test_the_statement_comes_first_and_the_deployment_after_it():
    assert README.index("spojoin sql ") < README.index("spojoin.sql(") < README.index("helm install ")


def test_the_examples_of_help_can_be_pasted_one_after_the_other(tmp_path, folder):
    lines = inspect.getdoc(sql).split("Examples, which can be pasted one after the other:\n\n")[1]
    examples = [each for each in textwrap.dedent(lines).split("\n\n") if each.strip()]
    assert len(examples) == 5
    (tmp_path / "bin").symlink_to(folder / "bin")
    script = "\n".join(f"{{ {each}\n}} || test $? = 141 || exit 1" for each in examples)
    assert ran(tmp_path, "bash", "-o", "pipefail", "-c", script).count("\n") > 1_000
    assert (tmp_path / "worse.parquet").stat().st_size > 1_000
