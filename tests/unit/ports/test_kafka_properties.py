"""A wrong property of Kafka's clients is named by librdkafka before anything connects, with what was probably meant."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from spojoin.errors import ConfigurationError
from spojoin.ports import kafka_client
from spojoin.ports.kafka_client import check_properties, property_ranges
from spojoin.runtime.settings import Settings

TLS = {"security.protocol": "SSL"}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "u", "sasl.password": "hunter2"}
WRONG = [
    ({"sasl.pasword": "hunter2"}, "has no property sasl.pasword; did you mean sasl.password?"),
    ({"Security.Protocol": "SSL"}, "has no property Security.Protocol; did you mean security.protocol?"),
    ({"ssl.truststore.location": "x"}, "Java TrustStores are not supported"),
    ({"zzz": 1}, "has no property zzz"),
    ({"sasl.jaas.config": "x"}, "Java JAAS configuration is not supported"),
    ({"security.protocol": "SSL2"}, "expected plaintext, ssl, sasl_plaintext, sasl_ssl"),
    ({"socket.keepalive.enable": "maybe"}, "true or false"),
    ({"acks": 7000}, "outside allowed range -1..1000"),
    ({"retries": "abc"}, "message.send.max.retries"),
    ({"error_cb": "x"}, "callable"),
]
#: Known only where files and the login are at hand.
WRONG_TOGETHER = [
    ({**TLS, "ssl.ca.location": "/nowhere/ca.pem"}, "ssl.ca.location failed"),
    ({**LOGIN, "sasl.mechanism": "SCRAM-SHA-1024"}, "SCRAM-SHA-1024 (try SCRAM-SHA-512)"),
    ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password must be set"),
]


@pytest.mark.parametrize("opens_files", [True, False])
@pytest.mark.parametrize(("properties", "part"), WRONG, ids=lambda each: str(each)[:30])
def test_a_wrong_property_is_named(properties, part, opens_files, capfd):
    with pytest.raises(ConfigurationError) as caught:
        check_properties({"client.id": "c", **properties}, opens_files=opens_files)
    assert part in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("properties", "part"), WRONG_TOGETHER, ids=lambda each: str(each)[:60])
def test_properties_that_are_wrong_together_are_named(properties, part):
    check_properties(properties, opens_files=False)
    with pytest.raises(ConfigurationError) as caught:
        check_properties(properties)
    assert part in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_right_properties_are_taken():
    check_properties({**LOGIN, "sasl.mechanism": "PLAIN", "socket.timeout.ms": 5000, "enable.auto.commit": False})
    check_properties({})


def test_the_names_are_those_of_this_very_librdkafka():
    ranges = property_ranges()
    assert ranges["security.protocol"] == "plaintext, ssl, sasl_plaintext, sasl_ssl"
    assert {"bootstrap.servers", "group.id", "compression.type", "sasl.oauthbearer.client.secret"} <= ranges.keys()
    assert len(ranges) > 150


def test_without_that_list_nothing_is_suggested(monkeypatch):
    monkeypatch.setattr(kafka_client, "property_ranges", dict)
    with pytest.raises(ConfigurationError, match=r"has no property sasl\.pasword$"):
        check_properties({"sasl.pasword": "x"})


def test_whoever_asks_the_settings_is_told(tmp_path):
    def settings(kafka, **others):
        return Settings(query_file=tmp_path / "q.yaml", kafka=kafka, **others)

    with pytest.raises(ConfigurationError, match=r"did you mean sasl\.password"):
        settings({"sasl.pasword": "x"}).kafka_properties()
    with pytest.raises(ConfigurationError, match="SSL2"):
        settings({"security.protocol": "SSL2"}).check_kafka_names()
    right = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    settings(right).check_kafka_names()
    settings(right, kafka_username="u", kafka_password=SecretStr("p")).kafka_properties()
