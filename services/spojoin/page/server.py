"""The page over HTTP: /, /state.json, and what every service serves: /metrics, /healthz, /readyz."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from spojoin.errors import ConfigurationError
from spojoin.page.settings import PAGE_PREFIX
from spojoin.runtime.health import POLL_S

TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"
#: a client that says nothing for so long is left
IDLE_S_MAX = 10.0


class Answer(NamedTuple):
    """What a path gives."""

    status: int
    kind: str
    body: bytes


Answers = Mapping[str, Callable[[], Answer]]


class PageServer:
    """Serves `answers` by path, from threads, until it is closed; `port` is the one it got."""

    def __init__(self, host: str, port: int, answers: Answers, policy: str) -> None:
        try:
            self._server = ThreadingHTTPServer((host, port), _handler(answers, policy))
        except OSError as error:
            raise ConfigurationError(
                f"the page can't be served on {host}:{port} ({error.strerror}): "
                f"set {PAGE_PREFIX}HOST or {PAGE_PREFIX}PORT"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _handler(answers: Answers, policy: str) -> type[BaseHTTPRequestHandler]:
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_S_MAX
        server_version = "spojoin"
        sys_version = ""

        def do_GET(self) -> None:
            self._answer(has_body=True)

        def do_HEAD(self) -> None:
            self._answer(has_body=False)

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                self.close_connection = True  # the client has left, as people do who close the page

        def _answer(self, *, has_body: bool) -> None:
            answer = answers.get(urlsplit(self.path).path, _unknown)()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if has_body:
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Pages and probes ask every second: not worth a line."""

    def _unknown() -> Answer:
        return Answer(404, TEXT, f"{', '.join(answers)}\n".encode())

    return Handler
