"""The load generator's connection to Kafka: broker and client properties, from options or services' variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pydantic import SecretStr

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties, secret, with_login
from spojoin.ports.kafka import KafkaConfig, KafkaLog

BOOTSTRAP_VARIABLE, KAFKA_VARIABLE = "SPOJOIN_BOOTSTRAP_SERVERS", "SPOJOIN_KAFKA"
USERNAME_VARIABLE, PASSWORD_VARIABLE = f"{KAFKA_VARIABLE}_USERNAME", f"{KAFKA_VARIABLE}_PASSWORD"
PASSWORD_FILE_VARIABLE = f"{PASSWORD_VARIABLE}_FILE"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster. properties: for every client, as librdkafka names them."""

    bootstrap: str
    properties: Properties = field(default_factory=dict, repr=False)

    def log(self) -> KafkaLog:
        """The cluster as a log."""
        return KafkaLog(KafkaConfig(self.bootstrap, self.properties))

    @contextmanager
    def opened(self) -> Iterator[KafkaLog]:
        """The cluster as a log, closed with the block."""
        log = self.log()
        try:
            yield log
        finally:
            log.close()


def connection(
    bootstrap: str | None, properties: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Connection:
    """The given connection, or that of the services' environment variables; `properties` take precedence.

    Raises ConfigurationError.
    """
    servers = bootstrap or environment.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    together = {**_from_environment(environment), **properties}
    return Connection(servers, with_login(together, environment.get(USERNAME_VARIABLE), _password(environment)))


def pairs(options: Sequence[str], name: str) -> dict[str, str]:
    """`a=b` options as a dictionary. Raises ConfigurationError that names the option."""
    for option in options:
        key, equals, _ = option.partition("=")
        if not (key and equals):
            raise ConfigurationError(f"--{name} {option}: expected the form name=value")
    return dict(option.split("=", 1) for option in options)


def _password(environment: Mapping[str, str]) -> str | None:
    text, file = environment.get(PASSWORD_VARIABLE), environment.get(PASSWORD_FILE_VARIABLE)
    return secret(PASSWORD_VARIABLE.lower(), SecretStr(text) if text else None, Path(file) if file else None)


def _from_environment(environment: Mapping[str, str]) -> Properties:
    text = environment.get(KAFKA_VARIABLE) or "{}"
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{KAFKA_VARIABLE} is no JSON object: {error}; write it like {_EXAMPLE}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{KAFKA_VARIABLE} is no JSON object; write it like {_EXAMPLE}")
    return found


_EXAMPLE = """'{"security.protocol": "SASL_SSL"}'"""


# --- the same for Java clients ----------------------------------------------------------------------------------------

_RENAMED = {
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
    "compression.type": "compression.type",
    "linger.ms": "linger.ms",
}
_CREDENTIALS = ("sasl.username", "sasl.password")


def java_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """The same properties for Spark's Kafka client, which is a Java client.

    Raises ConfigurationError for a property that has no counterpart.
    """
    found = {}
    for name, value in properties.items():
        if name in _RENAMED:
            found[_RENAMED[name]] = "" if value == "none" and name.endswith("algorithm") else str(value)
        elif name not in _CREDENTIALS:
            known = ", ".join(sorted([*_RENAMED, *_CREDENTIALS]))
            raise ConfigurationError(f"Kafka property {name}: Spark's client has none like it; expected one of {known}")
    if "ssl.ca.location" in properties:
        found["ssl.truststore.type"] = "PEM"
    if all(name in properties for name in _CREDENTIALS):
        found["sasl.jaas.config"] = _jaas(found.get("sasl.mechanism", "PLAIN"), properties)
    return found


def _jaas(mechanism: str, properties: Mapping[str, object]) -> str:
    kind = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    user, password = (orjson.dumps(str(properties[name])).decode() for name in _CREDENTIALS)
    return f"org.apache.kafka.common.security.{kind} required username={user} password={password};"
