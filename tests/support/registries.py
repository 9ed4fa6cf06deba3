"""A schema registry over HTTP on this machine: franz-go's `srfake`, built from `registry/` with Go."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).parent / "registry"
HAS_GO = shutil.which("go") is not None
BUILD_S_MAX, END_S_MAX = 300, 10


@functools.cache
def program() -> Path:
    """The registry's program; Go keeps what it has built."""
    made = Path(tempfile.mkdtemp(prefix="registry")) / "registry"
    subprocess.run(["go", "build", "-o", made, "."], cwd=SOURCE, check=True, timeout=BUILD_S_MAX)
    return made


@contextmanager
def running_registry(authorization: str | None = None) -> Iterator[str]:
    """A running registry's URL; `authorization` is a header that every request must have."""
    command = [program(), *([authorization] if authorization else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(END_S_MAX)
