"""Free ports and waiting for servers."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from spojoin.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
SERVER_PORTS = (10_240, 32_768)
#: The ports given last, since servers may not listen on them yet.
_given: deque[int] = deque(maxlen=4_096)

#: texts in a server's log -> the sentences that explain them
_CAUSES = (
    ("Address already in use", "{name}'s port {port} is in use: stop what holds it or choose another port"),
    ("No space left on device", "the disk is full: {name} needs room in {folder}"),
    ("OutOfMemoryError", "{name} ran out of memory: close other programs"),
)


def free_port() -> int:
    """A port of this machine that is free, and wasn't given before, as far as is remembered.

    It is below the ports that systems assign to clients; otherwise a client might take it before the server does.
    """
    while True:
        port = random.randrange(*SERVER_PORTS)
        with socket.socket() as probe:
            if port not in _given and _can_bind(probe, port):
                _given.append(port)
                return port


def _can_bind(probe: socket.socket, port: int) -> bool:
    try:
        probe.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def require_free(name: str, port: int) -> None:
    """Raise ConfigurationError if a process listens on `port`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            text = f"{name}'s port {port} is in use: stop what holds it or choose another port"
            raise ConfigurationError(text) from error


class Server(NamedTuple):
    """A started process, the port on which it should listen, and the file for its output."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path


def wait_until_up(server: Server, is_up: Callable[[], bool], timeout_s: float) -> None:
    """Wait for a server; raise ConfigurationError with the cause if it ends or takes longer than `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not is_up():
        if server.process.poll() is not None:
            raise ConfigurationError(cause(server))
        if time.monotonic() > deadline:
            raise ConfigurationError(f"{server.name} did not answer within {timeout_s:.0f} s: its log is {server.log}")
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether something accepts connections on `port` of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def cause(server: Server, when: str = "ended while it started") -> str:
    """Why a server has ended, according to its log; `when` precedes the log's last lines."""
    text = server.log.read_text(errors="replace")
    for sign, sentence in _CAUSES:
        if sign in text:
            return sentence.format(name=server.name, port=server.port, folder=server.log.parent)
    status, last = server.process.poll(), text.strip().splitlines()[-1:]
    if status is not None and status < 0:
        return f"{server.name} {when}, by {signal.Signals(-status).name}"
    return f"{server.name} {when}: {last[0].strip()}" if last else f"{server.name} {when} without a word"
