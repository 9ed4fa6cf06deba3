"""A query over another query's results: its files, the topics that it reads, and who may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chart import Manifest, named, of_kind, render, template

FIRST = """
name: first
streams: {rows: {schema: {id: long, a: double}}}
sql: SELECT l.id, r.a FROM rows AS l JOIN rows AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
SECOND = """
name: second
streams: {taken: {query: first}, rows: {schema: {a: double}}}
sql: SELECT l.id FROM taken AS l JOIN rows AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


def options(folder: Path, *more: str) -> list[str]:
    (folder / "first.yaml").write_text(FIRST)
    (folder / "second.yaml").write_text(SECOND)
    files = ["--set-file", f"query.text={folder}/second.yaml", "--set-file", f"query.others.first={folder}/first.yaml"]
    strimzi = "strimzi.cluster=k,strimzi.topics.enabled=true,strimzi.users.enabled=true"
    return [*files, "--set", f"kafka.bootstrapServers=kafka:9092,{strimzi}", *more]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return render(*options(tmp_path_factory.mktemp("queries")))


@pytest.mark.parametrize("name", ["query", "check-query"])
def test_the_other_querys_file_lies_beside(documents: list[Manifest], name: str) -> None:
    files = named(documents, "ConfigMap", name)["data"]
    assert {file: text.strip() for file, text in files.items()} == {
        "query.yaml": SECOND.strip(),
        "first.yaml": FIRST.strip(),
    }


def test_the_router_may_read_the_other_querys_results(documents: list[Manifest]) -> None:
    rights = named(documents, "KafkaUser", "router")["spec"]["authorization"]["acls"]
    reads = {right["resource"]["name"] for right in rights if "Read" in right["operations"]}
    assert {"first.results", "in.rows"} <= reads


def test_the_other_querys_results_are_its_own_to_make(documents: list[Manifest]) -> None:
    topics = {each["spec"]["topicName"] for each in of_kind("KafkaTopic", documents)}
    assert "first.results.dlq" in topics
    assert "first.results" not in topics


def test_a_query_named_query_has_no_place(tmp_path: Path) -> None:
    done = template(*options(tmp_path, "--set", "query.others.query=name"))
    assert done.returncode != 0
    assert "query.others.query would overwrite the file of the query itself" in done.stderr
