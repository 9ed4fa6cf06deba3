"""The log lines of real services in an outage of Kafka and of Redis: one JSON line per event, with its names."""

from __future__ import annotations

import json
import time
from pathlib import Path

from spojoin.local.cluster import LocalCluster
from tests.support.served import SINK_ALONE, send, served

QUERY = """
name: told
streams: {s: {schema: {a: long}}}
sql: SELECT l.a, r.a AS other FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '50' ON '100')
"""
AWAY_S = 8


def test_every_line_of_every_service_is_json(own_cluster: LocalCluster, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a\n" + "\n".join(map(str, range(500))) + "\n")
    with served(own_cluster, tmp_path, QUERY, 1, {}, columns=("a", "other"), packing=SINK_ALONE) as running:
        assert send(running, own_cluster, "-i", f"s={rows}", "--follow").returncode == 0
        running.read_until(500)
        own_cluster.broker.kill()
        own_cluster.redis.kill()
        time.sleep(AWAY_S)
        own_cluster.redis.start()
        own_cluster.broker.start()
        assert send(running, own_cluster, "-i", f"s={rows}", "--follow").returncode == 0
        running.read_until(1_000)
    logs = sorted((tmp_path / "logs").glob("*.log"))
    assert len(logs) == 2
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {line["query"] for line in lines if line["event"] not in ("refused",)} == {"told"}, log
        assert {line["service"] for line in lines} == {log.stem}
        assert all({"event", "level", "timestamp"} <= line.keys() for line in lines)
    assert any("starting over" in log.read_text() for log in logs)
