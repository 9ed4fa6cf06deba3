"""Serves a process's /metrics over HTTP, and whether the process is alive and ready."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Clock

#: how long a stop may wait for the server's thread to notice it
POLL_S = 0.1


class ThreadServer:
    """Serves until it is closed; `port` is the port it was given.

    what, advice: parts of the error message if the port can't be used. Raises ConfigurationError.
    """

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler], what: str, advice: str) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise ConfigurationError(f"{what} can't be served on {host}:{port} ({error.strerror}): {advice}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name=what, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Health:
    """The loop's report about itself; the loop writes it, and the server's threads read it.

    refusal: why the service goes on with another query than the one it was given, or with none; empty if it doesn't
    """

    def __init__(self, clock: Clock, stall_ms_max: int) -> None:
        self.is_ready = False
        self.waits_for = "start"
        self.refusal = ""
        self._clock = clock
        self._stall_ms_max = stall_ms_max
        self._ticked_ms = clock.monotonic_ms()

    def tick(self) -> None:
        """The loop has completed a turn."""
        self._ticked_ms = self._clock.monotonic_ms()

    def live(self) -> tuple[bool, str]:
        """Whether the loop completed a turn lately, and a sentence."""
        age_ms = self._clock.monotonic_ms() - self._ticked_ms
        return age_ms <= self._stall_ms_max, f"the loop came round {age_ms:.0f} ms ago"

    def ready(self) -> tuple[bool, str]:
        """Whether the service has caught up and is alive, and a sentence."""
        is_live, said = self.live()
        if not is_live:
            return False, said
        if not self.is_ready:
            return False, f"waiting: {self.waits_for}"
        return True, f"caught up, with another query: {self.refusal}" if self.refusal else "caught up"


class HealthServer(ThreadServer):
    """Serves /metrics, /healthz and /readyz."""

    def __init__(self, host: str, port: int, health: Health, registry: CollectorRegistry) -> None:
        super().__init__(host, port, _handler(health, registry), "metrics", "set metrics_host or metrics_port")


def _handler(health: Health, registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class HealthHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif self.path in ("/healthz", "/readyz"):
                is_good, said = health.live() if self.path == "/healthz" else health.ready()
                self._answer(200 if is_good else 503, "text/plain; charset=utf-8", f"{said}\n".encode())
            else:
                self._answer(404, "text/plain; charset=utf-8", b"/metrics, /healthz or /readyz\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing, since probes come every second."""

    return HealthHandler
