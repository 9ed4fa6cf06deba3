"""What the two distributions require, and the sentence about what an installation lacks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import loadgen
import spojoin
from loadgen.extras import LOADGEN
from spojoin.cli.errors import SPOJOIN, describe

ROOT = Path(__file__).parents[3]
PROJECTS = {"spojoin": ROOT / "pyproject.toml", "spojoin-loadgen": ROOT / "loadgen/pyproject.toml"}
#: Modules and the distributions that provide them, where the names differ.
CARRIERS = {"faust": "faust-streaming", "mode": "mode-streaming", "urllib3": "kubernetes"}


def read(name):
    return tomllib.loads(PROJECTS[name].read_text())


def required(name, extra=""):
    """The packages of an extra, including those of the extras that it names; "" is the distribution itself."""
    project = read(name)["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    found = set()
    for each in wanted:
        package, extras = re.match(r"([\w-]+)(?:\[([\w,]+)\])?", each).groups()
        found.add(package)
        for inner in (extras or "").split(","):
            found |= required(package, inner) if inner else set()
    return found


@pytest.mark.parametrize("name", PROJECTS)
def test_requirements_are_ranges(name):
    """Exact versions are only in constraints.txt and docker/*.lock."""
    project = read(name)["project"]
    wanted = [*read(name)["build-system"]["requires"], *project["dependencies"]]
    wanted += [each for extra in project["optional-dependencies"].values() for each in extra]
    own = re.compile(r"(spojoin|spojoin-loadgen)\[[\w,]+\]")
    assert [each for each in wanted if not own.fullmatch(each) and not re.search(r">=[\w.]+,<[\w.]+", each)] == []


def test_both_distributions_have_one_version():
    assert spojoin.__version__ == loadgen.__version__


@pytest.mark.parametrize("installation", [SPOJOIN, LOADGEN], ids=lambda each: each.distribution)
def test_the_extra_named_for_a_module_brings_its_package(installation):
    for extra, modules in installation.extras.items():
        brought = required(installation.distribution, extra) | required(installation.distribution)
        names = {CARRIERS.get(module, module.replace("_", "-")) for module in modules}
        assert names <= brought, extra


def test_commands_and_their_extras_exist():
    from spojoin.cli.main import app

    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert SPOJOIN.commands.keys() <= commands
    assert set(SPOJOIN.commands.values()) <= SPOJOIN.extras.keys()
    assert set(LOADGEN.commands.values()) <= LOADGEN.extras.keys()


@pytest.mark.parametrize(
    ("installation", "module", "command", "sentence"),
    [
        (SPOJOIN, "redis", "up", "spojoin up needs redis, which this installation lacks: pip install 'spojoin[local]'"),
        (
            SPOJOIN,
            "kubernetes",
            "service",
            "spojoin service needs kubernetes, which this installation lacks: pip install 'spojoin[kubernetes]'",
        ),
        (
            SPOJOIN,
            "faust",
            None,
            "spojoin needs faust-streaming, which this installation lacks: pip install 'spojoin[services]'",
        ),
        (
            LOADGEN,
            "pyspark",
            "demo",
            "loadgen demo needs PySpark, which this installation lacks: pip install 'spojoin-loadgen[demo]'",
        ),
        (
            LOADGEN,
            "plotly",
            "ramp",
            "loadgen ramp needs Plotly, which this installation lacks: pip install spojoin-loadgen",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_install(installation, module, command, sentence):
    assert installation.missing(ModuleNotFoundError(f"No module named {module!r}", name=module), command) == sentence


@pytest.mark.parametrize("module", ["spojoin.cli.nothing", "redis.nothing", "nothing", None])
def test_any_other_missing_module_is_a_bug(module):
    assert describe(ModuleNotFoundError("no such module", name=module)) is None


@pytest.mark.parametrize("lock", sorted((ROOT / "docker").glob("*.lock")), ids=lambda path: path.name)
def test_locks_name_distributions_alone(lock):
    """The project's own come as wheels: where dependencies are installed, its folder isn't there yet."""
    named = [line for line in lock.read_text().splitlines() if line and line[0] not in " #"]
    assert [line for line in named if not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==\S+ \\", line)] == []
