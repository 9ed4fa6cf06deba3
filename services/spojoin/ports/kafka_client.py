"""Common parts of all Kafka clients: checks of properties, log lines, and whether they still know a broker."""

from __future__ import annotations

import ctypes
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import structlog
from confluent_kafka import KafkaException, cimpl, libversion
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import BrokerTraffic
from spojoin.suggest import closest

CLIENT_LOGGER = logging.getLogger("librdkafka")

#: How often a client reports its statistics.
REPORT_MS = 2_000

#: After this many reports without a broker, brokers are lost; a new client has none for a moment, too.
REPORTS = 2
_REAL = frozenset({"configured", "learned"})
PROTOCOL = "security.protocol"

#: With this property, files that other properties name aren't opened, and no login is needed.
_OPEN: dict[str, object] = {PROTOCOL: "plaintext"}

#: With these properties, any protocol has the login that it needs.
_LOGIN: dict[str, object] = {"sasl.mechanism": "PLAIN", "sasl.username": "user", "sasl.password": "password"}

#: A row of librdkafka's own table: a property's name and its allowed values.
_ROW = re.compile(r"^(?P<name>[a-z][\w.]+) +\| *\S+ *\|(?P<range>[^|]*)\|", re.MULTILINE)


class ToStructlog(logging.Handler):
    """Passes on lines of the standard library's loggers."""

    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)


CLIENT_LOGGER.propagate = False
CLIENT_LOGGER.addHandler(ToStructlog())


#: Takes the traffic of a client's report.
OnTraffic = Callable[[BrokerTraffic], None]


def unheard(_: BrokerTraffic) -> None:
    """For clients whose traffic nobody counts."""


class KnownBrokers:
    """Listens to the statistics of one client."""

    def __init__(self, on_traffic: OnTraffic = unheard) -> None:
        self._reports_without = 0
        self._on_traffic = on_traffic
        self._before = BrokerTraffic({}, 0, 0)

    @property
    def properties(self) -> dict[str, object]:
        """The properties that make a client report here, from within its calls."""
        return {"statistics.interval.ms": REPORT_MS, "stats_cb": self.hear}

    def hear(self, statistics: str) -> None:
        """Take a report, a JSON of librdkafka's statistics."""
        found = orjson.loads(statistics)
        brokers = found["brokers"].values()
        self._note_traffic(found)
        knows_one = any(broker["source"] in _REAL for broker in brokers)
        self._reports_without = 0 if knows_one else self._reports_without + 1

    def _note_traffic(self, found: Mapping[str, Any]) -> None:
        """Pass on what was exchanged since the last report; the client's own figures fall when it drops a broker."""
        requests: Counter[str] = Counter()
        for broker in found["brokers"].values():
            requests.update(broker.get("req", {}))
        before, self._before = self._before, BrokerTraffic(requests, found.get("tx_bytes", 0), found.get("rx_bytes", 0))
        self._on_traffic(
            BrokerTraffic(
                requests - Counter(before.requests),
                max(0, self._before.sent_bytes - before.sent_bytes),
                max(0, self._before.received_bytes - before.received_bytes),
            )
        )

    @property
    def are_lost(self) -> bool:
        """Whether the client knows no broker, and won't find one."""
        return self._reports_without >= REPORTS


def check_properties(properties: Mapping[str, object], *, opens_files: bool = True) -> None:
    """Raise ConfigurationError if librdkafka doesn't know a property, or doesn't accept its value.

    opens_files: whether the files that properties name are here, and the login is among the properties
    """
    if opens_files and _why_not(properties) is None:
        return
    for name, value in properties.items():
        reason = _why_not({**(_LOGIN if name == PROTOCOL else _OPEN), name: value})
        if reason is not None:
            raise ConfigurationError(f"kafka: {_about(name, reason)}")
    if opens_files and (reason := _why_not(properties)) is not None:
        raise ConfigurationError(f"kafka's properties can't be used: {reason}")


def _why_not(properties: Mapping[str, object]) -> str | None:
    """Why librdkafka refuses the properties, without connecting to a broker; None if it accepts them."""
    to_nobody: dict[str, Any] = {**properties, "bootstrap.servers": "", "log_level": 2}
    try:
        AdminClient(to_nobody, logger=CLIENT_LOGGER)
    except KafkaException as error:
        return str(error.args[0].str()).strip().removeprefix("Failed to create admin client: ")
    except (TypeError, ValueError, AttributeError) as error:
        return str(error)
    return None


def _about(name: str, reason: str) -> str:
    ranges = property_ranges()
    if reason == f'No such configuration property: "{name}"':
        meant = closest(name, ranges)
        asked = f"; did you mean {meant}?" if meant else ""
        return f"librdkafka {libversion()[0]} has no property {name}{asked}"
    expected = ranges.get(name)
    return f"{reason}; expected {expected}" if expected and reason.startswith("Invalid value") else reason


@cache
def property_ranges() -> dict[str, str]:
    """The allowed values of each librdkafka property, by name, from librdkafka's own table; empty if there is none."""
    try:
        library, libc = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
        show, libc.fopen.restype = library.rd_kafka_conf_properties_show, ctypes.c_void_p
    except (OSError, AttributeError):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "properties"
        file = ctypes.c_void_p(libc.fopen(str(table).encode(), b"w"))
        if not file:
            return {}
        show(file)
        libc.fclose(file)
        return {found["name"]: found["range"].strip() for found in _ROW.finditer(table.read_text())}
