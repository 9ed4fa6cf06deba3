"""Options of the data source: what they mean, and a sentence for each that is wrong."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.spark.source_options import checked_options

GIVEN = {"query": "trades", "kafka.bootstrap.servers": "a:1,b:2"}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in ("SPOJOIN_KAFKA", "SPOJOIN_KAFKA_USERNAME", "SPOJOIN_KAFKA_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def test_what_is_given():
    found = checked_options(GIVEN)
    assert (found.query, found.kafka.bootstrap, found.kafka.extra) == ("trades", "a:1,b:2", {})
    assert (found.starts_late, found.generation, found.partitions_min) == (False, None, None)
    more = {"STARTINGOFFSETS": "Latest", "generation": "2", "minpartitions": "7", "kafka.security.protocol": "SSL"}
    found = checked_options({**GIVEN, **more})
    assert (found.starts_late, found.generation, found.partitions_min) == (True, 2, 7)
    assert found.kafka.extra == {"security.protocol": "SSL"}


def test_a_login_comes_from_the_variables_that_services_read(monkeypatch):
    monkeypatch.setenv("SPOJOIN_KAFKA_USERNAME", "ann")
    monkeypatch.setenv("SPOJOIN_KAFKA_PASSWORD", "secret")
    found = checked_options(GIVEN)
    assert found.kafka.extra == {"sasl.username": "ann", "sasl.password": "secret"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"query": " "}, "option 'query' is missing: give the name of a served query"),
        ({"kafka.bootstrap.servers": ""}, "option 'kafka.bootstrap.servers' is missing: give Kafka's brokers"),
        ({"quary": "x"}, "unknown option 'quary': expected query, .*; did you mean 'query'"),
        ({"subscribe": "x"}, "option 'subscribe' has no meaning for results: name the query"),
        ({"maxOffsetsPerTrigger": "9"}, "option 'maxoffsetspertrigger' has no meaning for results: a micro-"),
        ({"startingOffsets": "7"}, "option 'startingOffsets' is '7': expected earliest or latest"),
        ({"generation": "0"}, "option 'generation' is '0': expected a whole number from 1 on"),
        ({"minPartitions": "many"}, "option 'minPartitions' is 'many': expected a whole number from 1 on"),
        ({"kafka.group.id": "x"}, "kafka: group.id is set by the service itself; remove it"),
    ],
)
def test_a_wrong_option_is_a_sentence(change, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        checked_options({**GIVEN, **change})
