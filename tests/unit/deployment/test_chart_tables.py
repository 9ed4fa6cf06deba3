"""A query with a table: its file lies beside the query's; who may read its topic; a changed file restarts pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chart import Manifest, named, of_kind, render, template

QUERY = """
name: tiered
streams: {{orders: {{schema: {{id: long, x: long}}}}}}
tables: {{tiers: {{{source}, schema: {{low: long}}}}}}
sql: SELECT l.id, r.low FROM orders AS l JOIN tiers AS r ON l.x >= r.low
"""
STRIMZI = "kafka.bootstrapServers=kafka:9092,strimzi.cluster=k,strimzi.topics.enabled=true,strimzi.users.enabled=true"


def options(folder: Path, source: str, *more: str) -> list[str]:
    (folder / "query.yaml").write_text(QUERY.format(source=source))
    return ["--set-file", f"query.text={folder}/query.yaml", "--set", STRIMZI, *more]


def with_file(folder: Path, text: str) -> list[Manifest]:
    (folder / "tiers.csv").write_text(text)
    return render(*options(folder, "file: tiers.csv", "--set-file", rf"query.tables.tiers\.csv={folder}/tiers.csv"))


@pytest.mark.parametrize("name", ["query", "check-query"])
def test_the_tables_file_lies_beside_the_query(tmp_path: Path, name: str) -> None:
    files = named(with_file(tmp_path, "low\n1\n"), "ConfigMap", name)["data"]
    assert sorted(files) == ["query.yaml", "tiers.csv"]
    assert files["tiers.csv"].strip() == "low\n1"


def test_a_changed_file_restarts_the_router(tmp_path: Path) -> None:
    before, after = (
        {
            each["metadata"]["name"]: each["spec"]["template"]
            for each in of_kind("Deployment", with_file(tmp_path, text))
        }
        for text in ("low\n1\n", "low\n2\n")
    )
    assert [name for name in before if before[name] != after[name]] == ["demo-spojoin-router"]


def test_the_router_may_read_the_tables_topic(tmp_path: Path) -> None:
    documents = render(*options(tmp_path, "topic: reference.tiers"))
    rights = named(documents, "KafkaUser", "router")["spec"]["authorization"]["acls"]
    by_operation = {
        operation: {right["resource"]["name"] for right in rights if operation in right["operations"]}
        for operation in ("Read", "Write")
    }
    assert {"in.orders", "reference.tiers"} <= by_operation["Read"]
    assert "reference.tiers" not in by_operation["Write"]
    assert "reference.tiers.dlq" in by_operation["Write"]


def test_the_tables_topic_is_not_made_but_its_dead_letters(tmp_path: Path) -> None:
    documents = render(*options(tmp_path, "topic: reference.tiers"))
    topics = {each["spec"]["topicName"] for each in of_kind("KafkaTopic", documents)}
    assert "reference.tiers.dlq" in topics
    assert "reference.tiers" not in topics


def test_a_file_has_no_topic(tmp_path: Path) -> None:
    documents = with_file(tmp_path, "low\n1\n")
    topics = {each["spec"]["topicName"] for each in of_kind("KafkaTopic", documents)}
    assert not [topic for topic in topics if "tiers" in topic]


def test_a_table_takes_no_querys_place(tmp_path: Path) -> None:
    done = template(*options(tmp_path, "file: query.yaml", "--set", r"query.tables.query\.yaml=x"))
    assert done.returncode != 0
    assert "query.tables: query.yaml has the file name of a query" in done.stderr
