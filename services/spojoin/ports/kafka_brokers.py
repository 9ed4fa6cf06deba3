"""Whether a Kafka client still knows a broker: librdkafka may forget its only one, and then looks for none any more.

A broker that stops answers a question about topics with an empty list of brokers. Since 2.10 the client then forgets
the one it had; if the connection has just broken, it also drops its plan to begin with `bootstrap.servers` again
(`rd_kafka_rebootstrap_tmr_stop`), and no setting changes that. A new client finds the broker.
"""

from __future__ import annotations

import orjson

#: How often a client reports what it knows.
REPORT_MS = 2_000
#: So many reports without a broker: a client that begins anew has none for a moment, too.
REPORTS = 2

_REAL = frozenset({"configured", "learned"})


class KnownBrokers:
    """Listens to the statistics of one client."""

    def __init__(self) -> None:
        self._reports_without = 0

    @property
    def properties(self) -> dict[str, object]:
        """What makes a client report here, from within its calls."""
        return {"statistics.interval.ms": REPORT_MS, "stats_cb": self.hear}

    def hear(self, statistics: str) -> None:
        """Take a report, a JSON of librdkafka's statistics."""
        brokers = orjson.loads(statistics)["brokers"].values()
        knows_one = any(broker["source"] in _REAL for broker in brokers)
        self._reports_without = 0 if knows_one else self._reports_without + 1

    @property
    def are_lost(self) -> bool:
        """Whether the client knows none, and won't find one."""
        return self._reports_without >= REPORTS
