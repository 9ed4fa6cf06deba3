"""The core tests and the README as a plain install has them, on the oldest and the newest versions that bounds allow.

`make versions` runs it, as a part of `make test`; nothing is pinned but by the lower bounds of pyproject.toml. Each
environment holds the wheel and what it requires, without extras; it is kept in `.cache/versions`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "versions"
#: The ends of what the bounds allow, in Python as well.
COMBINATIONS = (("3.11", "oldest"), ("3.13", "newest"))
#: What `--long` tries besides.
FURTHER = (("3.12", "newest"),)
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
#: What DuckDB, sqlglot, Arrow and numba may change: functions, the page of statements, and answers by all ways in.
CORE = (
    "tests/unit/expressions",
    "tests/unit/query/test_reference.py",
    "tests/unit/columns/test_values.py",
    "tests/unit/statements/test_kept_statements.py",
    "tests/unit/test_readme.py",
)


def oldest(requirements: list[str]) -> list[str]:
    """Each requirement as a constraint to its lower bound."""
    return [re.sub(r">=([^,]+).*", r"==\1", each) for each in requirements]


def interpreter(version: str) -> Path | None:
    """A Python of that version, on PATH or of pyenv; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    return next((Path(each) for each in candidates if each and _answers(each)), None)


def _answers(python: str | Path) -> bool:
    """Whether it runs: a shim of pyenv stands for versions that aren't chosen, too."""
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def installed(python: Path, version: str, bound: str, wheel: Path) -> Path:
    """The Python of an environment that holds the wheel as pip installs it, brought up to date."""
    folder = FOLDER / f"{version}-{bound}"
    if not (folder / "bin/python").exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
    constraints = folder / "constraints.txt"
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    constraints.write_text("\n".join(oldest(requirements) if bound == "oldest" else []))
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    newest = ["--upgrade", "--upgrade-strategy", "eager"]
    subprocess.run([*pip, *newest, "--constraint", constraints, wheel, *TOOLS], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    return folder / "bin/python"


def tried(version: str, bound: str, wheel: Path) -> bool:
    """Whether the core tests pass with a Python and one end of the bounds; True where there is no such Python.

    The tests run in one process, which compiles the kernels once; the other environment has the other core.
    """
    python = interpreter(version)
    if python is None:
        print(f"versions: skipped, as there is no Python {version} on PATH or of pyenv", flush=True)
        return True
    command = [installed(python, version, bound, wheel), "-m", "pytest", *CORE, "-p", "no:cacheprovider"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    print(f"versions: Python {version}, the {bound} versions that the bounds allow", flush=True)
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.flush()
    return done.returncode == 0


def main() -> int:
    """Build the wheel once and try all combinations; the exit status."""
    wheels = FOLDER / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("*.whl")
    combinations = [*COMBINATIONS, *(FURTHER if "--long" in sys.argv else ())]
    with ThreadPoolExecutor(2) as pool:
        passed = list(pool.map(lambda each: tried(*each, wheel), combinations))
    failed = [
        f"Python {version}, {bound}" for (version, bound), well in zip(combinations, passed, strict=True) if not well
    ]
    print(f"versions: failed with {'; '.join(failed)}" if failed else "versions: all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
