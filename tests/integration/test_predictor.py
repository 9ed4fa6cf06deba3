"""The predictor as a process on the real broker: it emits plans, ignores uncommitted frames and ends on SIGTERM."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from spojoin.local.net import free_port
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.machine import START
from spojoin.protocol.topology import Topic
from spojoin.query.fingerprint import fingerprint
from spojoin.roles.predictor.machine import PLAN_FRAMES, PredictorMachine
from spojoin.runtime.generations import GenerationsTopic
from spojoin.runtime.service import create_topics
from spojoin.runtime.topics import Topics
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Announcement
from tests.support.frames import QUERY, log_of, make_frame, make_query, make_slice

pytestmark = pytest.mark.integration
PATIENCE_S = 90


def until(what, found):
    """Poll `found` until it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.1)
    raise AssertionError(f"{what} did not come within {PATIENCE_S} s")


def status(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, OSError):
        return 0, ""


def read_plans(bootstrap, topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(100, timeout=1.0)
        return [decode(m.value()) for m in messages if m.error() is None]
    finally:
        consumer.close()


@pytest.fixture
def frames():
    rng = np.random.default_rng(1)
    a = np.where(rng.random(3200) < 0.3, 7, rng.integers(100, 2**60, 3200))
    return list(log_of([a, rng.integers(0, 2**60, 3200)], 100))


@pytest.fixture
def process(bootstrap, redis_url, unique, tmp_path):
    query_file = tmp_path / "query.yaml"
    query_file.write_text(QUERY.format(name=unique))
    port = free_port()
    environment = os.environ | {
        "SPOJOIN_QUERY_FILE": str(query_file),
        "SPOJOIN_BOOTSTRAP_SERVERS": bootstrap,
        "SPOJOIN_REDIS_URL": redis_url,
        "SPOJOIN_METRICS_PORT": str(port),
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "spojoin.roles.predictor"],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    running.port = port
    yield running
    if running.poll() is None:
        running.kill()
    running.communicate()


def test_the_process_plans_as_the_machine_does_and_ends_cleanly(bootstrap, unique, frames, process):
    log = KafkaLog(KafkaConfig(bootstrap))
    announce(log, make_query(unique))
    topic, plan_topic = f"{unique}.{Topic.FRAMES}", f"{unique}.{Topic.PLAN}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions(30)
    half = PLAN_FRAMES + 1  # the barrier and the first plan's frames
    send(producer, topic, frames[:half], commit=True)
    # A frame that no transaction commits: reading it would make all later frames invalid.
    uncommitted = make_frame([make_slice([[9] * 9] * 2, 1600)], frame_id=PLAN_FRAMES, first_seq=1600)
    send(producer, topic, [uncommitted], commit=False)
    send(producer, topic, frames[half:], commit=True)

    machine = PredictorMachine(make_query(unique), START)
    expected = [a.record for f in frames for a in machine.on_record(Topic.FRAMES, 0, 0, f)]
    assert len(expected) == 2

    plans = until("the plans", lambda: len(found := read_plans(bootstrap, plan_topic)) >= 2 and found)
    assert [encode(plan) for plan in plans] == [encode(plan) for plan in expected]
    assert until("readiness", lambda: status(process.port, "/readyz")[0] == 200)
    assert status(process.port, "/healthz")[0] == 200
    labels = f'query="{unique}",role="predictor",service_name="predictor",topic="frames"'
    assert f"spojoin_records_read_total{{{labels}}} 33.0" in status(process.port, "/metrics")[1]

    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert '"event": "ended"' in said


def announce(log, query):
    """Make the topics and announce the served query, as a router does."""
    create_topics(log, Topics.for_query(query, 2, {}))
    GenerationsTopic(log, query.name).write_record(Announcement(1, fingerprint(query), query.text, Backfill.WINDOW))


def send(producer, topic, records, *, commit):
    producer.begin_transaction()
    for record in records:
        producer.produce(topic, encode(record), partition=0)
    producer.flush()
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_a_malformed_record_ends_it_with_the_reason(bootstrap, unique, process):
    announce(KafkaLog(KafkaConfig(bootstrap)), make_query(unique))
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{unique}.{Topic.FRAMES}", b"no frame", partition=0)
    producer.flush()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, said
    assert '"event": "stopped"' in said


def test_the_log_of_another_query_ends_it_with_a_sentence(bootstrap, unique, frames, process):
    announce(KafkaLog(KafkaConfig(bootstrap)), make_query(unique))
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(f"{unique}.{Topic.FRAMES}", encode(replace(frames[0], fingerprint=1)), partition=0)
    producer.flush()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2, said
    assert "the log was written for a query that means something else" in said
