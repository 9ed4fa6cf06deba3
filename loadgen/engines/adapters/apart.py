"""Python engines that need other package versions than this one, each in its own virtual environment."""

from __future__ import annotations

import shutil
import subprocess
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spojoin.errors import ConfigurationError
from spojoin.local.jars import cache_folder

SOURCES = Path(__file__).parents[1] / "python"


@dataclass(frozen=True, slots=True)
class OwnPython:
    """script: its file in SOURCES; requirements: what pip installs, the engine first."""

    script: str
    requirements: Sequence[str]


APART: Mapping[str, OwnPython] = {"polars_bio": OwnPython("overlap.py", ("polars-bio==0.36.2", "numpy==2.4.6"))}


def command(engine: str, say: Callable[[str], None]) -> list[str]:
    """The command that starts an engine, without the path of the job. Raises ConfigurationError."""
    program = APART[engine]
    folder = cache_folder() / "benchmark" / "-".join(program.requirements).replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        say(f"installing {program.requirements[0]}")
        _install(folder, python, program.requirements)
    return [str(python), str(SOURCES / program.script), "{job}"]


def _install(folder: Path, python: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
        raise ConfigurationError(f"{requirements[0]} can't be installed: {last[0]}")
    (folder / "complete").touch()
