"""Why a Kafka isn't reached, in words: what its client reports, and listeners that it names and nobody reaches."""

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
from spojoin.ports.client_logger import CLIENT_LOGGER

#: So long the brokers have for the first answer, and then the listeners, at once, for a connection.
ANSWER_S, RESOLVE_S, CONNECT_S = 5.0, 1.0, 0.8
_POLL_S = 0.1
#: How librdkafka begins: the listener, which node that is, and what is wrong there.
_REPORT = re.compile(
    r"^(?:\w+://)?(?P<listener>\S+:\d+)/(?P<node>\w+): (?P<why>.+?)(?: \(after \d+ms in state [^)]*\))?$", re.DOTALL
)
_REFUSED = (KafkaError._AUTHENTICATION, KafkaError._SSL)
#: What librdkafka says, besides asking itself, where a listener in the clear has ended an attempt with TLS.
_ENDED = "SSL connection closed by peer"


class ClientReports:
    """What a client reports of brokers that it can't use; `hear` is its callback for errors."""

    def __init__(self, bootstrap: str, properties: Mapping[str, object]) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._last: dict[str, str] = {}
        self.is_refused = False

    def forget(self) -> None:
        """Begin anew."""
        self._last.clear()
        self.is_refused = False

    def hear(self, error: KafkaError) -> None:
        """Keep why, the last of each broker."""
        found = _REPORT.match(error.str())
        if found is not None:
            self._last[found["listener"]] = self._sentence(error, **found.groupdict())
        elif error.code() in _REFUSED:  # by whom tokens are had: no broker was asked
            self._last[""] = error.str()
        else:
            return
        self.is_refused |= error.code() in _REFUSED

    def why(self) -> str | None:
        """The last report of a broker, first those that name a listener of Kafka's own; None where there is none."""
        return next(iter([*self._own, *self._last.values()]), None)

    @property
    def answers(self) -> bool:
        """Whether Kafka does answer, and yet is of no use to this client."""
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
        return why if node == "bootstrap" else unreachable(self._bootstrap, listener, why)


def unreachable(bootstrap: str, listener: str, why: str) -> str:
    """The sentence about a listener that Kafka names, and nobody reaches from here."""
    return (
        f"Kafka answers at {bootstrap} and names {listener} as the address of a broker, which isn't reached from here: "
        f"{why}; set advertised.listeners of the broker to an address that its clients reach"
    )


def check_cluster(bootstrap: str, properties: Mapping[str, object]) -> None:
    """Return where Kafka takes this client and one of the listeners that it names is reached, after 8 s at most.

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
    """Why nothing listens at HOST:PORT; None where something does."""
    host, _, port = address.rpartition(":")
    return with_connection(host.strip("[]"), int(port), lambda _: None)


def with_connection(host: str, port: int, ask: Callable[[socket.socket], str | None]) -> str | None:
    """What `ask` says of a connection; or why there is none."""
    resolved: list[str] = []
    thread = threading.Thread(target=lambda: resolved.extend(_resolved(host, port)), daemon=True)
    thread.start()  # a name server may take longer than anybody waits
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
