"""Makes the environment of `make setup`: `python set_up.py .venv [constraints.txt]`. Needs only the standard library.

Kernels compile for minutes on all cores. Meanwhile, this program fetches the packages, and prints a line for each.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

#: Lines of pip to print.
_TOLD = re.compile(r"\s*(Downloading .*\(.*\)|Building wheels? for .*: started|Installing collected packages)")
#: Python writes bytecode when a module is first imported, and imports few of the installed modules.
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "--progress-bar", "off")


class SetUp:
    """Runs commands side by side, and prints their lines after the seconds so far and the name of the part."""

    def __init__(self, environment: Path, constraints: Sequence[str]) -> None:
        self.bin = environment / "bin"
        self.constraints = [word for file in constraints for word in ("--constraint", file)]
        self._began = time.monotonic()
        self._printing = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_ended = False

    def say(self, part: str, line: str) -> None:
        """Print a line."""
        with self._printing:
            print(f"{time.monotonic() - self._began:4.0f} s  {part:8}  {line}", flush=True)

    def install(self, part: str, *packages: str) -> None:
        """Install packages, and print each download with its size."""
        self.run(part, self.bin / "python", *_PIP, *self.constraints, *packages, told=_TOLD)

    def run(self, part: str, *command: str | Path, told: re.Pattern[str] | None = None) -> None:
        """Run a command and print its lines, or only the lines that match `told`. Raises SystemExit on failure."""
        output = []
        quiet = os.environ | {"PYTHONUNBUFFERED": "1", "PIP_NO_INPUT": "1"}
        with subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet
        ) as process:
            self._running.add(process)
            assert process.stdout is not None
            for line in process.stdout:
                output.append(line)
                if line.strip() and (told is None or told.match(line)):
                    self.say(part, line.strip() if len(line) < 120 else f"{line.strip()[:110]} ...")
        self._running.discard(process)
        if process.returncode:
            if not self._is_ended:
                self.say(part, f"failed, status {process.returncode}:\n{''.join(output)}")
            raise SystemExit(process.returncode)

    def end(self) -> None:
        """End all running commands silently."""
        self._is_ended = True
        for process in list(self._running):
            process.terminate()


def main(environment: Path, constraints: Sequence[str]) -> None:
    """Make the environment, then fetch and compile all that commands would need on their first call."""
    made = SetUp(environment, constraints)
    made.say("packages", f"the environment {environment}, and the packages that compile kernels: about 150 MB")
    made.run("packages", sys.executable, "-m", "venv", environment)
    made.install("packages", "--editable", ".")

    def fetch() -> None:
        made.say("packages", "PySpark, services, development: about 750 MB")
        made.install("packages", "--editable", "./loadgen[all]", "spojoin[all,dev]")
        made.run("kafka", made.bin / "spojoin", "fetch")
        made.run("spark", made.bin / "loadgen", "fetch")

    with ThreadPoolExecutor(2) as pool:
        steps = [pool.submit(made.run, "kernels", made.bin / "spojoin", "warm-up"), pool.submit(fetch)]
        try:
            wait(steps, return_when="FIRST_EXCEPTION")
        finally:
            if any(step.done() and step.exception() for step in steps):
                made.end()
    for step in steps:
        step.result()
    made.say("ready", f"{made.bin / 'spojoin'} and {made.bin / 'loadgen'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
