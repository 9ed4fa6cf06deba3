"""What `spojoin up` says of its Kafka and its Redis while it serves: that one is away or back, or its disk full."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spojoin.errors import ConfigurationError, Stop
from spojoin.local.broker import LocalBroker
from spojoin.local.reachable import check_kafka, check_redis

#: Below this Kafka soon writes no more.
DISK_BYTES_MIN = 64 << 20


class ServerLost(Stop):
    """A server that `up` had started has ended, and what it held is gone."""


@dataclass(slots=True)
class ServersWatch:
    """Looks at both servers, and says each change once.

    broker: the Kafka that was started here; None for one that was named; properties: of Kafka's clients
    """

    bootstrap: str
    redis: str
    say: Callable[[str], None]
    broker: LocalBroker | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    _away: dict[str, str] = field(default_factory=dict)
    _is_disk_full: bool = False

    @property
    def is_kafka_away(self) -> bool:
        """Whether Kafka didn't answer at the last look."""
        return "Kafka" in self._away

    def look(self) -> None:
        """Look at both. Raises ServerLost."""
        if self.broker is not None:
            self._look_at_own(self.broker)
        self._heard("Kafka", lambda: check_kafka(self.bootstrap, self.properties))
        self._heard("Redis", lambda: check_redis(self.redis))

    def _look_at_own(self, broker: LocalBroker) -> None:
        why = broker.lost()
        if why is not None:
            self._away["Kafka"] = why
            raise ServerLost(f"{why}; its rows and results are gone: start again")
        is_full = shutil.disk_usage(broker.folder).free < DISK_BYTES_MIN
        if is_full and not self._is_disk_full:
            self.say(f"the disk is full: Kafka needs room in {broker.folder}; rows and results wait for it")
        self._is_disk_full = is_full

    def _heard(self, name: str, check: Callable[[], None]) -> None:
        try:
            check()
        except ConfigurationError as error:
            why = str(error).split(";", maxsplit=1)[0]
            if name not in self._away:
                self.say(f"{why}; services wait for it")
            self._away[name] = why
        else:
            if self._away.pop(name, None) is not None:
                self.say(f"{name} answers again")
