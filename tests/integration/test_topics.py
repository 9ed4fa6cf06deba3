"""A query's topics on the real broker: listed, brought to their configuration, and deleted when no longer served."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topic_config import DEFAULTS, TopicKind
from tests.support.readings import query_text
from tests.support.served import served

pytestmark = pytest.mark.integration


@pytest.fixture
def query_file(tmp_path: Path, unique: str) -> Path:
    file = tmp_path / f"{unique}.yaml"
    file.write_text(
        query_text(f"own-{unique}").replace("readings:", f"r{unique}:").replace("readings AS", f"r{unique} AS")
    )
    return file


def run(
    cluster: LocalCluster, file: Path, *arguments: str, redis: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spojoin.cli.main", "topics", str(file), *arguments]
    command += ["--bootstrap", cluster.broker.bootstrap, *(["--redis", cluster.redis.url] if redis else [])]
    environment = {**os.environ, **more}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def names_of(log: KafkaLog, unique: str) -> set[str]:
    return {name for name in log.listed() if f"own-{unique}." in name or f"in.r{unique}" in name}


@pytest.fixture
def log(cluster: LocalCluster) -> KafkaLog:
    return KafkaLog(KafkaConfig(cluster.broker.bootstrap))


def test_topics_are_listed_with_what_they_are_for(
    cluster: LocalCluster, query_file: Path, log: KafkaLog, unique: str
) -> None:
    assert run(cluster, query_file, "--partitions", "3").returncode == 0
    lines = {line.split()[0]: line for line in run(cluster, query_file, "--list").stdout.splitlines() if line.strip()}
    assert names_of(log, unique) <= lines.keys()
    assert "4,096 MiB a partition" in lines[f"own-{unique}.results"]
    assert "until trimmed" in lines[f"own-{unique}.frames"]
    assert lines[f"in.r{unique}"].split()[1:4] == ["inputs", "3", "1"]


def test_what_is_there_is_brought_to_the_settings_and_only_when_asked(
    cluster: LocalCluster, query_file: Path, log: KafkaLog, unique: str
) -> None:
    old = {**DEFAULTS[TopicKind.INTERNAL]}
    log.create_topics({f"own-{unique}.results": 1, f"own-{unique}.frames": 1}, old)
    topics = '{"results": {"retention.ms": 3600000}, "all": {"replication.factor": 2, "min.insync.replicas": 1}}'
    assert run(cluster, query_file, SPOJOIN_TOPICS=topics).returncode == 2, "no two replicas on one broker"
    topics = '{"results": {"retention.ms": 3600000}}'
    assert run(cluster, query_file, "--partitions", "1", SPOJOIN_TOPICS=topics).returncode == 0
    assert log.configs([f"own-{unique}.results"])[f"own-{unique}.results"]["retention.ms"] == "-1"
    done = run(cluster, query_file, "--apply", SPOJOIN_TOPICS=topics)
    assert f"own-{unique}.results: retention.ms was -1, and is 3600000" in done.stdout
    assert f"own-{unique}.results: retention.bytes was -1, and is 4294967296" in done.stdout
    assert "in.r" not in done.stdout.split("retention.ms was")[0].split("\n")[-1]
    kept = log.configs([f"own-{unique}.results"])[f"own-{unique}.results"]
    assert (kept["retention.ms"], kept["retention.bytes"]) == ("3600000", str(4 << 30))
    assert (
        "all topics are kept as the settings require"
        in run(cluster, query_file, "--apply", SPOJOIN_TOPICS=topics).stdout
    )


def test_internal_topics_are_deleted_and_others_only_when_named(
    cluster: LocalCluster, query_file: Path, log: KafkaLog, unique: str
) -> None:
    assert run(cluster, query_file, "--partitions", "1").returncode == 0
    log.create_topics({f"own-{unique}.generation.frames.2": 1})
    kept = {f"own-{unique}.results", f"in.r{unique}", f"in.r{unique}.dlq"}
    unsure = run(cluster, query_file, "--delete")
    assert unsure.returncode == 2 or "Aborted" in unsure.stderr
    assert names_of(log, unique) > kept
    unknown = run(cluster, query_file, "--delete", "--yes", "--also", "result")
    assert "did you mean 'results'" in unknown.stderr
    done = run(cluster, query_file, "--delete", "--yes")
    assert done.returncode == 0, done.stderr
    assert names_of(log, unique) == kept
    assert "--also results" in done.stdout
    done = run(
        cluster,
        query_file,
        "--delete",
        "--yes",
        *(part for kind in ("results", "dlq", "inputs") for part in ("--also", kind)),
    )
    assert names_of(log, unique) == set()
    assert "none of these topics" in run(cluster, query_file, "--delete", "--yes").stdout


def test_topics_of_a_query_that_is_served_stay(cluster: LocalCluster, tmp_path: Path, log: KafkaLog) -> None:
    with served(cluster, tmp_path, query_text("still-served"), 1, {}, packing="together") as running:
        before = set(log.listed())
        refused = run(cluster, running.query_file, "--delete", "--yes", "--force")
        assert refused.returncode == 2
        assert "still-served is being served by together" in refused.stderr
        blind = run(cluster, running.query_file, "--delete", "--yes", redis=False)
        assert blind.returncode == 2
        assert "it is unknown whether" in blind.stderr
        assert set(log.listed()) == before
