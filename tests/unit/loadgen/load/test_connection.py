import pytest

from loadgen.load.connection import Connection, connection, java_properties
from loadgen.load.files import seconds
from loadgen.load.spark_options import kafka_of
from spojoin.errors import ConfigurationError

ENVIRONMENT = {"SPOJOIN_BOOTSTRAP_SERVERS": "kafka:9093", "SPOJOIN_KAFKA": '{"security.protocol": "SASL_SSL"}'}


def test_the_services_environment_suffices():
    assert connection(None, {}, ENVIRONMENT) == Connection("kafka:9093", {"security.protocol": "SASL_SSL"})


def test_options_override_the_environment():
    found = connection("here:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca=1.pem"}, ENVIRONMENT)
    assert found == Connection("here:1", {"security.protocol": "SSL", "ssl.ca.location": "/ca=1.pem"})


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


@pytest.mark.parametrize("text", ["", "0", "-3", "5 minutes", "1d"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(ValueError, match="expected a duration"):
        seconds(text)


def test_spark_gets_the_services_environment_and_options_override_it(monkeypatch):
    monkeypatch.setenv("SPOJOIN_KAFKA", '{"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}')
    found = kafka_of("kafka:9093", ["security.protocol=SSL"])
    assert found.bootstrap_servers == "kafka:9093"
    assert found.settings == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
    }
