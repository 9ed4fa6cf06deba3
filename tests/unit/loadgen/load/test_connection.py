import pytest

from loadgen.load.connection import Connection, connection, java_properties
from loadgen.load.durations import seconds
from loadgen.load.feed_commands import _kafka
from spojoin.errors import ConfigurationError

ENVIRONMENT = {"SPOJOIN_BOOTSTRAP_SERVERS": "kafka:9093", "SPOJOIN_KAFKA": '{"security.protocol": "SASL_SSL"}'}


def test_the_services_environment_is_enough():
    assert connection(None, [], ENVIRONMENT) == Connection("kafka:9093", {"security.protocol": "SASL_SSL"})


def test_options_win():
    found = connection("here:1", ["security.protocol=SSL", "ssl.ca.location=/ca=1.pem"], ENVIRONMENT)
    assert found == Connection("here:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca=1.pem"})


def test_without_anything_it_is_this_machine():
    assert connection(None, [], {}) == Connection("127.0.0.1:9092")


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["linger.ms"], {}, "--kafka linger.ms: expected"),
        (["=1"], {}, "--kafka =1: expected"),
        ([], {"SPOJOIN_KAFKA": "security.protocol=SSL"}, "SPOJOIN_KAFKA is no JSON object"),
        ([], {"SPOJOIN_KAFKA": "[1]"}, "SPOJOIN_KAFKA is no JSON object"),
    ],
)
def test_mistakes_are_named(options, environment, said):
    with pytest.raises(ConfigurationError, match=said.replace("[", r"\[")):
        connection(None, options, environment)


def test_java_is_told_the_same():
    told = java_properties(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'a"b',
            "ssl.ca.location": "/ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert told == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b";',
    }


def test_java_is_not_told_what_it_does_not_know():
    with pytest.raises(ConfigurationError, match=r"queue\.buffering\.max\.ms"):
        java_properties({"queue.buffering.max.ms": 5})


@pytest.mark.parametrize(("text", "found"), [("90", 90), ("1.5h", 5400), ("5m", 300), ("2s", 2), ("forever", None)])
def test_durations(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "0", "-3", "5 minutes", "1d"])
def test_what_is_no_duration(text):
    with pytest.raises(ConfigurationError, match="no duration"):
        seconds(text)


def test_spark_is_told_what_the_services_environment_says_and_options_win(monkeypatch):
    monkeypatch.setenv("SPOJOIN_KAFKA", '{"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}')
    found = _kafka("kafka:9093", ["security.protocol=SSL"])
    assert found.bootstrap_servers == "kafka:9093"
    assert found.settings == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
    }
