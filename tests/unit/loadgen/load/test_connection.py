import pytest

from loadgen.load.connection import Connection, connection, java_properties, pairs
from loadgen.load.durations import ending, seconds
from loadgen.load.spark_options import kafka_of
from spojoin.errors import ConfigurationError

ENVIRONMENT = {"SPOJOIN_BOOTSTRAP_SERVERS": "kafka:9093", "SPOJOIN_KAFKA": '{"security.protocol": "SASL_SSL"}'}


def test_the_services_environment_suffices():
    assert connection(None, {}, ENVIRONMENT) == Connection("kafka:9093", {"security.protocol": "SASL_SSL"})


def test_options_override_the_environment():
    found = connection("here:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca=1.pem"}, ENVIRONMENT)
    assert found == Connection("here:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca=1.pem"})


def test_the_default_is_this_machine():
    assert connection(None, {}, {}) == Connection("127.0.0.1:9092")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SPOJOIN_KAFKA": "security.protocol=SSL"}, "SPOJOIN_KAFKA is no JSON object"),
        ({"SPOJOIN_KAFKA": "[1]"}, "SPOJOIN_KAFKA is no JSON object"),
    ],
)
def test_mistakes_are_named(environment, said):
    with pytest.raises(ConfigurationError, match=said):
        connection(None, {}, environment)


@pytest.mark.parametrize("option", ["linger.ms", "=1"])
def test_a_pair_needs_a_name_and_a_value(option):
    with pytest.raises(ConfigurationError, match=f"--kafka-property {option}: expected the form name=value"):
        pairs([option], "kafka-property")


def test_a_value_may_hold_an_equals_sign():
    assert pairs(["ssl.ca.location=/ca=1.pem"], "kafka-property") == {"ssl.ca.location": "/ca=1.pem"}


def test_java_gets_the_same_properties():
    properties = java_properties(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'a"b',
            "ssl.ca.location": "/ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert properties == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b";',
    }


def test_java_gets_no_unknown_property():
    with pytest.raises(ConfigurationError, match=r"queue\.buffering\.max\.ms"):
        java_properties({"queue.buffering.max.ms": 5})


@pytest.mark.parametrize(("text", "found"), [("90", 90), ("1.5h", 5400), ("5m", 300), ("2s", 2), ("forever", None)])
def test_durations(text, found):
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["", "0", "-3", "5 minutes", "1d"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(ValueError, match="expected a duration"):
        seconds(text)


def test_a_limited_duration():
    assert ending("5m") == 300
    with pytest.raises(ValueError, match="expected a duration that ends"):
        ending("forever")


def test_spark_gets_the_services_environment_and_options_override_it(monkeypatch):
    monkeypatch.setenv("SPOJOIN_KAFKA", '{"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}')
    found = kafka_of("kafka:9093", ["security.protocol=SSL"])
    assert found.bootstrap_servers == "kafka:9093"
    assert found.settings == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
    }
