"""What `import spojoin` and `spojoin run` leave unimported, so that they start at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Libraries that no run over files has a use for, and the parts of others and of this package that only some have.
NEEDLESS = {
    "IPython", "confluent_kafka", "duckdb", "faust", "fastapi", "httpx", "kubernetes", "matplotlib", "pandas", "polars",
    "prometheus_client", "pydantic_settings", "pyroaring", "redis", "scipy", "starlette", "uvicorn",
    "pyarrow.dataset", "pyarrow.flight", "rich.progress", "rich.table",
    "spojoin.explain", "spojoin.page", "spojoin.ports", "spojoin.runtime", "spojoin.telemetry",
    "loadgen", "numba.np.linalg", "numba.typed.typeddict",
}  # fmt: skip
#: What `import spojoin` leaves to the first use of `Join`, besides.
LATER = {"numba", "numpy", "pyarrow", "sqlglot", "typer", "spojoin.embedded", "spojoin.query"}
QUERY = """
name: few
streams:
  rows:
    schema: {a: long, b: long}
sql: SELECT * FROM rows AS l JOIN rows AS r ON l.a > r.a AND l.b < r.b WINDOW AS (SLIDE INTERVAL '10' ON '100')
order: arrival
output: count
"""
RUN = """
import sys
sys.argv = ["spojoin", "run", "query.yaml", "-i", "rows=rows.csv", "-o", "counts.jsonl", "--quiet"]
from spojoin.cli.main import main
try:
    main()
finally:
    print(*sys.modules, sep="\\n")
"""


def imported(code: str, folder: Path) -> set[str]:
    """The modules that a process has imported when it ends; it has compiled its kernels in an earlier run."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "query.yaml").write_text(QUERY)
    (tmp_path / "rows.csv").write_text("a,b\n" + "".join(f"{n % 7},{n % 11}\n" for n in range(300)))
    return tmp_path


def test_a_run_imports_nothing_that_it_has_no_use_for(folder: Path) -> None:
    imported(RUN, folder)
    found = imported(RUN, folder)
    assert {"numba", "pyarrow", "spojoin.embedded.engine"} <= found
    assert len((folder / "counts.jsonl").read_text().splitlines()) == 300
    assert found & NEEDLESS == set()


def test_a_join_with_a_table_that_duckdb_makes_loads_no_kernel(tmp_path: Path) -> None:
    code = """
import sys, spojoin
sql = "SELECT l.x, r.name FROM a AS l JOIN TABLE(b) AS r ON l.x >= r.low AND l.x < r.high"
found = spojoin.sql(sql, a={"x": [1, 5]}, b={"low": [0, 3], "high": [3, 9], "name": ["s", "l"]})
assert found.to_arrow().to_pylist() == [{"x": 1, "name": "s"}, {"x": 5, "name": "l"}]
print(*sys.modules, sep="\\n")
"""
    found = imported(code, tmp_path)
    assert "spojoin.embedded.table_pairs" in found
    assert found & {"numba", "spojoin.embedded.engine"} == set()


def test_the_package_alone_imports_nothing_large(tmp_path: Path) -> None:
    found = imported('import sys, spojoin\nprint(*sys.modules, sep="\\n")', tmp_path)
    assert "spojoin.version" in found
    assert found & (NEEDLESS | LATER) == set()


def test_a_service_goes_without_pandas_though_it_makes_arrays(tmp_path: Path) -> None:
    code = """
import sys, pyarrow
import spojoin.roles.router.__main__, spojoin.roles.pojoin.__main__, spojoin.roles.sink.__main__
from spojoin.runtime import process

assert "pandas" not in sys.modules, "imported with a role"
assert process.main("sink", lambda: len(pyarrow.array([1]))) == 1
print(*sys.modules, sep="\\n")
"""
    assert "pandas" not in imported(code, tmp_path)


def test_a_module_that_is_kept_out_is_as_if_not_installed(tmp_path: Path) -> None:
    code = """
from spojoin.blocked_imports import keep_out
keep_out("json")
try:
    import json
except ModuleNotFoundError as error:
    import csv
    print(error.name, csv.__name__)
"""
    assert imported(code, tmp_path) == {"json", "csv"}
