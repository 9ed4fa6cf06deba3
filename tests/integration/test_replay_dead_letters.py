"""Late rows are sent again, once each, to a query with a larger lateness, which answers them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson

from spojoin.local.cluster import LocalCluster
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from tests.support.changing import Results
from tests.support.served import PATIENCE_S, Served, served

QUERY = """
name: replayed
streams: {s: {schema: {id: long, at: timestamp}, time: at}}
lateness: %s
sql: >
  SELECT l.id, r.id AS other FROM s AS l JOIN s AS r
  ON l.id < r.id AND r.at BETWEEN l.at AND l.at + INTERVAL '30 s'
"""
#: The second of each row, or None for a message that is not a row.
SECONDS = (10, 50, 12, 20, None, 55)
#: The second query's answers: rows 2 and 3, which were sent again, and the last row, which event time had not reached.
#: The first copies of rows 2 and 3 are in its windows, but get no answer.
ANSWERS = [(0, 2), (0, 3), (1, 5), (2, 3), (2, 3)]


def command(running: Served, cluster: LocalCluster, *options: str) -> list[str]:
    environment = {**os.environ, "SPOJOIN_INPUT_TOPICS": orjson.dumps(dict(running.topics)).decode()}
    call = [sys.executable, "-m", "spojoin", "replay-dead-letters", str(running.query_file), *options]
    call += ["--bootstrap", cluster.broker.bootstrap]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_late_rows_are_sent_once_and_answered_with_others(cluster: LocalCluster, tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    log = KafkaLog(KafkaConfig(cluster.broker.bootstrap))
    options = {"columns": ("id", "other"), "packing": "together"}
    with served(cluster, folders[0], QUERY % "1 s", 1, {}, **options) as running:
        source = LogPartition(running.topics["s"], 0)
        letters = LogPartition(f"{source.topic}.dlq", 0)
        writer = log.writer()
        for number, second in enumerate(SECONDS):
            row = b"{" if second is None else orjson.dumps({"id": number, "at": f"2026-01-01T00:00:{second}Z"})
            writer.append(source, row, key=b"%d" % number)
        writer.flush(30)
        running.until(lambda: log.partitions(letters.topic) > 0 and log.end(letters) >= 3, lambda: "no letters")
        assert command(running, cluster, "--dry-run") == ["3 rows would be sent again: 2 late, 1 malformed"]
    with served(cluster, folders[1], QUERY % "5 min", 1, {"replace": "true"}, **options) as running:
        said = command(running, cluster, "--reason", "late")
        assert said[0] == "2 rows sent again: 2 late"
        assert said[1].startswith("0 refused again, 2 still wait"), said  # five minutes of event time must pass
        assert command(running, cluster, "--reason", "late")[0] == "0 rows sent again"
        assert command(running, cluster)[0] == "1 rows sent again: 1 malformed"
        assert command(running, cluster)[:2] == ["0 rows sent again", "3 were sent before: 2 late, 1 malformed"]
        writer.append(source, orjson.dumps({"id": 99, "at": "2026-01-01T00:10:00Z"}))
        writer.flush(30)
        results = Results(cluster.broker.bootstrap, running.query.name)

        def answers() -> list[tuple[int, ...]]:
            results.read_on()
            return sorted(results.rows(2, "id", "other"))

        running.until(lambda: len(answers()) >= len(ANSWERS), lambda: f"answered: {answers()}")
        assert answers() == ANSWERS
        results.close()
    log.close()
