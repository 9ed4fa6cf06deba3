"""How many workers share the next frame's batches (rule P11)."""

from __future__ import annotations

from collections.abc import Callable

from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import WorkerCount

#: Takes a sentence that says which request was refused, and why.
ReportRefusal = Callable[[str], None]


class WorkerRequest:
    """The newest worker count requested in the control topic; before the first request, the setting's."""

    def __init__(self, config: RouterConfig, report: ReportRefusal) -> None:
        self.workers = config.workers
        self._workers_max = config.workers_max
        self._version: int | None = None
        self._report = report

    def hear(self, count: WorkerCount) -> None:
        """Take a record of the control topic. The largest version counts; of equal versions, the first."""
        if self._version is not None and count.version <= self._version:
            return
        self._version = count.version
        if count.workers <= self._workers_max:
            self.workers = count.workers
        else:
            self._report(
                f"request {count.version} for {count.workers} workers is refused, {self.workers} stay: workers_max is "
                f"{self._workers_max}; restart all services with a larger one, or request fewer workers"
            )
