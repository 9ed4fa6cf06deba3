"""A client that knows no broker any more is given up; one whose brokers are only away isn't."""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson
import pytest

from spojoin.local.net import free_port
from spojoin.ports import kafka_client
from spojoin.ports.interfaces import AmbiguousAppend, BrokerTraffic
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.kafka_client import REPORTS, KnownBrokers
from spojoin.telemetry.metrics import Metrics


def report(*sources: str) -> str:
    return orjson.dumps({"brokers": {str(n): {"source": source} for n, source in enumerate(sources)}}).decode()


NONE = report("logical", "internal")


def forget(brokers: KnownBrokers) -> None:
    for _ in range(REPORTS):
        brokers.hear(NONE)


@pytest.fixture
def log() -> KafkaLog:
    return KafkaLog(KafkaConfig(f"127.0.0.1:{free_port()}"))


@pytest.mark.parametrize(
    ("reports", "are_lost"),
    [
        ([NONE] * (REPORTS - 1), False),
        ([NONE] * REPORTS, True),
        ([NONE, report("logical", "learned"), NONE], False),
        ([NONE, report("configured"), NONE], False),
        ([report("learned"), *[report()] * REPORTS], True),
    ],
)
def test_brokers_are_lost_after_some_reports_without_any(reports: list[str], are_lost: bool) -> None:
    brokers = KnownBrokers()
    for each in reports:
        brokers.hear(each)
    assert brokers.are_lost is are_lost


def test_each_report_passes_on_what_was_exchanged_since_the_last_one() -> None:
    heard: list[BrokerTraffic] = []
    brokers = KnownBrokers(heard.append)
    for first, second, sent, received in ((3, 0, 10, 700), (5, 2, 30, 900), (5, 2, 30, 900)):
        found = {"a": {"source": "learned", "req": {"Fetch": first}}, "b": {"source": "learned", "req": {}}}
        found["b"]["req"] = {"Fetch": second, "Produce": second}
        brokers.hear(orjson.dumps({"brokers": found, "tx_bytes": sent, "rx_bytes": received}).decode())
    assert heard == [
        BrokerTraffic({"Fetch": 3}, 10, 700),
        BrokerTraffic({"Fetch": 4, "Produce": 2}, 20, 200),
        BrokerTraffic({}, 0, 0),
    ]


def test_a_client_that_drops_a_broker_takes_nothing_back() -> None:
    heard: list[BrokerTraffic] = []
    brokers = KnownBrokers(heard.append)
    for fetched, sent, received in ((9, 90, 700), (2, 20, 100), (3, 25, 150)):
        found = {"a": {"source": "learned", "req": {"Fetch": fetched}}}
        brokers.hear(orjson.dumps({"brokers": found, "tx_bytes": sent, "rx_bytes": received}).decode())
    assert heard[1:] == [BrokerTraffic({}, 0, 0), BrokerTraffic({"Fetch": 1}, 5, 50)]


def test_a_service_counts_its_clients_together() -> None:
    metrics = Metrics({"query": "q", "role": "sink", "service_name": "sink"})
    metrics.kafka_traffic.add(BrokerTraffic({"Fetch": 3}, 10, 700))
    metrics.kafka_traffic.add(BrokerTraffic({"Fetch": 1, "Produce": 2}, 5, 0))
    shown = metrics.registry.get_sample_value
    of_sink = {"query": "q", "role": "sink", "service_name": "sink"}
    assert shown("spojoin_kafka_requests_total", {**of_sink, "request": "Fetch"}) == 4
    assert shown("spojoin_kafka_requests_total", {**of_sink, "request": "Produce"}) == 2
    assert shown("spojoin_kafka_sent_bytes_total", of_sink) == 15
    assert shown("spojoin_kafka_received_bytes_total", of_sink) == 700


def test_a_writer_whose_client_has_forgotten_its_brokers_ends(log: KafkaLog) -> None:
    writer = log.writer()
    writer.serve()
    forget(writer._brokers)
    with pytest.raises(AmbiguousAppend, match="finds no broker any more"):
        writer.serve()
    writer.close()


@pytest.mark.parametrize("half", ["reader", "writer"])
def test_a_client_reports_a_broker_also_while_it_is_away(
    log: KafkaLog, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(kafka_client, "REPORT_MS", 20)
    monkeypatch.setattr(KnownBrokers, "hear", lambda _, statistics: heard.append(statistics))
    client = getattr(log, half)()
    serve: Callable[[], object] = client.serve if half == "writer" else lambda: client.poll(1, 0.0)
    deadline = time.monotonic() + 60
    while len(heard) < 3 and time.monotonic() < deadline:
        serve()
        time.sleep(0.01)
    client.close()
    for statistics in heard[:3]:
        assert "configured" in {each["source"] for each in orjson.loads(statistics)["brokers"].values()}
    assert len(heard) >= 3
