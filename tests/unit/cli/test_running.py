"""A query about to be deployed is compared with the one served under its name."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from spojoin.cli.deployed import compare_with_running
from spojoin.cli.main import app
from spojoin.cli.topics import current_generation
from spojoin.errors import ConfigurationError
from spojoin.local.net import LOOPBACK, free_port
from spojoin.ports.interfaces import LogUnavailable
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.load import parse_query
from spojoin.query.meaning import fingerprint
from spojoin.runtime.generations import GenerationsTopic
from spojoin.wire.records import Announcement, Takeover

QUERY = """
name: q
streams:
  s: {schema: {a: int, b: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b > r.b WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
SERVED = parse_query(QUERY)
CHANGED = parse_query(QUERY.replace("l.b > r.b", "l.b >= r.b"))


def log_of(query):
    """A log in which `query` is served."""
    log = MemoryLog()
    log.create_topics({topic_name(query.name, Topic.GENERATIONS): 1})
    GenerationsTopic(log, query.name).append(Announcement(1, fingerprint(query), query.text, "window"))
    return log


def test_the_same_query_passes():
    assert compare_with_running(log_of(SERVED), SERVED, replace=False) == ""


def test_another_query_is_refused_unless_it_may_replace_the_served_one():
    with pytest.raises(ConfigurationError, match=r"query 'q' is not the one.*--set query\.replace=true"):
        compare_with_running(log_of(SERVED), CHANGED, replace=False)
    assert compare_with_running(log_of(SERVED), CHANGED, replace=True) == ""


def test_the_first_query_of_a_name_passes_and_is_reported_as_such():
    assert "no query is served under the name 'q' yet" in compare_with_running(MemoryLog(), SERVED, replace=False)


def test_an_unreachable_log_is_no_reason_to_refuse():
    class Silent(MemoryLog):
        def partitions(self, topic):
            raise LogUnavailable("it is away")

    assert "not compared" in compare_with_running(Silent(), SERVED, replace=False)


@pytest.mark.parametrize(("more", "said"), [((), ""), (("--running",), "not compared with the query that is served")])
def test_the_command_asks_kafka_only_with_the_running_option(tmp_path, monkeypatch, more, said):
    monkeypatch.setattr("spojoin.cli.deployed.REQUEST_TIMEOUT_S", 0.2)
    (tmp_path / "q.yaml").write_text(QUERY)
    env = {"SPOJOIN_BOOTSTRAP_SERVERS": f"{LOOPBACK}:{free_port()}"}
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "q.yaml"), "--deployed", *more], env=env)
    assert result.exit_code == 0, result.output
    assert result.stdout == "q: the query is valid\n"
    assert said in result.stderr
    assert bool(result.stderr) == bool(said)


def test_the_topics_command_makes_the_answering_generations_topics():
    assert current_generation(MemoryLog(), "q") == 1
    log = log_of(SERVED)
    topic = GenerationsTopic(log, "q")
    topic.append(Announcement(2, fingerprint(CHANGED), CHANGED.text, "window"))
    assert current_generation(log, "q") == 1
    topic.append(Takeover(2, 1, {}, (), {}))
    assert current_generation(log, "q") == 2
