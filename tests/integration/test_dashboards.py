"""All services under load, scraped by a real Prometheus: every panel returns data, every alert can fire."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer

from helm.tables.alerts import ALERTS
from helm.tables.dashboards import DASHBOARDS
from helm.tables.expressions import filled
from helm.tables.files import files
from loadgen.check.verdict import Verdict, publish
from spojoin.local.cluster import LocalCluster, local_cluster
from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.services import Deployment
from spojoin.local.supervise import Service, Supervisor
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.query.load import load_query
from tests.support.predictors import services_and_predictor

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus isn't on PATH (Debian: apt-get install prometheus)"
    ),
]

NAME, TOPIC = "watched", "in.watched"
CHART = Path(__file__).parents[2] / "helm" / "spojoin"
QUERY = f"""
name: {NAME}
streams:
  readings: {{schema: {{draw: double, cooling: long}}, key: id}}
sql: |
  SELECT * FROM readings AS l JOIN readings AS r
  ON l.draw < r.draw AND l.cooling >= r.cooling
  WINDOW AS (SLIDE INTERVAL '2K' ON '8K')
output: count
"""
#: Small frames and batches, so that batches are sealed, merged and searched within seconds, and plans are made.
SIZES = {"frame_tuples": "256", "batch_tuples": "250"}
MESSAGE_ROWS, MESSAGE_S = 100, 0.04
#: Each message carries one refused row.
BAD_ROW = orjson.dumps({"draw": "much", "cooling": 1, "id": 0})

#: The variables that Grafana fills in, except the role.
VARIABLES = {"namespace": ".*", "release": ".*", "query": NAME, "__rate_interval": "10s", "__range": "1m"}
#: Liveness bounds, far from what is normal.
START_S, PATIENCE_S = 60, 90


class Prometheus:
    """A Prometheus server that only this test uses, queried over its API."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"http://{LOOPBACK}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def query(self, expression: str) -> list[float]:
        """The values of all series; fails if the expression doesn't parse."""
        answer = self.get("query", query=expression)
        assert answer["status"] == "success", f"{expression}: {answer}"
        return [float(series["value"][1]) for series in answer["data"]["result"]]

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False


@dataclass(frozen=True)
class Watched:
    """The running services and the Prometheus that watches them."""

    prometheus: Prometheus
    cluster: LocalCluster
    supervisor: Supervisor
    services: list[Service]


def until(what: str, found: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + patience_s
    while not (result := found()):
        assert time.monotonic() < deadline, f"{what} did not come within {patience_s} s"
        time.sleep(0.25)
    return result


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    query_file = folder / "query.yaml"
    query_file.write_text(QUERY)
    with local_cluster() as cluster, Supervisor(cluster.children, folder / "logs") as supervisor:
        bootstrap, redis_url = cluster.broker.bootstrap, cluster.redis.url
        KafkaLog(KafkaConfig(bootstrap)).create_topics({TOPIC: 2, f"{TOPIC}.dlq": 1})
        extra = {**SIZES, "input_topics": orjson.dumps({"readings": TOPIC}).decode()}
        deployment = Deployment(load_query(query_file), query_file, bootstrap, redis_url, 2, extra)
        services = services_and_predictor(deployment)
        supervisor.start(services)
        prometheus = start_prometheus(cluster, folder, [service.port for service in services])
        supervisor.wait_ready()
        publish(Verdict(NAME, rows_expected=8, rows_right=8), redis_url)
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=(bootstrap, stop), daemon=True)
        feeder.start()
        try:
            yield Watched(prometheus, cluster, supervisor, services)
        finally:
            stop.set()
            feeder.join()


def start_prometheus(cluster: LocalCluster, folder: Path, ports: list[int]) -> Prometheus:
    targets = [f"{LOOPBACK}:{port}" for port in ports]
    (folder / "rules.yaml").write_text(files(CHART)["alerts/rules.yaml"])
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "spojoin", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    server = Prometheus(free_port())
    log = folder / "prometheus.log"
    process = cluster.children.start(
        [
            str(shutil.which("prometheus")),
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address={LOOPBACK}:{server.port}",
        ],
        log,
    )

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        return server.is_up()

    until("Prometheus", is_up, START_S)
    return server


def feed(bootstrap: str, stop: threading.Event) -> None:
    """Send a steady stream of Arrow messages, each followed by a refused row; some values are hot."""
    producer = Producer({"bootstrap.servers": bootstrap})
    rng = np.random.default_rng(5)
    for number in itertools.count():
        producer.produce(TOPIC, message(rng, number * MESSAGE_ROWS), partition=number % 2)
        producer.produce(TOPIC, BAD_ROW, partition=number % 2)
        producer.poll(0)
        if stop.wait(MESSAGE_S):
            break
    producer.flush(10)


def message(rng: np.random.Generator, first: int) -> bytes:
    cooling = np.where(rng.random(MESSAGE_ROWS) < 0.2, 7, rng.integers(0, 2**40, MESSAGE_ROWS))
    ids = np.arange(first, first + MESSAGE_ROWS)
    batch = pa.record_batch({"draw": rng.random(MESSAGE_ROWS), "cooling": cooling, "id": ids})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def asked(roles: list[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(dashboard and panel, expression, variables) of every series of every panel, once per role if it names one."""
    for board in DASHBOARDS:
        for panel in board.panels:
            for series in panel.series:
                of_roles = roles if "$role" in series.expression else [""]
                for role in of_roles:
                    yield f"{board.uid} / {panel.title}", series.expression, {**VARIABLES, "role": role}


def without_data(prometheus: Prometheus, roles: list[str]) -> list[str]:
    """Panels with an expression that yields no series, or no number for any role."""
    missing, numbers = [], {}
    for panel, expression, values in asked(roles):
        found = prometheus.query(filled(expression, values))
        if not found:
            missing.append(f"{panel}: {filled(expression, values)}")
        numbers.setdefault((panel, expression), []).extend(value for value in found if math.isfinite(value))
    return [*missing, *(f"{panel}: {expression} is no number" for (panel, expression), n in numbers.items() if not n)]


def firing(prometheus: Prometheus) -> set[str]:
    """Alerts whose expression yields a series now, even if they are still pending."""
    return {alert.name for alert in ALERTS if alert.expression and prometheus.query(alert.expression)}


def missing(prometheus: Prometheus) -> set[str]:
    """The services that SpojoinServiceGone names."""
    (alert,) = [alert for alert in ALERTS if alert.name == "SpojoinServiceGone"]
    found = prometheus.get("query", query=alert.expression)["data"]["result"]
    return {series["metric"]["needed"] for series in found}


def test_every_panel_returns_data(watched: Watched) -> None:
    roles = until("all roles", lambda: len(found := watched.prometheus.get("label/role/values")["data"]) >= 7 and found)
    missing: list[str] = ["not asked yet"]
    deadline = time.monotonic() + PATIENCE_S
    while missing and time.monotonic() < deadline:
        watched.supervisor.tend()
        time.sleep(2)
        missing = without_data(watched.prometheus, roles)
    assert not missing, "\n".join(missing)


def test_dashboard_variables_have_values(watched: Watched) -> None:
    """Queries as `label_values` does; only Kubernetes provides namespace and release."""
    for variable in DASHBOARDS[1].variables:
        if not variable.has_all:
            series = filled(variable.series, VARIABLES)
            found = watched.prometheus.get(f"label/{variable.name}/values", **{"match[]": series})
            assert found["data"], variable


def test_prometheus_accepts_all_rules_and_only_the_dead_letters_fire(watched: Watched) -> None:
    def evaluated() -> list[dict[str, Any]] | None:
        (group,) = watched.prometheus.get("rules")["data"]["groups"]
        rules = group["rules"]
        return rules if all(rule["health"] != "unknown" for rule in rules) else None

    rules = until("an evaluation of all rules", evaluated)
    assert [(rule["name"], rule["health"], rule.get("lastError", "")) for rule in rules] == [
        (alert.name, "ok", "") for alert in ALERTS if alert.expression
    ]
    # On a busy machine services fall behind for a moment, and an alert that is meant to wait is pending.
    until("the dead letters alone", lambda: firing(watched.prometheus) == {"SpojoinDeadLetters"})


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't on PATH; it comes with prometheus")
def test_metrics_follow_the_conventions(watched: Watched) -> None:
    for service in watched.services:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{service.port}/metrics", timeout=30) as answer:
            exposition = answer.read()
        linted = subprocess.run(["promtool", "check", "metrics"], input=exposition, capture_output=True, check=False)
        assert linted.returncode == 0, f"{service.name}: {linted.stdout.decode()}{linted.stderr.decode()}"


def test_a_check_that_finds_too_little_fires(watched: Watched) -> None:
    publish(Verdict(NAME, rows_expected=8, rows_right=6), watched.cluster.redis.url)
    until("the alert", lambda: "SpojoinCompletenessBelowOne" in firing(watched.prometheus))
    assert watched.prometheus.query('spojoin_completeness_ratio{role="sink"}') == [0.75]


@pytest.mark.skipif("REDIS_URL" in os.environ, reason="the Redis that REDIS_URL names is not this test's to kill")
def test_a_dead_redis_fires(watched: Watched) -> None:
    watched.cluster.redis.kill()
    until("the alert", lambda: "SpojoinRedisGone" in firing(watched.prometheus))


def test_a_dead_worker_fires_by_its_name(watched: Watched) -> None:
    os.kill(watched.supervisor.pids()["pojoin-1"], signal.SIGKILL)
    until("the worker's alert", lambda: missing(watched.prometheus) == {"pojoin-1"})


def test_a_dead_predictor_and_a_dead_sink_fire(watched: Watched) -> None:
    pids = watched.supervisor.pids()
    os.kill(pids["predictor"], signal.SIGKILL)
    until("the predictor's alert", lambda: "SpojoinPredictorGone" in firing(watched.prometheus))
    os.kill(pids["sink"], signal.SIGKILL)
    until("the sink's alert", lambda: missing(watched.prometheus) == {"pojoin-1", "sink"})


def test_with_every_process_gone_the_query_is_missed(watched: Watched) -> None:
    for pid in watched.supervisor.pids().values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until("the query's alert", lambda: "SpojoinQueryGone" in firing(watched.prometheus))
