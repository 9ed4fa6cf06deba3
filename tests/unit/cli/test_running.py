"""A query about to be deployed is compared with the one served under its name."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from spojoin.cli.checks import compare_with_running
from spojoin.cli.main import app
from spojoin.cli.topics import current_generation
from spojoin.errors import ConfigurationError
from spojoin.local.net import LOOPBACK, free_port
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.settings import load_settings
from spojoin.wire.records import Announcement, Takeover

QUERY = """
name: q
streams:
  s: {schema: {a: int, b: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b > r.b WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
SERVED = parse_query(QUERY)
CHANGED = parse_query(QUERY.replace("l.b > r.b", "l.b >= r.b"))


def log_of(query, owner=""):
    """A log in which `query` is served, by a release that has claimed its name if there is an owner."""
    log = MemoryLog()
    log.create_topics({topic_name(query.name, Topic.GENERATIONS): 1})
    GenerationsTopic(log, query.name).write_record(
        Announcement(1, fingerprint(query), query.text, "window", owner=owner)
    )
    return log


def compare(log, query, **given):
    return compare_with_running(log, query, load_settings(query_file="q.yaml", **given))


def test_the_same_query_passes():
    assert compare(log_of(SERVED), SERVED) == ""


def test_another_query_is_refused_unless_it_may_replace_the_served_one():
    with pytest.raises(ConfigurationError, match=r"query 'q' is not the one.*--set query\.replace=true"):
        compare(log_of(SERVED), CHANGED)
    assert compare(log_of(SERVED), CHANGED, replace=True) == ""


@pytest.mark.parametrize("query", [SERVED, CHANGED])
def test_a_name_of_another_release_is_refused_whatever_the_query_unless_it_is_adopted(query):
    log = log_of(SERVED, owner="joins/first")
    assert compare(log, SERVED, owner="joins/first") == ""
    wanted = r"the name 'q' belongs to joins/first on this Kafka, and this is {}: .* --set query\.adopt=joins/first, "
    with pytest.raises(ConfigurationError, match=wanted.format("joins/second")):
        compare(log, query, owner="joins/second", replace=True)
    with pytest.raises(ConfigurationError, match=wanted.format("spojoin-up")):
        compare(log, query, replace=True)
    with pytest.raises(ConfigurationError, match=wanted.format("joins/second")):
        compare(log, query, owner="joins/second", replace=True, adopt="joins/third")
    assert compare(log, query, owner="joins/second", replace=True, adopt="joins/first") == ""


def test_the_first_query_of_a_name_passes_and_is_reported_as_such():
    assert "no query is served under the name 'q' yet" in compare(MemoryLog(), SERVED)


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ((), 0, ""),
        (("--running",), 2, "no Kafka answers at"),
        (("--running", "--coming"), 0, "not compared with the query that is served"),
    ],
)
def test_a_kafka_that_is_away_ends_the_check_unless_it_is_coming(tmp_path, more, status, said):
    (tmp_path / "q.yaml").write_text(QUERY)
    env = {"SPOJOIN_BOOTSTRAP_SERVERS": f"{LOOPBACK}:{free_port()}"}
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "q.yaml"), "--deployed", *more], env=env)
    assert result.exit_code == status, result.output
    assert result.stdout == ("q: the query is valid\n" if status == 0 else "")
    assert said in " ".join(result.stderr.split())
    assert bool(result.stderr) == bool(said)


def test_a_password_that_is_made_with_the_release_may_be_missing(tmp_path):
    (tmp_path / "q.yaml").write_text(QUERY)
    env = {"SPOJOIN_BOOTSTRAP_SERVERS": f"{LOOPBACK}:{free_port()}", "SPOJOIN_KAFKA_USERNAME": "router"}
    command = ["validate", str(tmp_path / "q.yaml"), "--deployed", "--running"]
    assert CliRunner().invoke(app, [*command, "--coming"], env=env).exit_code == 0
    refused = CliRunner().invoke(app, command, env=env)
    assert refused.exit_code == 2
    assert "kafka_username is set without kafka_password" in refused.stderr


def test_the_topics_command_makes_the_answering_generations_topics():
    assert current_generation(MemoryLog(), "q") == 1
    log = log_of(SERVED)
    topic = GenerationsTopic(log, "q")
    topic.write_record(Announcement(2, fingerprint(CHANGED), CHANGED.text, "window"))
    assert current_generation(log, "q") == 1
    topic.write_record(Takeover(2, 1, {}, (), {}))
    assert current_generation(log, "q") == 2
