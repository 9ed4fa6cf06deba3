"""Run by a pod's Python, from its standard input: sends or stores numbered rows, or prints results.

`feed BOOTSTRAP TOPIC RATE` sends until /tmp/stop is there, then prints how many; `results BOOTSTRAP TOPIC` prints a
JSON line a message of all partitions, by frame: generation, frame, begin, end, whether it is the frame's last, rows;
`topics BOOTSTRAP`, names.
`silence BOOTSTRAP TOPIC` listens until /tmp/heard is there, then prints the longest time between two results.
`history FOLDER ROWS` writes Parquet, two files of it; `matches FOLDER` prints a JSON line a row.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

STOP, HEARD = Path("/tmp/stop"), Path("/tmp/heard")
BATCH_S = 0.05
TIMEOUT_S = 30
PLACE = ("generation", "frame")
COLUMNS = ["seq", "key", "as_left", "as_right"]


def row(number):
    """A row of the table that is sent; the tests compute the same one."""
    return {"id": number, "draw": number * 7919 % 40 / 4, "cooling": number * 104729 % 37}


def feed(bootstrap, topic, rate):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    sent, began = 0, time.monotonic()
    while not STOP.exists():
        while sent < (time.monotonic() - began) * float(rate):
            producer.produce(topic, json.dumps(row(sent)).encode(), partition=0)
            sent += 1
        producer.poll(0)
        time.sleep(BATCH_S)
    if left := producer.flush(TIMEOUT_S):
        raise SystemExit(f"{left} rows were not sent")
    print(sent)


def results(bootstrap, topic):
    group = {"group.id": "unused", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group, "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    found = []
    for number in partitions:
        here = list(messages(consumer, TopicPartition(topic, number, 0)))
        if any(int(headers["spojoin-frame"]) % len(partitions) != number for headers, _ in here):
            raise SystemExit(f"partition {number} has another one's frame")
        found += here
    consumer.close()
    for headers, value in sorted(found, key=lambda each: [int(each[0][f"spojoin-{name}"]) for name in PLACE]):
        show(headers, value)


def messages(consumer, start):
    """Headers and value of each message that a partition holds now; while rows flow, its end moves on."""
    _, end = consumer.get_watermark_offsets(start, timeout=TIMEOUT_S)
    consumer.assign([start])
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise SystemExit(f"{start.topic} is silent")
        if message.error() is None:
            if message.offset() >= end:
                return
            yield dict(message.headers()), message.value()
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise SystemExit(str(message.error()))


def silence(bootstrap, topic):
    group = {"group.id": "unused", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, end)])
    longest_s, heard = 0.0, time.monotonic()
    while not HEARD.exists():
        message = consumer.poll(BATCH_S)
        now = time.monotonic()
        longest_s = max(longest_s, now - heard)
        if message is not None and not message.error():
            heard = now
    HEARD.unlink()
    print(longest_s)


def show(headers, value):
    generation, frame, begin, end = (
        int(headers[f"spojoin-{name}"]) for name in ("generation", "frame", "begin", "end")
    )
    table = pa.ipc.open_stream(value).read_all().select(COLUMNS)
    rows = [list(each.values()) for each in table.to_pylist()]
    print(json.dumps([generation, frame, begin, end, headers["spojoin-last"] == b"1", rows]))


def topics(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    print(json.dumps(sorted(admin.list_topics(timeout=TIMEOUT_S).topics)))


def history(folder, rows):
    Path(folder).mkdir()
    table = pa.Table.from_pylist([row(number) for number in range(int(rows))])
    half = len(table) // 2
    for name, part in (("late", table.slice(half)), ("early", table.slice(0, half))):
        pq.write_table(part, f"{folder}/{name}.parquet")


def matches(folder):
    for file in sorted(Path(folder).glob("*.parquet")):
        for each in pq.read_table(file).select(COLUMNS).to_pylist():
            print(json.dumps(list(each.values())))


if __name__ == "__main__":
    commands = (feed, results, topics, silence, history, matches)
    {command.__name__: command for command in commands}[sys.argv[1]](*sys.argv[2:])
