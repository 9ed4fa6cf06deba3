"""Processes that end with their parent, however it ends; and servers, which may be killed and started again."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from spojoin.errors import ConfigurationError

#: lines "+ PID" and "- PID" register and forget a child, "/ FOLDER" registers a folder to delete; at the pipe's end, it
#: asks the children to end, waits up to GRACE seconds, kills them, and deletes the folders
_WATCHER = """
trap '' HUP INT TERM
pids=' '
while read -r verb pid; do
  case $verb in
    +) pids="$pids$pid " ;;
    -) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    /) set -- "$@" "$pid" ;;
  esac
done
alive() { for p in $pids; do kill -0 "$p" 2>/dev/null && return 0; done; return 1; }
for p in $pids; do kill -TERM "$p" 2>/dev/null; done
left=$((GRACE * 10))
while alive && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
for p in $pids; do kill -KILL "$p" 2>/dev/null; done
[ $# -eq 0 ] || rm -rf -- "$@"
"""


class Children:
    """Starts processes, each in a separate session, so that Ctrl-C reaches them only through the parent.

    `grace_s` whole seconds may pass between asking a process to stop and killing it.
    """

    def __init__(self, grace_s: int = 5) -> None:
        self._grace_s = grace_s
        self._running: list[subprocess.Popen[bytes]] = []
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER.replace("GRACE", str(grace_s))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start `command` with its output appended to `log`; `env` adds to the environment."""
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,
                )
        except OSError as error:
            raise start_error(command[0], error) from error
        self._tell(f"+ {process.pid}")
        self._running.append(process)
        return process

    def scratch_folder(self, purpose: str) -> Path:
        """A new temporary folder that is deleted when the processes have ended."""
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"spojoin-{purpose}-"))
        except OSError as error:
            raise start_error(purpose, error) from error
        self._tell(f"/ {folder}")
        return folder

    def stop(self, process: subprocess.Popen[bytes], *, is_hard: bool = False) -> int:
        """End a process (`is_hard`: by SIGKILL) and return its exit status."""
        process.send_signal(signal.SIGKILL if is_hard else signal.SIGTERM)
        try:
            status = process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self.forget(process)
        return status

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Stop watching a process that has ended, since another process may get its id."""
        if process in self._running:
            self._running.remove(process)
            self._tell(f"- {process.pid}")

    def close(self) -> None:
        """End all processes, the youngest first, and the watcher."""
        for process in reversed(list(self._running)):
            self.stop(process)
        assert self._watcher.stdin is not None
        if not self._watcher.stdin.closed:
            self._watcher.stdin.close()
        self._watcher.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        assert self._watcher.stdin is not None
        self._watcher.stdin.write(f"{line}\n".encode())
        self._watcher.stdin.flush()


def start_error(what: str, error: OSError) -> ConfigurationError:
    """The error, in one sentence, if the system refused to start something."""
    if error.errno == errno.ENOSPC:
        return ConfigurationError(f"the disk is full: make room in {error.filename or 'the temporary folder'}")
    return ConfigurationError(f"{what} could not be started: {error.strerror or error}")


class LocalServer(ABC):
    """A server that runs within a `with` block, as one of `children`."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> Self:
        """Start, always on the same port, and return when the server answers."""

    def kill(self) -> None:
        """Kill at once, as a crash would; `start` brings the server back with what it keeps on disk."""
        self._end(is_hard=True)

    def close(self) -> None:
        self._end(is_hard=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, *, is_hard: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._children.stop(process, is_hard=is_hard)
