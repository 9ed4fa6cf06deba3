"""Whether a Kafka or a Redis answers where somebody says that it is: in plain words, before a client tries for long."""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from spojoin.errors import ConfigurationError

#: Both together stay below the three seconds that a mistake may take.
RESOLVE_S, CONNECT_S, ANSWER_S = 1.0, 0.8, 1.0
KAFKA_PORT, REDIS_PORT = 9092, 6379
_ADDRESS = re.compile(r"\[?(?P<host>[^\[\]\s]+?)\]?:(?P<port>\d{1,5})")
_SIZE = struct.Struct(">i")
#: Kafka's first question, ApiVersions 0, with the number 7, which comes back with the answer.
_QUESTION = struct.pack(">hhih", 18, 0, 7, -1)


def check_kafka(bootstrap: str, properties: Mapping[str, object] = {}, option: str = "--bootstrap") -> None:
    """Return where one of the brokers answers. Raises ConfigurationError with one sentence.

    properties: of Kafka's clients, which say whether it is spoken to in the clear; option: what named the brokers
    """
    addresses = [_address(each.strip(), bootstrap, option) for each in bootstrap.split(",")]
    is_clear = str(properties.get("security.protocol", "plaintext")).lower() in ("plaintext", "sasl_plaintext")
    reasons = []
    for host, port in addresses:
        reason = _why_silent(host, port, asks=is_clear)
        if reason is None:
            return
        reasons.append(reason)
    raise ConfigurationError(f"no Kafka answers at {bootstrap}: {reasons[0]}; start it, or name another by {option}")


def check_redis(url: str, option: str = "--redis") -> None:
    """Return where something listens. Raises ConfigurationError with one sentence."""
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        return  # a socket's path, or a mistake that the client names
    try:
        port = parts.port or REDIS_PORT
    except ValueError:
        return
    if (reason := _why_silent(parts.hostname, port, asks=False)) is not None:
        where = f"{parts.hostname}:{port}"
        raise ConfigurationError(f"no Redis answers at {where}: {reason}; start it, or name another by {option}")


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


def _why_silent(host: str, port: int, *, asks: bool) -> str | None:
    """Why nothing answers; None where something does. asks: whether it must answer as a Kafka without TLS."""
    resolved: list[str] = []
    thread = threading.Thread(target=lambda: resolved.extend(_resolved(host, port)), daemon=True)
    thread.start()  # a name server may take longer than anybody waits
    thread.join(RESOLVE_S)
    if not resolved:
        return f"no host is called '{host}'"
    try:
        with socket.create_connection((resolved[0], port), timeout=CONNECT_S) as connection:
            connection.settimeout(ANSWER_S)
            return None if not asks or _is_kafka(connection) else "what listens there isn't Kafka, or expects TLS"
    except TimeoutError:
        return "the host doesn't answer"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else str(error)


def _resolved(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in sorted(found, key=lambda each: each[0] is not socket.AF_INET)]


def _is_kafka(connection: socket.socket) -> bool:
    """A Kafka that needs a login answers this as well. A busy one may be silent for longer: it is believed."""
    try:
        connection.sendall(_SIZE.pack(len(_QUESTION)) + _QUESTION)
        answer = connection.recv(8, socket.MSG_WAITALL)
    except TimeoutError:
        return True
    except OSError:
        return False
    return len(answer) == 8 and answer[4:] == _SIZE.pack(7)
