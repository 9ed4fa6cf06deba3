"""Keeps a query's services running on this machine, each in its own process, and ends them together."""

from __future__ import annotations

import http.client
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from spojoin.errors import ConfigurationError, SpoJoinError
from spojoin.local.children import Children

#: A first start compiles kernels, on two cores that all services share.
READY_TIMEOUT_S = 120.0
#: SIGTERM lets a service finish its frame; after this time it is killed, which the protocol allows at any moment.
STOP_TIMEOUT_S = 10.0
POLL_S = 0.1
PROBE_TIMEOUT_S = 2.0
#: The same if the servers are gone, since services can't finish anything then.
STOP_LOST_S = 1.0
TAIL_LINES = 15
#: The status of a service that Kafka takes for replaced: another instance has replaced it, or the machine stood still
#: for longer than a transaction may. Another instance would replace a restarted service again within this time.
STATUS_FENCED = 4
FENCED_AGAIN_S = 60.0

#: Called with a service's name and what has happened to it.
Notice = Callable[[str, str], None]


class ServiceError(SpoJoinError):
    """A service ended by itself; the text ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Service:
    """What to start: a name, a command, variables added to the environment, and the port that serves /readyz."""

    name: str
    command: Sequence[str]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    service: Service
    process: subprocess.Popen[bytes]
    log: Path
    restarts: int = 0
    fenced_at: float | None = None

    def is_replaced(self, status: int) -> bool:
        """Whether the service seems to have ended because of another instance, by its status and how long it ran."""
        if status != STATUS_FENCED:
            return False
        before, self.fenced_at = self.fenced_at, time.monotonic()
        return before is not None and self.fenced_at < before + FENCED_AGAIN_S


class Supervisor:
    """Starts services, restarts those that end by themselves, and ends all of them.

    Args:
        children: keeps the processes; they end with this process, however it ends.
        logs: the folder for the logs, one per service.
        restarts_max: how often one service may end by itself before that counts as failure.
        notice: called with every change.

    """

    def __init__(
        self,
        children: Children,
        logs: Path,
        restarts_max: int = 0,
        notice: Notice = lambda _name, _change: None,
    ) -> None:
        self._children = children
        self._logs = logs
        self._restarts_max = restarts_max
        self._notice = notice
        self._running: dict[str, _Running] = {}
        self._coming: dict[str, _Running] = {}
        self._leaving: dict[subprocess.Popen[bytes], float] = {}
        self.stop_timeout_s = STOP_TIMEOUT_S

    def start(self, services: Sequence[Service]) -> None:
        """Start all services, in any order, since every service waits for its topics."""
        self._logs.mkdir(parents=True, exist_ok=True)
        for service in services:
            log = self._logs / f"{service.name}.log"
            log.unlink(missing_ok=True)
            self._running[service.name] = _Running(service, self._launch(service, log), log)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return when all services say that they are ready.

        Raises ServiceError if one ends, ConfigurationError if one isn't ready in time.
        """
        waiting = dict(self._running)
        deadline = time.monotonic() + timeout_s
        while waiting:
            self.tend()
            for name in [name for name, running in waiting.items() if is_ready(running.service.port)]:
                del waiting[name]
                self._notice(name, "ready")
            if waiting and time.monotonic() > deadline:
                name, running = next(iter(waiting.items()))
                raise ConfigurationError(
                    f"{', '.join(waiting)} not ready after {timeout_s:.0f} s; {name} says:\n{tail(running.log)}"
                )
            if waiting:
                time.sleep(POLL_S)

    def renew(self, services: Sequence[Service]) -> None:
        """Start each service beside the process of its name, as upgrades do; `tend` then replaces that process."""
        for service in services:
            log = self._logs / f"{service.name}.log"
            self._coming[service.name] = _Running(service, self._launch(service, log), log)

    @property
    def is_renewed(self) -> bool:
        """Whether no process waits to replace another, and none is about to end."""
        return not (self._coming or self._leaving)

    def services(self) -> dict[str, Service]:
        """The running services, by name."""
        return {name: running.service for name, running in self._running.items()}

    def tend(self) -> None:
        """Restart services that have ended by themselves; raises ServiceError if that has happened too often."""
        self._go_on_renewing()
        self._restart(self._coming)
        self._restart({name: each for name, each in self._running.items() if name not in self._coming})

    def _go_on_renewing(self) -> None:
        """Let ready processes replace the old ones, which are asked to end, and killed if that takes too long."""
        for name in [name for name, coming in self._coming.items() if is_ready(coming.service.port)]:
            before, self._running[name] = self._running[name], self._coming.pop(name)
            before.process.terminate()
            self._leaving[before.process] = time.monotonic() + self.stop_timeout_s
            self._notice(name, "renewed")
        for process, deadline in list(self._leaving.items()):
            if time.monotonic() > deadline:
                process.kill()
            if process.poll() is not None:
                self._children.forget(process)
                del self._leaving[process]

    def _restart(self, services: Mapping[str, _Running]) -> None:
        for name, running in services.items():
            status = running.process.poll()
            if status is None:
                continue
            self._children.forget(running.process)
            if running.is_replaced(status):
                raise ServiceError(
                    f"another process serves the same query on this Kafka and has taken the place of {name}: this one "
                    "ends; serve a query once, or give one of the two another name"
                )
            if running.restarts >= self._restarts_max:
                raise ServiceError(
                    f"{name} ended with {describe_status(status)}; the end of its log:\n{tail(running.log)}"
                )
            running.restarts += 1
            self._notice(name, f"ended with {describe_status(status)}, restarted")
            running.process = self._launch(running.service, running.log)

    def pids(self) -> dict[str, int]:
        """The services' process ids, by name."""
        return {name: running.process.pid for name, running in self._running.items()}

    def stop(self) -> None:
        """Ask all services to end at once, wait for them together, and kill the others."""
        running = [*self._running.values(), *self._coming.values()]
        processes = [*(each.process for each in running), *self._leaving]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + self.stop_timeout_s
        for process in processes:
            _wait_or_kill(process, deadline)
            self._children.forget(process)
        for kept in (self._running, self._coming, self._leaving):
            kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, service: Service, log: Path) -> subprocess.Popen[bytes]:
        process = self._children.start(service.command, log, service.environment)
        self._notice(service.name, "started")
        return process


def is_ready(port: int) -> bool:
    """Whether the service on `port` of this machine answers /readyz with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, indented."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (nothing)"


def describe_status(status: int) -> str:
    """An exit status, or the signal that ended the process."""
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Within the block, the first SIGTERM or SIGHUP raises KeyboardInterrupt, as Ctrl-C does; later ones do nothing.

    The error has the signal's name, even if the signal ended a library that raises its own error. A signal that the
    caller ignores, as nohup ignores SIGHUP, stays ignored.
    """
    heard: list[str] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in _ENDING:
            signal.signal(each, signal.SIG_IGN)
        heard.append(signal.Signals(number).name)
        raise KeyboardInterrupt(heard[0])

    heeded = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    except KeyboardInterrupt as error:
        error.args = tuple(heard) or error.args
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_or_kill(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
