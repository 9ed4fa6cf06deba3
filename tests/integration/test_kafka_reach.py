"""Unusable Kafkas that answer: every command and service reports each in one sentence, within seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spojoin.errors import ConfigurationError
from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.net import LOOPBACK, free_port
from spojoin.local.reachable import check_kafka_takes
from spojoin.local.security import BrokerSecurity
from spojoin.ports.interfaces import LogUnavailable
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from tests.support.certificates import make_certificates
from tests.support.secured import new_password

QUERY = """
name: reached
streams: {s: {schema: {a: long}}}
sql: SELECT l.a, r.a FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '5' ON '10')
"""
#: The time limit of a command: 11 s for the checks, and Python's start beside other work.
COMMAND_S = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("reach")
    (found / "query.yaml").write_text(QUERY)
    return found


@contextmanager
def advertising(listener: str) -> Iterator[LocalBroker]:
    """A broker that tells its clients to connect elsewhere."""
    with Children() as children:
        broker = LocalBroker(children)
        file = broker.folder / "server.properties"
        own = f"advertised.listeners=PLAINTEXT://{broker.bootstrap}"
        assert own in file.read_text()
        file.write_text(file.read_text().replace(own, f"advertised.listeners=PLAINTEXT://{listener}"))
        with broker:
            yield broker


@pytest.fixture(scope="module")
def secured(folder) -> Iterator[tuple[LocalBroker, BrokerSecurity]]:
    security = BrokerSecurity(make_certificates(folder, LOOPBACK, "localhost"), new_password())
    with Children() as children, LocalBroker(children, security=security) as broker:
        yield broker, security


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[LocalBroker]:
    with advertising("demo-spojoin-kafka:9092") as broker:
        yield broker


def why(bootstrap, properties) -> str:
    began_s = time.monotonic()
    with pytest.raises(ConfigurationError) as caught:
        check_kafka_takes(bootstrap, properties)
    assert time.monotonic() - began_s < COMMAND_S
    return str(caught.value)


def test_a_listener_that_nobody_can_resolve_is_named(elsewhere):
    told = why(elsewhere.bootstrap, {})
    assert f"Kafka answers at {elsewhere.bootstrap} and names demo-spojoin-kafka:9092" in told
    assert "no host is called 'demo-spojoin-kafka'" in told
    assert "advertised.listeners" in told


def test_a_log_names_the_listener_too(elsewhere):
    log = KafkaLog(KafkaConfig(elsewhere.bootstrap, request_timeout_s=3))
    with pytest.raises(LogUnavailable, match="names demo-spojoin-kafka:9092 as the address of a broker"):
        log.create_topics({"reached.frames": 1})
    log.close()


def test_a_listener_where_nobody_listens_is_named():
    with advertising(f"{LOOPBACK}:{free_port()}") as broker:
        assert "connection refused; set advertised.listeners" in why(broker.bootstrap, {})


@pytest.mark.parametrize(
    "command", [("topics",), ("send", "--end"), ("results",), ("up", "--redis", "redis://{redis}")]
)
def test_commands_end_with_the_sentence(command, elsewhere, folder, request):
    name, *options = command
    redis = request.getfixturevalue("redis_url") if name == "up" else ""
    options = [redis if each.startswith("redis://") else each for each in options]
    query = str(folder / "query.yaml")
    call = [sys.executable, "-m", "spojoin", name, query, *options, "--bootstrap", elsewhere.bootstrap]
    done = subprocess.run(call, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 2
    assert "names demo-spojoin-kafka:9092" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def checked(folder, bootstrap, *options, **kafka):
    call = [
        sys.executable,
        "-m",
        "spojoin",
        "validate",
        str(folder / "query.yaml"),
        "--deployed",
        "--running",
        *options,
    ]
    settings = {"SPOJOIN_BOOTSTRAP_SERVERS": bootstrap, "SPOJOIN_KAFKA": json.dumps(kafka)}
    environment = {**os.environ, **settings}
    done = subprocess.run(call, capture_output=True, text=True, timeout=COMMAND_S, check=False, env=environment)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip()


def test_the_check_before_an_installation_refuses_a_kafka_that_cannot_be_used(folder, elsewhere, secured, bootstrap):
    broker, security = secured
    wrong = {**security.client, "sasl.password": "wrong"}
    for where, properties, part in (
        (elsewhere.bootstrap, {}, "names demo-spojoin-kafka:9092"),
        (broker.bootstrap, wrong, "refuses the user 'admin'"),
        (broker.bootstrap, {}, "expects TLS"),
        (bootstrap, {"sasl.pasword": "x"}, "did you mean sasl.password?"),
    ):
        status, said = checked(folder, where, **properties)
        assert (status, said.count("\n")) == (2, 0)
        assert part in said


def test_the_check_before_an_installation_lets_kafka_come_later(folder, bootstrap):
    nobody = f"{LOOPBACK}:{free_port()}"
    for options, ends in (([], 2), (["--coming"], 0)):
        status, said = checked(folder, nobody, *options)
        assert status == ends
        assert "connection refused" in said.lower()
    status, said = checked(folder, bootstrap)
    assert (status, "connection refused" in said) == (0, False)


def test_a_wrong_password_names_the_user(secured):
    broker, security = secured
    told = why(broker.bootstrap, {**security.client, "sasl.password": "wrong"})
    assert "refuses the user 'admin'" in told
    assert "wrong" not in told
    told = why(broker.bootstrap, security.user("nobody", "x"))
    assert "refuses the user 'nobody'" in told


def test_a_missing_authority_is_named(secured):
    broker, security = secured
    properties = {name: value for name, value in security.client.items() if name != "ssl.ca.location"}
    assert "certificate" in why(broker.bootstrap, properties)


def test_a_client_in_the_clear_is_told_of_tls(secured):
    broker, security = secured
    assert "expects TLS" in why(broker.bootstrap, {})
    assert "expects TLS" in why(broker.bootstrap, {**security.client, "security.protocol": "SASL_PLAINTEXT"})


def test_a_client_with_tls_is_told_of_a_listener_in_the_clear(bootstrap):
    assert "PLAINTEXT" in why(bootstrap, {"security.protocol": "SSL"})


def test_the_right_client_is_taken(secured, bootstrap):
    broker, security = secured
    check_kafka_takes(broker.bootstrap, security.client)
    check_kafka_takes(bootstrap)
