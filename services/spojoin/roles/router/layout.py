"""How many workers the next frame's batches are shared by (rule P11)."""

from __future__ import annotations

from collections.abc import Callable

from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import WorkerCount

#: Is told in a sentence what was refused.
Tell = Callable[[str], None]


class LayoutWish:
    """The newest layout asked for in the control topic; until there is one, the setting's."""

    def __init__(self, config: RouterConfig, tell: Tell) -> None:
        self.workers = config.workers
        self._workers_max = config.workers_max
        self._version: int | None = None
        self._tell = tell

    def hear(self, layout: WorkerCount) -> None:
        """Take a record of the control topic: the largest version counts, of equal ones the first."""
        if self._version is not None and layout.version <= self._version:
            return
        self._version = layout.version
        if layout.workers <= self._workers_max:
            self.workers = layout.workers
        else:
            self._tell(
                f"layout {layout.version} of {layout.workers} workers is refused, {self.workers} stay: workers_max is "
                f"{self._workers_max}; start all services with a larger one, or ask for fewer workers"
            )
