"""`pip install` from a checkout into an empty environment: what it installs, and that it works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import spojoin

ROOT = Path(__file__).parents[2]
#: As in the README, with NumPy columns in place of batches.
EXAMPLE = """
import numpy as np
import spojoin

batches = [{"flight_id": ["a", "b", "c"], "distance": np.array([1.0, 3.0, 2.0]), "air_time": np.array([9.0, 1.0, 5.0])}]
with spojoin.Join("trips.yaml") as join:
    found = sum(join.push(batch).num_rows for batch in batches) + join.flush().num_rows
print(found, len(join.take_rejects()))
"""
QUERY = """
name: farther-in-less-time
streams:
  trips:
    schema: {distance: double, air_time: double}
    key: flight_id
sql: |
  SELECT * FROM trips AS l JOIN trips AS r
  ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '10K' ON '100K')
output: %s
"""
#: Packages of pip's own environment, which no distribution requires.
PIP = {"pip", "setuptools", "wheel"}
DISTRIBUTIONS_MAX = 23
OPTIONAL = ("confluent_kafka", "faust", "kubernetes", "loadgen", "prometheus_client", "pyspark", "redis", "structlog")
#: A row joins an earlier row if either of them is both farther and quicker than the other.
MATCHES = [0, 1, 2]


def ran(*command, folder=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPOJOIN_", "PYTHONPATH"))}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def checked(*command, folder=None):
    status, out, err = ran(*command, folder=folder)
    assert status == 0, out + err
    return out


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of both distributions' sources, so that no build writes into the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    ignored = shutil.ignore_patterns("__pycache__", "_generated")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, copy)
    for name in ("services", "protos", "loadgen", "helm"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def installed(sources, tmp_path_factory):
    """The folder of an environment with only spojoin installed, at the development versions."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    checked(folder / "bin/pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt", sources)
    return folder


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trips")
    (folder / "trips.yaml").write_text(QUERY % "count")
    (folder / "bitmaps.yaml").write_text(QUERY % "bitmap")
    (folder / "trips.csv").write_text("flight_id,distance,air_time\na,1,9\nb,3,1\nc,2,5\n")
    return folder


def packages(environment):
    (found,) = environment.glob("lib/python3*/site-packages")
    return found


def distributions(environment):
    listed = json.loads(checked(environment / "bin/python", "-m", "pip", "list", "--format", "json"))
    return {each["name"].lower() for each in listed} - PIP


def test_little_is_installed(installed):
    found = distributions(installed)
    assert "spojoin" in found
    assert len(found) <= DISTRIBUTIONS_MAX, sorted(found)
    assert [name for name in OPTIONAL if (packages(installed) / name).exists()] == []


def test_nothing_but_spojoin_lands_in_site_packages(installed):
    (information,) = packages(installed).glob("spojoin-*.dist-info")
    written = [line.split(",")[0] for line in (information / "RECORD").read_text().splitlines()]
    assert {Path(name).parts[0] for name in written} == {"..", "spojoin", information.name}
    assert {name for name in written if name.startswith("..")} == {"../../../bin/spojoin"}
    assert {"spojoin/py.typed", "spojoin/page/page.html", "spojoin/wire/_generated/spojoin_pb2.py"} <= set(written)


def test_the_example_of_the_readme_runs(installed, trips):
    assert checked(installed / "bin/python", "-c", EXAMPLE, folder=trips).split() == ["3", "0"]


def test_files_are_joined(installed, trips):
    command = installed / "bin/spojoin"
    for query in ("trips", "bitmaps"):
        checked(command, "run", f"{query}.yaml", "-i", "trips=trips.csv", "-o", f"{query}.jsonl", folder=trips)
    rows = [json.loads(line) for line in (trips / "trips.jsonl").read_text().splitlines()]
    assert [row["as_left"] + row["as_right"] for row in rows] == [row["matches"] for row in rows]
    assert [row["matches"] for row in rows] == MATCHES
    assert len((trips / "bitmaps.jsonl").read_text().splitlines()) == len(rows)


@pytest.mark.parametrize("arguments", [["validate"], ["explain"], ["explain", "--sample", "trips.csv"]], ids=" ".join)
def test_a_query_is_checked_and_explained(installed, trips, arguments):
    assert "farther-in-less-time" in checked(installed / "bin/spojoin", *arguments, "trips.yaml", folder=trips)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["up", "trips.yaml"], "local"),
        (["kafka"], "local"),
        (["send", "trips.yaml", "-i", "trips=trips.csv"], "kafka"),
        (["results", "trips.yaml"], "kafka"),
        (["topics", "trips.yaml"], "kafka"),
        (["validate", "--deployed", "trips.yaml"], "kafka"),
        (["service", "router"], "services"),
        (["page", "trips.yaml"], "services"),
        (["status", "--once"], "services"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_missing_package_is_named_with_the_install_that_brings_it(installed, trips, arguments, extra):
    status, out, err = ran(installed / "bin/spojoin", *arguments, folder=trips)
    said = (
        rf"spojoin: spojoin {arguments[0]} needs \S+, which this installation lacks: pip install 'spojoin\[{extra}\]'\n"
    )
    assert (status, out) == (2, "")
    assert re.fullmatch(said, err), err


def test_help_completion_and_version_need_nothing_more(installed):
    command = installed / "bin/spojoin"
    commands = re.findall(r"^│ (\w+) ", checked(command, "-h").partition("Commands")[2], re.MULTILINE)
    assert {"run", "up"} <= set(commands)
    assert all("Usage: spojoin" in checked(command, name, "-h") for name in commands)
    assert checked(command, "--version") == f"spojoin {spojoin.__version__}\n"
    # The shell is looked up among the parent processes, so there must be one.
    assert "_SPOJOIN_COMPLETE" in checked("bash", "-c", f"{command} --show-completion; exit $?")


def test_the_wheel_of_the_load_generator_holds_the_load_generator(sources, tmp_path):
    checked(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, sources / "loadgen")
    (wheel,) = tmp_path.iterdir()
    names = zipfile.ZipFile(wheel).namelist()
    kept = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    data = {path for path in (ROOT / "loadgen").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kept == {str(path.relative_to(ROOT)) for path in data} - {"loadgen/pyproject.toml"}
    assert {"loadgen/py.typed", "loadgen/queries/q3.yaml", "loadgen/engines/expected.json"} <= kept
    assert any(name.startswith("loadgen/engines/java/") for name in kept)
