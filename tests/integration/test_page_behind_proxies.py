"""The page below a path, behind a reverse proxy that strips the path or keeps it, and one that requires a login."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import is_ready
from spojoin.query.load import load_query
from tests.support.browser import dom_at, needs_chromium

pytestmark = [pytest.mark.integration, needs_chromium]

PREFIX = "/joins"
PATIENCE_S = 60
QUERY = """
name: NAME
streams: {racks: {schema: {draw: double, cooling: double}, key: rack}}
sql: SELECT * FROM racks AS l JOIN racks AS r ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '1K' ON '20K')
"""


class Proxy(ThreadingHTTPServer):
    """Shows a server only below PREFIX, and records requests."""

    def __init__(self, inner: str, *, strips: bool) -> None:
        super().__init__((LOOPBACK, 0), Passing)
        self.inner = inner
        self.strips = strips
        self.needs_login = False
        self.asked: list[tuple[str, int]] = []

    @property
    def outer(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"


class Passing(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        if not f"{self.path}/".startswith(f"{PREFIX}/"):
            return self._say(404, b"another application")
        if self.server.needs_login and self.path.endswith("state.json"):
            return self._say(302, b"", ("Location", "http://login.example/"))
        path = (self.path.removeprefix(PREFIX) or "/") if self.server.strips else self.path
        try:
            with urllib.request.urlopen(f"{self.server.inner}{path}", timeout=30) as answer:
                return self._say(answer.status, answer.read(), *answer.headers.items())
        except urllib.error.HTTPError as error:
            return self._say(error.code, error.read())

    def _say(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.server.asked.append((self.path, status))
        self.send_response(status)
        for name, value in headers:
            if name not in ("Server", "Date"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def proxied(inner: str, *, strips: bool) -> Iterator[Proxy]:
    with Proxy(inner, strips=strips) as proxy:
        thread = Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


@pytest.fixture
def page(cluster: LocalCluster, tmp_path: Path, unique: str) -> Iterator[str]:
    """The page's own process, configured with the path as by the chart; yields its address."""
    query_file = tmp_path / "query.yaml"
    query_file.write_text(QUERY.replace("NAME", f"proxied-{unique}"))
    broker, redis = cluster.broker.bootstrap, cluster.redis.url
    services = services_of(Deployment(load_query(query_file), query_file, broker, redis, 1, {}))
    port = free_port()
    place = {"SPOJOIN_PAGE_PORT": str(port), "SPOJOIN_PAGE_HOST": LOOPBACK, "SPOJOIN_PAGE_PATH": PREFIX}
    command = [sys.executable, "-m", "spojoin.page"]
    process = cluster.children.start(command, tmp_path / "page.log", {**services[0].environment, **place})
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not is_ready(port):
            assert time.monotonic() < deadline, (tmp_path / "page.log").read_text()
            time.sleep(0.1)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        assert process.wait(15) == 0, (tmp_path / "page.log").read_text()
        cluster.children.forget(process)


def health(dom: str) -> str:
    return dom.split('id="health-text">', 1)[1].split("<", 1)[0]


def is_stale(dom: str) -> bool:
    return 'class="stale"' in dom


@pytest.mark.parametrize(("strips", "slash"), [(True, ""), (False, "/"), (True, "/?from=a-bookmark")])
def test_the_page_works_below_a_path(page: str, tmp_path: Path, strips: bool, slash: str) -> None:
    with proxied(page, strips=strips) as proxy:
        dom = dom_at(f"{proxy.outer}{PREFIX}{slash}", tmp_path)
    assert not is_stale(dom)
    assert health(dom) not in ("asking", "state unknown")
    assert {path for path, _ in proxy.asked} == {f"{PREFIX}{slash}", f"{PREFIX}/state.json"}
    assert {status for _, status in proxy.asked} == {200}


def test_a_login_that_has_ended_is_said(page: str, tmp_path: Path) -> None:
    with proxied(page, strips=False) as proxy:
        proxy.needs_login = True
        dom = dom_at(f"{proxy.outer}{PREFIX}/", tmp_path)
    assert is_stale(dom)
    assert "the login has ended: reload the page" in dom.split('id="troubles"', 1)[1].split("</div>")[0]
