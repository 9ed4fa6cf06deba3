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
#: What a server's absence means.
_MEANING = {
    "Kafka": "services wait for it",
    "Redis": "status and page know nothing until it does; results go on",
}
#: A server that is silent so many times in a row, for a second each, isn't just busy.
QUESTIONS = 3


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
    _away: set[str] = field(default_factory=set)
    _is_disk_full: bool = False

    @property
    def is_kafka_away(self) -> bool:
        """Whether Kafka didn't answer at the last look."""
        return "Kafka" in self._away

    def look(self) -> None:
        """Look at both. Raises ServerLost."""
        if self.broker is not None:
            self._look_at_own(self.broker)
        self._heard("Kafka", lambda: check_kafka(self.bootstrap, self.properties, believes=False))
        self._heard("Redis", lambda: check_redis(self.redis, believes=False))

    def _look_at_own(self, broker: LocalBroker) -> None:
        is_full = shutil.disk_usage(broker.folder).free < DISK_BYTES_MIN
        why = broker.lost()
        if why is not None:
            self._away.add("Kafka")
            full = f"the disk is full, {broker.folder}: " if is_full else ""
            way_out = "make room, and start again" if is_full else "start again"
            raise ServerLost(f"{full}{why}; its rows and results are gone: {way_out}")
        if is_full and not self._is_disk_full:
            self.say(f"the disk is full: Kafka needs room in {broker.folder}; rows and results wait for it")
        self._is_disk_full = is_full

    def _heard(self, name: str, check: Callable[[], None]) -> None:
        why = self._why_away(check)
        if why is None and name in self._away:
            self.say(f"{name} answers again")
            self._away.remove(name)
        elif why is not None and name not in self._away:
            self.say(f"{why}; {_MEANING[name]}")
            self._away.add(name)

    def _why_away(self, check: Callable[[], None]) -> str | None:
        why = None
        for _ in range(QUESTIONS):
            try:
                check()
            except ConfigurationError as error:
                why = str(error).split(";", maxsplit=1)[0]
            else:
                return None
        return why
