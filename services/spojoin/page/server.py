"""The page over HTTP: /, /state.json, and what every service serves: /metrics, /healthz, /readyz; below a path, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import urlsplit

from spojoin.page.settings import PAGE_PREFIX, PageAddress
from spojoin.telemetry.health_server import ThreadServer

TEXT, HTML, JSON = "text/plain; charset=utf-8", "text/html; charset=utf-8", "application/json"
#: the server hangs up on a client that has been silent for this long
IDLE_S_MAX = 10.0


class Response(NamedTuple):
    """What a path gives."""

    status: int
    kind: str
    body: bytes


Answers = Mapping[str, Callable[[], Response]]


class PageServer(ThreadServer):
    """Serves `answers` by path, and also below the address's own path."""

    def __init__(self, address: PageAddress, answers: Answers, policy: str) -> None:
        advice = f"set {PAGE_PREFIX}HOST or {PAGE_PREFIX}PORT"
        handler = _handler(answers, policy, address.path.rstrip("/"))
        super().__init__(address.host, address.port, handler, "the page", advice)


class _Handler(BaseHTTPRequestHandler):
    """Serves GET and HEAD; a child says what it answers."""

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

    def log_message(self, format: str, *args: object) -> None:
        """Pages and probes ask every second: not worth a line."""

    def _answer(self, *, has_body: bool) -> None:
        raise NotImplementedError

    def _send(self, answer: Response, headers: Mapping[str, str], *, has_body: bool) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(answer.body)


def _handler(answers: Answers, policy: str, below: str) -> type[BaseHTTPRequestHandler]:
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }

    class PageHandler(_Handler):
        def _answer(self, *, has_body: bool) -> None:
            asked = urlsplit(self.path).path
            path = asked.removeprefix(below) or "/" if f"{asked}/".startswith(f"{below}/") else asked
            answer = answers.get(path, _unknown)()
            self._send(answer, headers, has_body=has_body)

    def _unknown() -> Response:
        return Response(404, TEXT, f"{', '.join(answers)}\n".encode())

    return PageHandler
