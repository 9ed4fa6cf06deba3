"""Rows of a select list on the real broker: JSON with keys and traces, Arrow in Python; headers take part in the join.

The sink writes without transactions and is killed midway. The oracle is a plain loop over the rows that were sent.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import spojoin
from spojoin.local.cluster import LocalCluster
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.ordered_results import OrderedResults
from tests.support.nested_loop import pairs_of_rows
from tests.support.served import PATIENCE_S, SINK_ALONE, Served, served

pytestmark = pytest.mark.integration

ROWS, WINDOW, SEED = 600, 40, 11
#: The names `matches` and `probe_seq` have a meaning in other outputs, but not here.
SQL = f"""
sql: |
  SELECT r.seq AS matches, l.seq AS probe_seq, l.id || '/' || r.id AS pair, r.headers['tenant'] AS tenant,
    l.day, r.weight, l.ratio, r.raw, l.at
  FROM trades AS l JOIN trades AS r
  ON upper(l.headers['region']) = upper(r.headers['region']) AND l.price > r.price
  WHERE l.headers['kind'] = 'trade' AND r.headers['kind'] = 'trade'
  WINDOW AS (SLIDE INTERVAL '1' ON '{WINDOW}')
"""
SCHEMA = """
streams:
  trades:
    schema: {id: string, price: long, day: date, weight: 'decimal(9,3)', ratio: double, raw: binary, at: timestamp}
"""
JSON_QUERY = f"name: row-forms{SCHEMA}{SQL}key: tenant\ntrace: true\n"
ARROW_QUERY = f"name: arrow-forms{SCHEMA}{SQL}"
PAGE = Path(__file__).parents[2] / "services/spojoin/wire/README.md"
COLUMNS = ("matches", "probe_seq", "pair", "tenant", "day", "weight", "ratio", "raw", "at")


@dataclass(frozen=True)
class Sent:
    """A record of the input."""

    row: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class Found:
    """A message of the results."""

    row: dict[str, Any]
    key: str | None
    trace: str | None


def records() -> list[Sent]:
    """The records, with few distinct values; each header is sometimes missing."""
    draw = random.Random(SEED)
    made = []
    for at in range(ROWS):
        row = {
            "id": f"t{at}",
            "price": draw.randrange(6),
            "day": f"2026-01-{draw.randrange(1, 29):02d}",
            "weight": f"{draw.randrange(100_000)}.{draw.randrange(1000):03d}",
            "ratio": draw.choice([0.5, 1e300, None]),
            "raw": draw.choice(["AAE=", None]),
            "at": f"2026-01-02T03:04:{draw.randrange(60):02d}" + draw.choice(["", ".250000"]),
        }
        headers = {
            "kind": draw.choice(["trade", "trade", "trade", "quote"]),
            "region": draw.choice(["eu", "EU", "us"]),
            "tenant": draw.choice(["a", "b"]),
            "traceparent": f"00-{at:032x}-{at:016x}-01",
        }
        made.append(Sent(row, {name: value for name, value in headers.items() if draw.random() < 0.9}))
    return made


def answers() -> list[Found]:
    """The answers by definition, over the rows that pass the filter."""
    kept = [each for each in records() if each.headers.get("kind") == "trade"]
    found = pairs_of_rows(kept, joins, WINDOW)
    return [answer(kept, left, right, kept[probe]) for probe, left, right in found]


def joins(left: Sent, right: Sent) -> bool:
    regions = [each.headers.get("region") for each in (left, right)]
    return None not in regions and regions[0].upper() == regions[1].upper() and left.row["price"] > right.row["price"]


def answer(kept: list[Sent], left: int, right: int, probe: Sent) -> Found:
    one, two = kept[left], kept[right]
    tenant = two.headers.get("tenant")
    row = {
        "matches": right,
        "probe_seq": left,
        "pair": f"{one.row['id']}/{two.row['id']}",
        "tenant": tenant,
        "day": one.row["day"],
        "weight": Decimal(two.row["weight"]),
        "ratio": one.row["ratio"],
        "raw": two.row["raw"],
        "at": one.row["at"],
    }
    return Found(row, tenant, probe.headers.get("traceparent"))


class Results:
    """Messages of a partition by the readers' rule of the headers probe and row."""

    def __init__(self, bootstrap: str, query: str, partition: int = 0) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        self._consumer.assign([TopicPartition(topic_name(query, Topic.RESULTS), partition, OFFSET_BEGINNING)])
        self._last = (-1, 0)
        self.found: list[Found] = []

    def read_on(self) -> None:
        for message in self._consumer.consume(500, 0.2):
            headers = dict(message.headers())
            if message.value() is None:
                assert message.key() is None
                continue
            place = (int(headers["spojoin-seq"]), int(headers.get("spojoin-row", b"1000000")))
            if place > self._last:
                self._last = place
                self.found.append(row_of(message.value(), message.key(), headers.get("traceparent")))

    def close(self) -> None:
        self._consumer.close()


def row_of(value: bytes, key: bytes | None, trace: bytes | None) -> Found:
    row = json.loads(value, parse_float=number)
    assert tuple(row) == COLUMNS
    return Found(row, key and key.decode(), trace and trace.decode())


def number(text: str) -> Decimal | float:
    """A number from text: here decimals have three decimal places, doubles one or an exponent."""
    return Decimal(text) if len(text.partition(".")[2]) == 3 else float(text)


def test_rows_as_json_with_keys_and_traces(
    cluster: LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = answers()
    assert {each.key for each in expected} == {None, "a", "b"}
    settings = {"results_format": "json", "transactions": "false", "frame_tuples": "32", "batch_tuples": "64"}
    with served(cluster, tmp_path, JSON_QUERY, 2, settings, packing=SINK_ALONE) as running:
        results = Results(cluster.broker.bootstrap, "row-forms")
        try:
            send(cluster, running, records()[: ROWS // 2])
            until(running, results.read_on, lambda: len(results.found) > len(expected) // 4)
            running.kill("sink")
            send(cluster, running, records()[ROWS // 2 :])
            until(running, results.read_on, lambda: len(results.found) >= len(expected))
            for _ in itertools.repeat(None, 3):  # surplus results would come now
                results.read_on()
        finally:
            results.close()
        check_sample(cluster.broker.bootstrap, results.found[0], capsys)
    assert results.found == expected


def test_rows_with_a_key_stay_in_its_partition_and_come_in_the_order_of_the_log(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    expected, sinks, bootstrap = answers(), 3, cluster.broker.bootstrap
    text = JSON_QUERY.replace("row-forms", "rows-by-key")
    settings = {"results_format": "json", "transactions": "false", "frame_tuples": "32", "batch_tuples": "64"}
    with served(cluster, tmp_path, text, 2, {**settings, "sinks": f"{sinks}"}, packing=SINK_ALONE) as running:
        partitions = [Results(bootstrap, "rows-by-key", number) for number in range(sinks)]

        def read_on() -> None:
            for each in partitions:
                each.read_on()

        def count() -> int:
            return sum(len(each.found) for each in partitions)

        try:
            send(cluster, running, records()[: ROWS // 2])
            until(running, read_on, lambda: count() > len(expected) // 4)
            running.kill("sink-1")
            send(cluster, running, records()[ROWS // 2 :])
            until(running, read_on, lambda: count() >= len(expected))
            read_on()  # surplus results would come now
        finally:
            for each in partitions:
                each.close()
        homes = [{row.key for row in each.found} - {None} for each in partitions]
        assert sorted(key for home in homes for key in home) == ["a", "b"]
        for key, home in itertools.product("ab", range(sinks)):
            if key in homes[home]:
                of_key = [row for row in partitions[home].found if row.key == key]
                assert of_key == [row for row in expected if row.key == key]
        assert list(in_order(bootstrap, "rows-by-key")) == expected


def in_order(bootstrap: str, query: str) -> Iterator[Found]:
    """The rows that readers of all partitions get."""
    log = KafkaLog(KafkaConfig(bootstrap))
    results = OrderedResults(log, topic_name(query, Topic.RESULTS))
    while not results.is_at_end:
        for record in results.poll(1.0):
            if record.value:
                yield row_of(record.value, record.key, dict(record.headers).get("traceparent"))
    results.close()
    log.close()


def check_sample(bootstrap: str, first: Found, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the page's Python reader, apart from its address, works and ends."""
    text = PAGE.read_text().partition("In Python, JSON:\n")[2].partition("\nIn Python, Avro")[0]
    code = textwrap.dedent(text).replace("localhost:9092", bootstrap).replace("q.results", "row-forms.results")
    capsys.readouterr()
    exec(compile(code.replace("while True:", "for _ in range(60):"), str(PAGE), "exec"), {})
    key = first.key and first.key.encode()
    row = {name: float(value) if isinstance(value, Decimal) else value for name, value in first.row.items()}
    assert capsys.readouterr().out.splitlines()[0] == f"{key} {row} {first.trace and first.trace.encode()}"


def test_rows_as_arrow_in_python(cluster: LocalCluster, tmp_path: Path) -> None:
    """`spojoin.connect` gives the loop's rows while the sink is killed, both by `for` and by `async for`."""
    expected = [each.row for each in answers()]
    settings = {"transactions": "false", "frame_tuples": "32", "batch_tuples": "64"}
    with served(cluster, tmp_path, ARROW_QUERY, 2, settings, packing=SINK_ALONE) as running:
        connection = spojoin.connect(cluster.broker.bootstrap)
        with connection.results("arrow-forms") as results:
            send(cluster, running, records()[: ROWS // 2])
            found = next(results).to_pylist()
            running.kill("sink")
            send(cluster, running, records()[ROWS // 2 :])
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < len(expected):
                running.supervisor.tend()
                found += [
                    row for batch in connection.results("arrow-forms", follow=False) for row in batch.to_pylist()
                ][len(found) :]
                assert time.monotonic() < deadline
        assert [spelled(row) for row in found] == expected
        assert asyncio.run(rows_of(connection)) == expected
        assert list(connection.results("arrow-forms", from_start=False, follow=False)) == []


async def rows_of(connection: Any) -> list[dict[str, Any]]:
    return [
        spelled(row) async for batch in connection.results("arrow-forms", follow=False) for row in batch.to_pylist()
    ]


def spelled(row: dict[str, Any]) -> dict[str, Any]:
    """An Arrow row in the loop's notation."""
    raw = row["raw"] and base64.b64encode(row["raw"]).decode()
    return row | {"raw": raw, "day": row["day"].isoformat(), "at": row["at"].isoformat()}


def send(cluster: LocalCluster, running: Served, values: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": cluster.broker.bootstrap, "enable.idempotence": True})
    for each in values:
        headers = [*each.headers.items()]
        producer.produce(running.topics["trades"], json.dumps(each.row).encode(), partition=0, headers=headers)
    assert producer.flush(PATIENCE_S) == 0


def until(running: Served, read_on: Callable[[], None], is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_done():
        running.supervisor.tend()
        read_on()
        assert time.monotonic() < deadline
