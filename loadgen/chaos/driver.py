"""What a campaign needs from the place where the services run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from loadgen.chaos.plan import Fault, FaultKind


class Driver(Protocol):
    """Strikes services, the broker and Redis. Whatever ends must be restarted by the place itself.

    All but `tend` may be called from any thread, and may take as long as the fault does. They raise SpoJoinError where
    it can't be done.
    """

    def targets(self) -> Sequence[str]:
        """Names of the services that run, in order."""
        ...

    def delete(self, target: str) -> None:
        """Ask a service to end."""
        ...

    def kill(self, target: str) -> None:
        """End a service at once."""
        ...

    def pause(self, target: str) -> None:
        """Stop a service in its tracks."""
        ...

    def resume(self, target: str) -> None:
        """Let a paused service go on, if it still runs."""
        ...

    def restart_broker(self) -> None:
        """Restart Kafka, its data kept."""
        ...

    def flush_redis(self) -> None:
        """Empty Redis."""
        ...

    def tend(self) -> None:
        """Called repeatedly: restart what has ended, where nothing else does."""
        ...


def strike(driver: Driver, fault: Fault, wait: Callable[[float], object]) -> None:
    """Do what a fault says; `wait(seconds)` passes the time while a service is paused, which is resumed in any case."""
    if fault.kind is FaultKind.PAUSE:
        driver.pause(fault.target)
        try:
            wait(fault.lasts_s)
        finally:
            driver.resume(fault.target)
    elif fault.kind is FaultKind.BROKER:
        driver.restart_broker()
    elif fault.kind is FaultKind.REDIS:
        driver.flush_redis()
    else:
        (driver.delete if fault.kind is FaultKind.DELETE else driver.kill)(fault.target)
