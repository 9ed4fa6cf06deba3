"""The feed and the checker on the real broker: rows arrive exactly and in order, and verdicts are correct."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from loadgen.check import checker
from loadgen.check.history import CheckPlan, CheckWay
from loadgen.check.judging import ProbeSample
from loadgen.check.reading import CheckedTopics
from loadgen.load import feed, spark, workloads
from loadgen.load.feed import FileFormat, MessageFormat, Pace, Schedule, Target
from loadgen.load.spark import Kafka
from loadgen.window import window_of
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.query.load import parse_query
from tests.support.long import long_only

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROWS = 1500
QUERY = """
name: {name}
streams:
  {name}trips:
    schema: {{distance: double, air_time: double}}
    time: time_hour
    key: flight_id
sql: |
  SELECT * FROM {name}trips AS l JOIN {name}trips AS r
  ON l.distance > r.distance AND l.air_time < r.air_time
  WINDOW AS (SLIDE INTERVAL '10' ON '100')
order: {order}
"""


@pytest.fixture(scope="module")
def session():
    running = spark.start()
    yield running
    running.stop()


@pytest.fixture
def kafka(bootstrap):
    return Kafka(bootstrap)


@pytest.fixture
def make_topics(bootstrap):
    log = KafkaLog(KafkaConfig(bootstrap))
    yield log.create_topics
    log.close()


def flights():
    """Flights of some days in time order, some without air time or without a name."""
    table = workloads.flights(by_time=True).select(["flight_id", "distance", "air_time", "time_hour", "origin"])
    names = pc.if_else(pc.equal(pc.bit_wise_and(table["flight_id"], 31), 7), None, table["flight_id"])
    return table.set_column(0, "flight_id", names).slice(0, ROWS)


def read(bootstrap, topic, partition):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, 0)])
        messages = []
        while len(messages) < end:
            messages += consumer.consume(end, timeout=1.0)
        return [m.value() for m in messages]
    finally:
        consumer.close()


def decoded(messages, message, columns):
    if message is MessageFormat.JSON:
        return [json.loads(m) for m in messages]
    if message is MessageFormat.ARROW:
        return [row for m in messages for row in pa.ipc.open_stream(m).read_all().to_pylist()]
    cells = [m.decode().split(",") for m in messages]
    return [dict(zip(columns, (c or None for c in row), strict=True)) for row in cells]


@pytest.mark.parametrize("message", list(MessageFormat))
def test_a_table_arrives_whole_and_in_order(session, kafka, bootstrap, make_topics, unique, message):
    table, topic = flights(), f"in.{unique}"
    make_topics({topic: 3})
    feed.feed_table(session, table, Target(kafka, topic, 3, message, rows_per_message=100)).wait()
    for partition in range(3):
        expected = table.take(np.arange(partition, ROWS, 3)).to_pylist()
        found = decoded(read(bootstrap, topic, partition), message, table.column_names)
        if message is MessageFormat.CSV:
            expected = [{k: None if v is None else str(v) for k, v in row.items()} for row in expected]
        assert found == expected


def test_a_paced_replay_takes_its_time_and_ends(session, kafka, bootstrap, make_topics, unique):
    table, topic = flights().slice(0, 300), f"in.{unique}"
    make_topics({topic: 1})
    running = feed.feed_table(session, table, Target(kafka, topic), Pace(rows_per_second=200))
    assert running.schedule is Schedule.PACED
    running.wait()
    assert decoded(read(bootstrap, topic, 0), MessageFormat.JSON, []) == table.to_pylist()
    assert sum(p["numInputRows"] > 0 for p in running.query.recentProgress) == 1.5 * feed.PACED_BATCHES_PER_SECOND
    assert not running.folder.exists()


@pytest.mark.parametrize(
    "pace",
    [
        Pace(rows_per_second=1600),
        Pace(rows_per_second=480, time="time_hour"),
        Pace(time_factor=28_800, time="time_hour"),
    ],
)
def test_tables_go_side_by_side(session, kafka, bootstrap, make_topics, unique, pace):
    tables = [flights().slice(0, 300), flights().slice(100, 100)]
    topics = [f"in.{unique}.{number}" for number in range(len(tables))]
    make_topics(dict.fromkeys(topics, 1))
    targets = [Target(kafka, topic) for topic in topics]
    running = feed.feed_tables(session, [*zip(tables, targets, strict=True)], pace)
    running.wait()
    for table, topic in zip(tables, topics, strict=True):
        assert decoded(read(bootstrap, topic, 0), MessageFormat.JSON, []) == table.to_pylist()
    batches = [[s["numInputRows"] for s in p["sources"]] for p in running.query.recentProgress if p["numInputRows"]]
    assert batches == pieces(tables, pace)


def pieces(tables, pace):
    """Rows of each table in each micro-batch: at an equal rate, by the hour, or from the hour of each 60th row on."""
    if pace.time is None:
        return [[150, 50]] * 2
    hours = [[time[:13] for time in table["time_hour"].to_pylist()] for table in tables]
    every = sorted(itertools.chain(*hours))
    edges = sorted({*every[::60]} if pace.rows_per_second else {*every})
    spans = [*itertools.pairwise(edges), (edges[-1], "~")]
    return [[sum(begin <= hour < end for hour in each) for each in hours] for begin, end in spans]


def test_line_files_are_sent_byte_for_byte(session, kafka, bootstrap, make_topics, unique, tmp_path):
    topic = f"in.{unique}"
    make_topics({topic: 1})
    lines = ['{"a": 1.50,  "b":"ü"}', "not json at all", '{"a":2}']
    (tmp_path / "rows.json").write_text("\n".join(lines) + "\n")
    feed.feed_files(session, tmp_path, FileFormat.JSON, Target(kafka, topic)).wait()
    assert [m.decode() for m in read(bootstrap, topic, 0)] == lines


def test_the_rate_source_gives_the_workload(session, kafka, bootstrap, make_topics, unique):
    topic = f"in.{unique}"
    make_topics({topic: 1})
    running = feed.feed_rate(session, "zipf", 500, Target(kafka, topic))
    try:
        for _ in range(60):
            running.query.awaitTermination(1)
            if running.rows >= 500:
                break
    finally:
        running.stop()
    found = decoded(read(bootstrap, topic, 0), MessageFormat.JSON, [])
    expected = workloads.generate("zipf", len(found))
    assert len(found) >= 500
    assert [(row["id"], row["a"], row["b"]) for row in found] == [
        (row["id"], row["a"], row["b"]) for row in expected.to_pylist()
    ]


# --- the checker ------------------------------------------------------------------------------------------------------


def is_pair(left, right):
    """Whether two flights join; one without air time never does."""
    if None in (left["air_time"], right["air_time"]):
        return False
    return left["distance"] > right["distance"] and left["air_time"] < right["air_time"]


def count_rows(table):
    """The query's results by definition, in plain Python, over the accepted rows in the table's order."""
    rows = [r for r in table.to_pylist() if r["flight_id"] is not None]
    for t, row in enumerate(rows):
        window = rows[window_of(t, 100, 10)]
        left = sum(is_pair(row, u) for u in window)
        right = sum(is_pair(u, row) for u in window)
        yield {"key": row["flight_id"], "matches": left + right, "as_left": left, "as_right": right}


def publish(bootstrap, query, table, rows, *, letters=True, results=None):
    """Publish results in frames of 400, each sent twice, and dead letters, as the services would."""
    producer = Producer({"bootstrap.servers": bootstrap})
    stream = query.streams[0].name
    rows = [{"seq": seq, "stream": stream, **row} for seq, row in enumerate(rows)]
    for frame, first in enumerate(range(0, len(rows), 400)):
        batch = pa.RecordBatch.from_pylist(rows[first : first + 400])
        headers = {"frame": frame, "begin": 0, "end": batch.num_rows, "last": 1}
        for _ in range(2):
            producer.produce(
                results or f"{query.name}.results",
                feed.ipc_bytes(batch),
                headers={f"spojoin-{k}": str(v).encode() for k, v in headers.items()},
            )
    for offset in np.flatnonzero(table["flight_id"].is_null().to_numpy()).tolist() if letters else ():
        headers = {"reason": "null", "source-partition": 0, "source-offset": offset, "source-row": 0}
        producer.produce(f"in.{stream}.dlq", b"", headers={f"spojoin-{k}": str(v) for k, v in headers.items()})
    producer.flush()


@pytest.mark.parametrize("order", ["arrival", long_only("event_time")])
def test_right_results_are_exact_and_one_wrong_count_is_not(session, kafka, bootstrap, make_topics, unique, order):
    query, table = parse_query(QUERY.format(name=unique, order=order)), flights()
    topic = f"in.{unique}trips"
    make_topics({topic: 1, f"{topic}.dlq": 1, f"{unique}.results": 1})
    feed.feed_table(session, table, Target(kafka, topic)).wait()
    rows = list(count_rows(table))
    publish(bootstrap, query, table, rows)

    verdict = checker.check(session, query, CheckedTopics(kafka))
    assert verdict.is_exact, verdict
    assert verdict.tuples == len(rows)
    assert verdict.rejected == {"null": ROWS - len(rows)}
    assert verdict.rejected["null"] > 0
    assert verdict.matches == sum(row["matches"] for row in rows) > 0
    assert verdict.resent == -(-len(rows) // 400)

    rows[700]["as_right"] += 1
    rows[700]["matches"] += 1
    publish_wrong = parse_query(
        QUERY.format(name=unique, order=order).replace(f"name: {unique}\n", f"name: {unique}w\n", 1)
    )
    make_topics({f"{unique}w.results": 1})
    publish(bootstrap, publish_wrong, table, rows)
    verdict = checker.check(session, publish_wrong, CheckedTopics(kafka))
    assert not verdict.is_exact
    assert verdict.false_positives == 1
    assert verdict.first_difference.startswith("probe 700:")


@pytest.mark.parametrize("order", [long_only("arrival"), "event_time"])
def test_a_history_finds_a_wrong_row_outside_the_sample(session, kafka, bootstrap, make_topics, unique, order):
    query, table = parse_query(QUERY.format(name=unique, order=order)), flights()
    topic = f"in.{unique}trips"
    make_topics({topic: 1, f"{topic}.dlq": 1, f"{unique}.results": 1, f"{unique}.wrong": 1})
    feed.feed_table(session, table, Target(kafka, topic)).wait()
    rows = list(count_rows(table))
    publish(bootstrap, query, table, rows)
    plan = CheckPlan(ProbeSample(20, seed=3), CheckWay.HISTORY)
    verdict = checker.check(session, query, CheckedTopics(kafka), plan)
    assert verdict.is_exact, verdict
    assert (verdict.history_rows, verdict.probes_checked) == (len(rows), 20)
    assert f"every one of {len(rows):,} result rows by a history on Spark" in verdict.checked

    wrong = 700
    assert wrong not in plan.sample.of(len(rows))
    rows[wrong]["as_left"] += 1
    rows[wrong]["as_right"] -= 1
    publish(bootstrap, query, table, rows, letters=False, results=f"{unique}.wrong")
    topics = CheckedTopics(kafka, results=f"{unique}.wrong")
    assert checker.check(session, query, topics, CheckPlan(plan.sample)).is_exact  # which the sample doesn't see
    verdict = checker.check(session, query, topics, plan)
    assert not verdict.is_exact
    assert verdict.first_difference.startswith("a history by Spark: result row 700 is (700,")


def test_without_results_everything_is_missing(session, kafka, make_topics, unique):
    query, table = parse_query(QUERY.format(name=unique, order="event_time")), flights().slice(0, 100)
    make_topics({f"in.{unique}trips": 1})
    feed.feed_table(session, table, Target(kafka, f"in.{unique}trips")).wait()
    verdict = checker.check(session, query, CheckedTopics(kafka))
    assert verdict.completeness == 0
    assert not verdict.is_exact
