"""Checks quickly, with plain errors, whether Kafka or Redis answers at an address, before a client tries for long."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from spojoin.errors import ConfigurationError
from spojoin.ports.kafka_reach import check_cluster, with_connection

#: Together with the time to connect, less than the three seconds after which users should see a mistake.
ANSWER_S = 1.0
KAFKA_PORT, REDIS_PORT = 9092, 6379
_ADDRESS = re.compile(r"\[?(?P<host>[^\[\]\s]+?)\]?:(?P<port>\d{1,5})")
_SIZE = struct.Struct(">i")
#: The first request to Kafka, ApiVersions 0, with the number 7, which the answer repeats.
_QUESTION = struct.pack(">hhih", 18, 0, 7, -1)

LISTENS = "what listens there"


class NotThere(ConfigurationError):
    """Nothing listens."""


def check_kafka(
    bootstrap: str, properties: Mapping[str, object] = {}, option: str = "--bootstrap", *, believes: bool = True
) -> None:
    """Check that one of the brokers answers. Raises ConfigurationError with one sentence.

    properties: those of Kafka's clients, which say whether to use TLS; option: the option that names the brokers
    believes: whether a broker that listens but is silent for a second counts as busy
    """
    addresses = [_address(each.strip(), bootstrap, option) for each in bootstrap.split(",")]
    is_clear = str(properties.get("security.protocol", "plaintext")).lower() in ("plaintext", "sasl_plaintext")
    reasons = []
    for host, port in addresses:
        reason = _why_silent(host, port, _KAFKA if is_clear else None, believes=believes)
        if reason is None:
            return
        reasons.append(reason)
    kind = ConfigurationError if any(LISTENS in each for each in reasons) else NotThere
    raise kind(f"no Kafka answers at {bootstrap}: {reasons[0]}; start it, or name another by {option}")


def check_kafka_takes(bootstrap: str, properties: Mapping[str, object] = {}, option: str = "--bootstrap") -> None:
    """Like `check_kafka`, but also check that the brokers accept this client and can be reached at their own addresses.

    Takes 11 s at most.
    """
    check_kafka(bootstrap, properties, option)
    check_cluster(bootstrap, properties)


def check_redis(url: str, option: str = "--redis", *, believes: bool = True) -> None:
    """Check that Redis answers, unless the address is a socket's path. Raises ConfigurationError with one sentence."""
    check_redis_address(url, option)
    parts = urlsplit(url)
    if not parts.hostname:  # a socket's path
        return
    port, asked = parts.port or REDIS_PORT, _REDIS if parts.scheme == "redis" else None
    if (reason := _why_silent(parts.hostname, port, asked, believes=believes)) is not None:
        where = f"{parts.hostname}:{port}"
        raise ConfigurationError(f"no Redis answers at {where}: {reason}; start it, or name another by {option}")


def check_redis_address(url: str, option: str = "--redis") -> None:
    """Raise ConfigurationError if `url` isn't an address of Redis; the error hides it, since it may hold a password."""
    parts, is_port = urlsplit(url), True
    try:
        parts.port  # noqa: B018  (reads it)
    except ValueError:
        is_port = False
    if not (parts.scheme == "unix" or (parts.scheme in ("redis", "rediss") and parts.hostname and is_port)):
        raise ConfigurationError(f"{option}: expected an address such as redis://127.0.0.1:{REDIS_PORT}/0")


def _address(text: str, whole: str, option: str) -> tuple[str, int]:
    if "://" in text and not text.upper().startswith(("PLAINTEXT://", "SSL://", "SASL_")):
        bare = text.split("://", 1)[1].rstrip("/")
        raise ConfigurationError(
            f"{option} {whole}: Kafka isn't reached by HTTP or the like: expected HOST:PORT, such as {bare}"
        )
    found = _ADDRESS.fullmatch(text.split("://", 1)[-1])
    if found is None or int(found["port"]) > 65_535:
        host = text.split(":", maxsplit=1)[0] or "localhost"
        raise ConfigurationError(f"{option} {whole}: expected HOST:PORT, such as {host}:{KAFKA_PORT}")
    return found["host"], int(found["port"])


def _why_silent(host: str, port: int, asked: _Protocol | None, *, believes: bool) -> str | None:
    """Why nothing answers; None if something does. asked: the protocol that must answer; None with TLS."""

    def ask(connection: socket.socket) -> str | None:
        connection.settimeout(ANSWER_S)
        return None if asked is None else asked.why_not(connection, believes=believes)

    return with_connection(host, port, ask)


@dataclass(frozen=True, slots=True)
class _Protocol:
    """A request to a server, and the bytes of the answer, which a server that needs a login gives too."""

    name: str
    question: bytes
    is_answer: Callable[[bytes], bool]
    bytes: int

    def why_not(self, connection: socket.socket, *, believes: bool) -> str | None:
        """Why the server isn't the expected one; a busy server may be silent for longer, if `believes` allows it."""
        try:
            connection.sendall(self.question)
            answer = connection.recv(self.bytes, socket.MSG_WAITALL)
        except TimeoutError:
            return None if believes else "it is silent"
        except OSError:
            answer = b""
        return None if self.is_answer(answer) else f"{LISTENS} isn't {self.name}, or expects TLS"


_KAFKA = _Protocol("Kafka", _SIZE.pack(len(_QUESTION)) + _QUESTION, lambda got: got[4:] == _SIZE.pack(7), 8)
_REDIS = _Protocol("Redis", b"PING\r\n", lambda got: got in (b"+", b"-"), 1)
