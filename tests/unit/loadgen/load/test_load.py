"""A load is the same rows in any packets, formats and partitions."""

import numpy as np
import pytest

from loadgen.check.rows import rows_of
from loadgen.load.formats import MessageFormat
from loadgen.load.load import Arrivals, Digest, Load
from loadgen.load.load_streams import LOADS


def load(name="q1", rate=10_000.0, **options):
    return Load(LOADS[name], Arrivals(rate), rows=options.pop("rows", 500), **options)


def sent(made):
    """All packets, their rows by the stream's topic, and digests of what was sent."""
    digests = {stream.name: Digest() for stream in made.workload.streams}
    packets = list(Load(**{**{f: getattr(made, f) for f in made.__dataclass_fields__}, "digests": digests}).packets())
    rows = {}
    for packet in packets:
        found = [row for value in packet.values for row in rows_of(value, [], None)]
        assert len(found) == packet.rows
        rows.setdefault(packet.target.topic, []).extend(found)
    return packets, rows, {name: digest.hex() for name, digest in digests.items()}


@pytest.mark.parametrize("name", ["q1", "q2", "q3", "flights", "zipf", "bursty"])
@pytest.mark.parametrize("message", [MessageFormat.ARROW, MessageFormat.JSON])
def test_all_rows_go_out_in_order(name, message):
    _, rows, _ = sent(load(name, message=message, first=30, seed=2))
    for stream in LOADS[name].streams:
        assert [list(map(float_of, row.values())) for row in rows[f"in.{stream.name}"]] == [
            list(map(float_of, row.values())) for row in stream.batch(30, 500, 2).to_pylist()
        ]


def float_of(value):
    return None if value is None else float(value)


def test_the_checksum_covers_the_rows_alone():
    shapes = ({}, {"rate": 77.0, "partitions": 3}, {"message": MessageFormat.JSON}, {"batch_rows": 7})
    of = [sent(load(**shape))[2] for shape in shapes]
    assert of[0] == of[1] == of[2] == of[3]
    assert of[0] != sent(load(seed=1))[2]
    assert of[0]["yellow"] != of[0]["green"]
    assert sent(load(rows=499))[2] != of[0]


@pytest.mark.parametrize("message", [MessageFormat.ARROW, MessageFormat.JSON])
@pytest.mark.parametrize("rate", [3.0, 10_000.0, 2_000_000.0])
def test_packets_are_due_in_order_when_their_last_row_is(message, rate):
    packets, _, _ = sent(load(rate=rate, message=message, rows=5_000))
    due = [packet.due_s for packet in packets]
    assert due == sorted(due)
    arrived = np.cumsum([packet.rows for packet in packets])
    # With two streams, one may be a packet ahead.
    assert all(abs(s * rate - (n - 1)) <= max(p.rows for p in packets) for s, n in zip(due, arrived, strict=True))
