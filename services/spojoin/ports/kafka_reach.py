"""Why Kafka can't be reached, in words: the client's reports, and unreachable listeners that Kafka names."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.ports.kafka_client import CLIENT_LOGGER

#: Timeouts for the brokers' first answer, for names, and for connections to the listeners, all at the same time.
ANSWER_S, RESOLVE_S, CONNECT_S = 5.0, 1.0, 0.8
_POLL_S = 0.1
#: The beginning of librdkafka's reports: the listener, its node, and what is wrong.
_REPORT = re.compile(
    r"^(?:\w+://)?(?P<listener>\S+:\d+)/(?P<node>\w+): (?P<why>.+?)(?: \(after \d+ms in state [^)]*\))?$", re.DOTALL
)
#: librdkafka's message about a connection; its address is the listener's, and the reason is the system's.
_CONNECT = re.compile(r"^Connect to \S+ failed: (?P<reason>.+)$", re.DOTALL)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
#: librdkafka's message if a listener without TLS has ended an attempt with TLS.
_ENDED = "SSL connection closed by peer"


class ClientReports:
    """A client's reports about brokers that it can't use; `hear` is its callback for errors."""

    def __init__(self, bootstrap: str, properties: Mapping[str, object]) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._last: dict[str, str] = {}
        self.is_refused = False

    def forget(self) -> None:
        """Forget all reports."""
        self._last.clear()
        self.is_refused = False

    def hear(self, error: KafkaError) -> None:
        """Keep the reason in the last report about each broker."""
        found = _REPORT.match(error.str())
        if found is not None:
            self._last[found["listener"]] = self._sentence(error, **found.groupdict())
        elif error.code() in _REFUSED:  # the issuer of tokens failed: no broker was asked
            self._last[""] = error.str()
        else:
            return
        self.is_refused |= error.code() in _REFUSED

    def why(self) -> str | None:
        """The last report about a broker, preferably about a listener that Kafka names; None if there is none."""
        return next(iter([*self._own, *self._last.values()]), None)

    @property
    def answers(self) -> bool:
        """Whether Kafka answers, but can't be used by this client."""
        return self.is_refused or bool(self._own)

    @property
    def _own(self) -> list[str]:
        return [why for listener, why in self._last.items() if listener not in self._bootstrap]

    def _sentence(self, error: KafkaError, listener: str, node: str, why: str) -> str:
        if error.code() == KafkaError._AUTHENTICATION:
            user = self._properties.get("sasl.username")
            of_user = f" the user {user!r}" if user else " this user"
            return f"{listener} refuses{of_user}: {why}; check kafka_username and kafka_password"
        if error.code() == KafkaError._SSL:
            return f"no TLS with {listener}: {why}"
        if _ENDED in why:
            return f"no TLS with {listener}: {why}: perhaps it is a PLAINTEXT listener"
        if (connect := _CONNECT.match(why)) is not None:
            why = connect["reason"].lower()  # as `why_no_connection` says it
        return why if node == "bootstrap" else unreachable(self._bootstrap, listener, why)


def unreachable(bootstrap: str, listener: str, why: str) -> str:
    """The sentence about a listener that Kafka names but that can't be reached from here."""
    return (
        f"Kafka answers at {bootstrap} and names {listener} as the address of a broker, which isn't reached from here: "
        f"{why}; set advertised.listeners of the broker to an address that its clients reach"
    )


def check_cluster(bootstrap: str, properties: Mapping[str, object]) -> None:
    """Check that Kafka accepts this client and that a listener that it names can be reached; takes 8 s at most.

    Raises ConfigurationError with one sentence.
    """
    reports = ClientReports(bootstrap, properties)
    own = {"bootstrap.servers": bootstrap, "log_level": 2, "error_cb": reports.hear}
    every: dict[str, Any] = {**properties, **own}
    client = AdminClient(every, logger=CLIENT_LOGGER)
    listeners = _listeners(client, reports, bootstrap)
    if any(each in bootstrap.split(",") for each in listeners):
        return
    with ThreadPoolExecutor(len(listeners) or 1) as threads:
        reasons = list(threads.map(why_no_connection, listeners))
    if listeners and None not in reasons:
        raise ConfigurationError(unreachable(bootstrap, listeners[0], str(reasons[0])))


def _listeners(client: AdminClient, reports: ClientReports, bootstrap: str) -> list[str]:
    deadline_s = time.monotonic() + ANSWER_S
    while True:
        try:
            brokers = client.list_topics(timeout=min(1.0, ANSWER_S)).brokers.values()
        except KafkaException as error:
            client.poll(_POLL_S)
            if reports.is_refused or time.monotonic() > deadline_s:
                reason = reports.why() or error.args[0].str()
                raise ConfigurationError(f"Kafka at {bootstrap} can't be used: {reason}") from error
        else:
            return [f"{each.host}:{each.port}" for each in brokers]


def why_no_connection(address: str) -> str | None:
    """Why nothing listens at HOST:PORT; None if something does."""
    host, _, port = address.rpartition(":")
    return with_connection(host.strip("[]"), int(port), lambda _: None)


def with_connection(host: str, port: int, ask: Callable[[socket.socket], str | None]) -> str | None:
    """The result of `ask` for a connection, or why there is no connection."""
    resolved: list[str] = []
    thread = threading.Thread(target=lambda: resolved.extend(_resolved(host, port)), daemon=True)
    thread.start()  # a name server may take too long
    thread.join(RESOLVE_S)
    if not resolved:
        return f"no host is called '{host}'"
    try:
        with socket.create_connection((resolved[0], port), timeout=CONNECT_S) as connection:
            return ask(connection)
    except TimeoutError:
        return "the host doesn't answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _resolved(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in sorted(found, key=lambda each: each[0] is not socket.AF_INET)]
