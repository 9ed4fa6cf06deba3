"""The page over a real broker, Redis and all services, as headless Chromium renders it."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pytest
from confluent_kafka import Producer

from spojoin.local.cluster import LocalCluster
from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.services import Deployment, services_of
from spojoin.local.supervise import Supervisor, is_ready
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import TOPOLOGY, Hop, input_topic
from spojoin.query.load import load_query
from spojoin.telemetry.hop import IN_TURN
from tests.support.browser import chromium, dom_at, needs_chromium

pytestmark = pytest.mark.integration

PATIENCE_S = 300
#: rows a second: a small load, since the services need the cores
PACE = 4_000
BURSTS_PER_S = 20
#: markup that the page must show as text and never run
HOSTILE = "<img src=x onerror=document.title='owned'>"

QUERY = """
name: NAME
streams:
  racks:
    schema: {draw: double, cooling: double}
    key: rack
sql: |
  SELECT * FROM racks AS l JOIN racks AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '1K' ON '20K')
output: count
"""

SCREEN = ("--window-size=1280,1270",)

T = TypeVar("T")


def until(what: str, found: Callable[[], T]) -> T:
    """Poll `found` and return its first true answer."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := found()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(0.2)
    return answer


class Feed:
    """Sends racks' readings until stopped, with some unusable ones and a key that looks like HTML."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.is_hostile = True
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        rng = np.random.default_rng(3)
        number = 0
        while not self._stop.wait(1 / BURSTS_PER_S):
            for draw, cooling in rng.normal((4.2, 18.0), (1.1, 2.5), (PACE // BURSTS_PER_S, 2)).round(2).tolist():
                number += 1
                self._send(draw, cooling, number)
            if number % (2 * PACE) == 0:
                self._send("much", 17.5, 0)
            self._producer.poll(0)
        self._producer.flush(10)

    def _send(self, draw: object, cooling: float, number: int) -> None:
        key = HOSTILE if self.is_hostile and number % 10 == 0 else f"rack-{number % 997:03}"
        self._producer.produce(self._topic, orjson.dumps({"draw": draw, "cooling": cooling, "rack": key}))


@contextmanager
def served(cluster: LocalCluster, folder: Path, name: str) -> Iterator[tuple[Supervisor, str, Feed]]:
    """All services of a query and its page, under load; yields the page's address and the load."""
    query_file = folder / "query.yaml"
    query_file.write_text(QUERY.replace("NAME", name))
    query = load_query(query_file)
    topic = f"{name}.{input_topic('racks')}"
    KafkaLog(KafkaConfig(cluster.broker.bootstrap)).create_topics({topic: 1, f"{topic}.dlq": 1})
    inputs = {"input_topics": orjson.dumps({"racks": topic}).decode()}
    services = services_of(Deployment(query, query_file, cluster.broker.bootstrap, cluster.redis.url, 2, inputs))
    environment = services[0].environment  # the page takes a service's settings and an address to listen on
    port = free_port()
    feed = Feed(cluster.broker.bootstrap, topic)
    with Supervisor(cluster.children, folder / "logs") as supervisor:
        supervisor.start(services)
        place = {"SPOJOIN_PAGE_PORT": str(port), "SPOJOIN_PAGE_HOST": LOOPBACK}
        page = [sys.executable, "-m", "spojoin.page"]
        process = cluster.children.start(page, folder / "page.log", {**environment, **place})
        try:
            supervisor.wait_ready()
            until("the page", lambda: is_ready(port))
            feed.start()
            yield supervisor, f"http://{LOOPBACK}:{port}/", feed
        finally:
            feed.close()
            process.terminate()
            assert process.wait(15) == 0, (folder / "page.log").read_text()
            cluster.children.forget(process)


def state_at(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}state.json", timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def keep_screenshot(address: str, folder: Path, feed: Feed) -> None:
    """Save a screenshot with ordinary keys for the documentation; PAGE_SCREENSHOT names the file."""
    wanted = os.environ.get("PAGE_SCREENSHOT")
    if wanted:
        feed.is_hostile = False
        until("ordinary keys", lambda: HOSTILE not in str(state_at(address)["results"]))
        chromium(folder, f"--screenshot={Path(wanted).resolve()}", "--hide-scrollbars", *SCREEN, address)


def group(dom: str, node: str) -> str:
    """A node of the picture with its tags."""
    found = re.search(rf'<g [^>]*id="{node}".*?</g>', dom, re.DOTALL)
    assert found, f"the picture has no {node}"
    return found[0]


def rate_in(text: str, unit: str) -> float:
    found = re.search(rf">([\d,.]+){unit}<", text)
    assert found, f"no rate in {text}"
    return float(found[1].replace(",", ""))


def is_flowing(state: dict[str, Any]) -> bool:
    roles = state["roles"]
    is_moving = all(
        role["records_per_s"] for name, role in roles.items() if role["state"] == "ready" and name != "controller"
    )
    has_news = bool(state["results"]["rows"]) and bool(state["dead_letters"])
    is_moving &= {hop["hop"] for hop in state["hops"]} == set(Hop)
    return is_moving and has_news and state["windows"][0]["tuples"] == state["windows"][0]["tuples_max"]


@needs_chromium
def test_the_page_as_people_see_it(cluster: LocalCluster, tmp_path: Path, unique: str) -> None:
    with served(cluster, tmp_path, f"racks-{unique}") as (supervisor, address, feed):
        state = until("a flow, a full window, results and dead letters", lambda: flowing(address))
        check_flow(state, dom_at(address, tmp_path))
        keep_screenshot(address, tmp_path, feed)
        os.kill(supervisor.pids()["pojoin-1"], signal.SIGKILL)
        until("a worker that is gone", lambda: state_at(address)["roles"]["pojoin"]["state"] == "gone")
        pojoin = group(dom_at(address, tmp_path), "role-pojoin")
        assert 'data-state="gone"' in pojoin
        assert ">gone<" in pojoin
        assert ">1 of 2 up, 2 × 1<" in pojoin


def flowing(address: str) -> dict[str, Any] | None:
    state = state_at(address)
    return state if state["results"] and is_flowing(state) else None


def check_flow(state: dict[str, Any], dom: str) -> None:
    assert state["troubles"] == []
    for edge in TOPOLOGY:
        drawn = group(dom, f"role-{edge.role.value}")
        assert f">{edge.role.value}<" in drawn
        if state["roles"][edge.role.value]["state"] != "off":
            assert 'data-state="ready"' in drawn
    assert rate_in(group(dom, "role-router"), " tuples/s") > 0
    assert rate_in(group(dom, "role-sink"), " tuples/s") > 0
    for topic in ("input", "frames", "partials", "matches", "results"):
        assert rate_in(group(dom, f"topic-{topic}"), "/s") > 0
    check_hops(state["hops"], dom)
    assert "all" in dom[dom.index('id="health-text"') :][:60]
    results = dom[dom.index('id="results"') : dom.index('id="results-note"')]
    assert len(re.findall("<tr>", results)) == 1 + 20
    assert html.escape(HOSTILE, quote=False) in results
    letters = dom[dom.index('id="letters"') : dom.index('id="letters-note"')]
    assert "draw" in letters
    assert html.escape(HOSTILE, quote=False) in letters
    assert not re.search(r">\s*<img", dom)
    assert "<title>owned" not in dom


def check_hops(hops: list[dict[str, Any]], dom: str) -> None:
    """Check that every hop of answered rows has a time, and that consecutive hops add up to the total."""
    by_name = {hop["hop"]: hop for hop in hops}
    assert sum(by_name[hop]["share"] for hop in IN_TURN) == pytest.approx(1)
    assert all(0 <= hop["p50_ms"] <= hop["p99_ms"] for hop in hops)
    assert by_name["search"]["services"] == 2
    table = dom[dom.index('id="hops-table"') : dom.index('id="hops-note"')]
    assert all(f">{hop}</span>" in table for hop in Hop)
    assert 'data-hop="evaluation"' in dom[dom.index('id="hops-bar"') : dom.index('id="hops-table"')]
