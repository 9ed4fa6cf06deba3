"""Avro, JSON Schema and plain JSON of Debezium through all services, and results in Avro, on the real broker.

Confluent's own serialisers write the input over a registry on this machine, and its own deserialiser reads the results.
The sink writes without transactions and is killed midway.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spojoin.local.cluster import LocalCluster
from spojoin.page.latest import ROWS as SHOWN
from spojoin.page.latest import AvroResults
from spojoin.page.subject import Subject
from spojoin.page.watch import LogWatch
from spojoin.ports.interfaces import SystemClock
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.registry import RegisteredResults
from spojoin.runtime.settings import Settings, load_settings
from spojoin.wire.registered import framed
from tests.support.nested_loop import pairs_of_rows
from tests.support.registries import HAS_GO, running_registry
from tests.support.served import PATIENCE_S, SINK_ALONE, Served, served

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not HAS_GO, reason="the registry for tests is built with Go")]

ROWS, WINDOW, SEED = 600, 50, 7
QUERY = f"""
name: registered
streams:
  trades: {{schema: {{price: long, size: long}}, key: id, envelope: after}}
sql: |
  SELECT * FROM trades AS l JOIN trades AS r ON l.price > r.price AND l.size < r.size
  WINDOW AS (SLIDE INTERVAL '1' ON '{WINDOW}')
output: pairs
"""
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": name, "type": kind} for name, kind in {"id": "string", "price": "long", "size": "int"}.items()],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", VALUE]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}
#: Bad messages, one in ten, and the reasons of their dead letters; the last kind has no value.
BAD = {"deleted": "delete", "unknown schema": "schema", "cut off": "malformed", "tombstone": "delete"}
COLUMNS = ("probe_seq", "left_seq", "right_seq", "left_key", "right_key")
PAGE = Path(__file__).parents[2] / "services/spojoin/wire/README.md"
Pair = tuple[int, int, int, str, str]


def events() -> list[tuple[str, dict]]:
    """Kinds of messages and their contents, with few distinct values."""
    draw = random.Random(SEED)
    formats = ("avro", "json schema", "json", "json with schema")
    row = lambda at: {"id": f"t{at}", "price": draw.randrange(12), "size": draw.randrange(12)}  # noqa: E731
    made = []
    for at in range(ROWS):
        kind = draw.choice(list(BAD)) if draw.random() < 0.1 else draw.choice(formats)
        after = None if kind == "deleted" else row(at)
        made.append((kind, {"before": None, "after": after, "op": "c" if after else "d"}))
    return made


def pairs() -> list[Pair]:
    """The pairs by definition: every row with the WINDOW rows before it, in both roles."""
    rows = [event["after"] for kind, event in events() if kind not in BAD]
    found = pairs_of_rows(rows, lambda one, two: one["price"] > two["price"] and one["size"] < two["size"], WINDOW)
    return [(*seqs, rows[seqs[1]]["id"], rows[seqs[2]]["id"]) for seqs in found]


def messages(client: SchemaRegistryClient, topic: str) -> Iterator[bytes | None]:
    context = SerializationContext(topic, MessageField.VALUE)
    avro = AvroSerializer(client, json.dumps(ENVELOPE))
    other = {"subject.name.strategy": lambda *_: f"{topic}-json"}
    checked = JSONSerializer(json.dumps({"type": "object", "title": "Envelope"}), client, conf=other)
    for kind, event in events():
        match kind:
            case "json":
                yield json.dumps(event).encode()
            case "json with schema":
                yield json.dumps({"schema": {}, "payload": event}).encode()
            case "json schema":
                yield checked(event, context)
            case "unknown schema":
                yield framed(2**31 - 1, b"\x02")
            case "cut off":
                yield avro(event, context)[:-3]
            case "tombstone":
                yield None
            case _:
                yield avro(event, context)


class Results:
    """Rows by Confluent's deserialiser, each once by the readers' rule of the headers probe and row."""

    def __init__(self, bootstrap: str, client: SchemaRegistryClient, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._read = AvroDeserializer(client)
        self._context = SerializationContext(topic, MessageField.VALUE)
        self._last = (-1, 0)
        self.rows: list[Pair] = []

    def read_on(self) -> None:
        for message in self._consumer.consume(500, 0.2):
            headers = dict(message.headers())
            if "spojoin-seq" not in headers:
                assert message.value() is None
                continue
            place = (int(headers["spojoin-seq"]), int(headers.get("spojoin-row", b"1000000")))
            if place > self._last:
                self._last = place
                self.rows.append(tuple(self._read(message.value(), self._context).values()))

    def close(self) -> None:
        self._consumer.close()


def test_registered_schemas_from_end_to_end(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = pairs()
    with running_registry() as url, SchemaRegistryClient({"url": url}) as client:
        settings = {"registry_url": url, "results_format": "avro", "transactions": "false", "frame_tuples": "32"}
        with served(cluster, tmp_path, QUERY, 2, settings, packing=SINK_ALONE) as running:
            results = Results(cluster.broker.bootstrap, client, topic_name("registered", Topic.RESULTS))
            try:
                sent = [*messages(client, running.topics["trades"])]
                send(cluster, running, sent[: ROWS // 2])
                until(running, results, lambda: len(results.rows) > len(expected) // 4)
                running.kill("sink")
                send(cluster, running, sent[ROWS // 2 :])
                until(running, results, lambda: len(results.rows) >= len(expected))
            finally:
                results.close()
            check_refused(running)
            check_sample(cluster.broker.bootstrap, url, dict(zip(COLUMNS, expected[0], strict=True)), capsys)
            check_flow_page(
                cluster.broker.bootstrap, running, load_settings(query_file="q", registry_url=url), expected
            )
        assert client.get_latest_version("registered.results-value").schema.schema_type == "AVRO"
    assert results.rows == expected


def check_sample(bootstrap: str, url: str, first: dict, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the page's Python reader, apart from its addresses, works and ends."""
    text = PAGE.read_text().partition("In Python, Avro:\n")[2].partition("\nIn Python, frames")[0]
    code = textwrap.dedent(text).replace("localhost:9092", bootstrap).replace("http://localhost:8081", url)
    code = code.replace("q.results", "registered.results").replace("while True:", "for _ in range(60):")
    capsys.readouterr()
    exec(compile(code, str(PAGE), "exec"), {})
    assert ast.literal_eval(capsys.readouterr().out.splitlines()[0]) == first


def check_flow_page(bootstrap: str, running: Served, settings: Settings, expected: list[Pair]) -> None:
    """The latest rows as the flow's page shows them."""
    log, clock = KafkaLog(KafkaConfig(bootstrap)), SystemClock()
    subject = Subject.of(running.query, 2, running.topics)
    watch = LogWatch(log, subject, clock, AvroResults(RegisteredResults(settings), clock))
    try:
        watch.look()
    finally:
        watch.close()
    assert watch.news is not None, watch.trouble
    assert watch.news.results == ([*COLUMNS], [[str(value) for value in pair] for pair in expected[-SHOWN:][::-1]])


def check_refused(running: Served) -> None:
    counts = Counter(BAD[kind] for kind, _ in events() if kind in BAD)
    for reason, count in counts.items():
        assert running.measured(SINK_ALONE, "spojoin_dead_letters_total", reason=reason) == count


def send(cluster: LocalCluster, running: Served, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": cluster.broker.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(running.topics["trades"], value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def until(running: Served, results: Results, is_done) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        running.supervisor.tend()
        results.read_on()
        assert time.monotonic() < deadline, f"{len(results.rows)} rows"
    for _ in itertools.repeat(None, 3):  # surplus results would come now
        results.read_on()
