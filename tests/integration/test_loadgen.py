"""The load generator on the real broker, then on all services: rows arrive unchanged, and faults leave no trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadgen.chaos.campaign import Campaign, Rules
from loadgen.chaos.driver import LocalDriver
from loadgen.chaos.plan import Fault, FaultKind
from loadgen.check.rows import rows_of
from loadgen.load.connection import Connection
from loadgen.load.formats import MessageFormat
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import Arrivals, Digest, Load
from loadgen.load.load_streams import LOADS
from loadgen.load.open_loop import Behind
from loadgen.load.produce import produce, settled
from loadgen.load.ramp.measure import Bench, StepTimes
from loadgen.load.ramp.session import tap_at_end
from spojoin.errors import Retryable
from spojoin.local.cluster import LocalCluster
from spojoin.local.serve import ServedQuery, ServePlan, serve
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.ports.kafka import KafkaLog
from spojoin.query.load import load_query

pytestmark = pytest.mark.integration

ROWS = 4_000
#: Small frames and batches, so that much is in flight whenever a fault strikes.
SETTINGS = {"frame_tuples": "256", "batch_tuples": "500", "credits_frames": "64"}


def read(log: KafkaLog, topic: str, partitions: int) -> dict[int, list[LogRecord[bytes]]]:
    """All records of a topic by partition."""
    found: dict[int, list[LogRecord[bytes]]] = {}
    for partition in range(partitions):
        source, reader = LogPartition(topic, partition), log.reader()
        reader.open(source, 0)
        end, records = log.bounds(source).end, []
        while len(records) < end:
            records += reader.poll(1_000, 1.0)
        found[partition] = records
        reader.close()
    return found


@pytest.mark.parametrize("message", [MessageFormat.ARROW, MessageFormat.JSON])
def test_rows_arrive_once_in_order_and_with_their_due_time(bootstrap: str, unique: str, message: MessageFormat) -> None:
    connection, topics = Connection(bootstrap), {"yellow": f"{unique}.y", "green": f"{unique}.g"}
    log = connection.log()
    load = settled(
        log, Load(LOADS["q1"], Arrivals(20_000.0), seed=5, rows=ROWS, message=message, batch_rows=100, topics=topics), 3
    )
    produced = produce(load, KafkaSender(connection, message), lambda _: None, lambda _: None)
    assert (produced.rows, produced.messages) == (2 * ROWS, 80 if message is MessageFormat.ARROW else 2 * ROWS)
    for stream in load.workload.streams:
        records = read(log, topics[stream.name], 3)
        in_turn = [[row for r in records[p] for row in rows_of(r.value, [], None)] for p in range(3)]
        arrived = [row for at in range(0, ROWS, 100) for row in in_turn[at // 100 % 3][at // 300 * 100 :][:100]]
        wanted = stream.batch(0, ROWS, 5)
        assert [[float(value) for value in row.values()] for row in arrived] == [
            [float(value) for value in row.values()] for row in wanted.to_pylist()
        ]
        digest = Digest()
        digest.update(wanted)
        assert produced.digests[stream.name].hex() == digest.hex()
        times = sorted({r.timestamp_ms for part in records.values() for r in part})
        # 100 rows of each stream are due every 10 ms, regardless of when they were sent.
        assert times[-1] - times[0] in (389, 390, 391)
    log.close()


@pytest.mark.spark
def test_the_spark_job_sends_the_same_rows(bootstrap: str, unique: str) -> None:
    from loadgen.load import spark_load

    connection, topics = Connection(bootstrap), {"yellow": f"{unique}.y", "green": f"{unique}.g"}
    log = connection.log()
    load = settled(log, Load(LOADS["q1"], Arrivals(2_000.0), seed=5, rows=500, first=30, topics=topics), 2)
    produced = spark_load.produce(load, connection, print)
    assert produced.rows == 1_000
    for stream in load.workload.streams:
        records = [record for part in read(log, topics[stream.name], 2).values() for record in part]
        rows = [row for record in records for row in rows_of(record.value, [], None)]
        wanted = stream.batch(30, 500, 5)
        assert sorted(rows, key=lambda row: row["trip"]) == wanted.to_pylist()
        digest = Digest()
        digest.update(wanted)
        assert produced.digests[stream.name].hex() == digest.hex()
    log.close()


def test_a_missing_broker_is_reported(unique: str) -> None:
    with pytest.raises(Retryable, match=r"127\.0\.0\.1:1 does not answer"):
        settled(Connection("127.0.0.1:1").log(), Load(LOADS["q3"], Arrivals(1.0), topics={"racks": unique}), None)


def test_a_producer_that_cannot_hold_its_rate_says_so_once(bootstrap: str, unique: str) -> None:
    connection = Connection(bootstrap)
    log = connection.log()
    load = Load(LOADS["q3"], Arrivals(1e9), rows=400_000, message=MessageFormat.JSON, topics={"racks": unique})
    warnings: list[Behind] = []
    produce(settled(log, load, 1), KafkaSender(connection, MessageFormat.JSON), warnings.append, lambda _: None)
    log.close()
    assert len(warnings) <= 1
    if warnings:
        assert warnings[0].rows < 400_000


@pytest.fixture(scope="module")
def served(own_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedQuery]:
    """All services for q1 with a small window."""
    folder: Path = tmp_path_factory.mktemp("loadgen")
    text = LOADS["q1"].query_path.read_text().replace("'10K' ON '100K'", "'500' ON '5K'")
    query_file = folder / "q1.yaml"
    query_file.write_text(text)
    plan = ServePlan(
        load_query(query_file), query_file, 1, settings=SETTINGS, partitions=2, logs=folder / "logs", restarts_max=100
    )
    with serve(plan, own_cluster.servers) as running:
        yield running


FAULTS = (
    Fault(1.0, FaultKind.KILL, "router"),
    Fault(3.0, FaultKind.PAUSE, "logical-and", 2.0),
    Fault(4.0, FaultKind.REDIS, "redis"),
    Fault(5.0, FaultKind.DELETE, "mutable-1"),
    Fault(7.0, FaultKind.BROKER, "broker"),
    Fault(9.0, FaultKind.KILL, "sink"),
    Fault(11.0, FaultKind.KILL, "pojoin-0"),
    Fault(12.0, FaultKind.KILL, "permutation"),
)


def test_a_rate_is_measured_and_then_services_survive_a_campaign(
    own_cluster: LocalCluster, served: ServedQuery
) -> None:
    connection = Connection(served.servers.bootstrap)
    log = connection.log()
    load = settled(log, Load(LOADS["q1"], Arrivals(1_000.0), seed=11), None)
    assert load.partitions == 2
    tap = tap_at_end(log, served.query, load)
    bench = Bench(load, tap, lambda: KafkaSender(connection), StepTimes(0.5, 2.0, 120.0), served.supervisor.tend)
    found = bench.measure(1_000.0)
    tap.close()
    assert found.is_drained
    assert tap.tuples == 2 * bench.rows == 3_500
    assert len(found.latencies_ms) > 1_000
    assert found.latencies_ms.min() > 0

    rows = 7_000
    campaign = Campaign(
        LocalDriver(own_cluster, served.supervisor),
        log,
        lambda: KafkaSender(connection),
        served.query,
        replace(load, arrivals=Arrivals(2 * rows / 14), first=bench.rows, rows=rows),
        FAULTS,
        Rules(stall_s=120.0),
        note=print,
        show=lambda _: None,
    )
    outcome = campaign.run()
    log.close()
    assert outcome.is_passed, outcome
    assert outcome.verdict.tuples == 2 * rows + 3_500
    assert outcome.verdict.matches > 0
    assert outcome.rows == outcome.out == 2 * rows
