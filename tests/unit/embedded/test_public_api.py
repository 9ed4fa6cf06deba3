"""What users of the package import: examples in docstrings run, and signatures are complete."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import spojoin

ROOT = Path(__file__).parents[3]
MODULES = ("join", "sql")
PROGRAM = '''
"""A program of a user."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import polars as pl
import pyarrow as pa

import spojoin

STATEMENT = "SELECT l.a, r.a AS b FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')"
frame = pl.DataFrame({"a": [1, 2]})
found: pl.DataFrame = spojoin.sql(STATEMENT, s=frame, threads=1).to_polars()
for batch in spojoin.sql(STATEMENT, s={"a": [1, 2]}, time={"s": "a"}):
    rows: int = batch.num_rows
reader: pa.RecordBatchReader = spojoin.sql(STATEMENT, s=Path("s.csv")).reader()
refused: int = sum(spojoin.sql(STATEMENT, s=pa.table({"a": [1]})).rejected.values())


async def feed() -> AsyncIterator[pl.DataFrame]:
    """Rows as they come."""
    yield frame


async def main() -> None:
    """Join a feed."""
    with spojoin.Join(STATEMENT, {"s": {"a": "int"}}, lateness=None, threads=2) as join:
        async for table in join.results({"s": feed()}):
            print(table.num_rows)
        more: pa.Table = join.push(frame)
        for reject in join.take_rejects():
            print(reject.reason, reject.position, more.num_rows)


asyncio.run(main())
'''
WRONG = {
    "spojoin.sql(1)": "arg-type",
    "spojoin.sql('SELECT', limit='3')": "arg-type",
    "spojoin.Join(3)": "arg-type",
    "spojoin.Join('SELECT', schema={})": "call-arg",
    "spojoin.sql('SELECT').to_panda()": "attr-defined",
}


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(f"spojoin.embedded.{module}"))
    assert found.failed == 0
    assert found.attempted >= 3


def test_everything_public_has_an_example():
    for name in ("Join", "sql"):
        assert ">>> " in inspect.getdoc(getattr(spojoin, name))
    assert {"Join", "sql"} < set(spojoin.__all__)


def test_the_package_is_marked_as_typed():
    assert files("spojoin").joinpath("py.typed").is_file()


def checked(folder, text):
    """What a strict mypy says of a program; the package's own files are not judged here."""
    (folder / "program.py").write_text(text)
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-pyarrow.*,polars.*]\nignore_missing_imports = true\n"
    )
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-error-summary", "program.py"]
    environment = {"MYPYPATH": str(ROOT / "services"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("program.py:")]


def test_a_strictly_typed_program_passes_and_its_mistakes_are_found(tmp_path):
    assert checked(tmp_path, PROGRAM) == []
    lines = checked(tmp_path, PROGRAM + "\n".join(WRONG) + "\n")
    first = len(PROGRAM.splitlines()) + 1
    said = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in lines if ": error: " in line}
    assert said == {first + at: kind for at, kind in enumerate(WRONG.values())}


def test_every_public_signature_is_annotated():
    for module in (*MODULES, "feeds", "declared_query", "statements", "python_rows", "rejects"):
        tree = ast.parse((ROOT / f"services/spojoin/embedded/{module}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                missing = [each.arg for each in given if each.annotation is None and each.arg not in ("self", "cls")]
                assert (missing, node.returns is None) == ([], False), f"{module}.{node.name}"
