"""The rows of a sink whose partition has those of its keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.kernels.murmur2 import murmur2
from spojoin.protocol.result_partitions import partitions_of
from spojoin.roles.sink.key_share import own_rows, partitions_of_keys
from spojoin.roles.sink.pairs import Answers

FRAME = 7


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_java_clients(key: bytes, signed: int):
    found = murmur2(np.frombuffer(b"before" + key, np.uint8), np.array([6, 6 + len(key)]))
    assert found.astype(np.int32).tolist() == [signed]
    assert partitions_of_keys([key], 5, FRAME).tolist() == [(signed & 0x7FFFFFFF) % 5]


def test_rows_without_a_key_are_where_the_frame_counts():
    keys = [None, b"abc", None]
    for frame_id in range(6):
        found = partitions_of_keys(keys, 3, frame_id).tolist()
        assert found == [frame_id % 3, 479470107 % 3, frame_id % 3]
    assert partitions_of_keys([], 3, FRAME).tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.sampled_from([b"", b"a", b"b", "ä".encode(), b"long" * 9]))),
    st.integers(1, 4),
)
def test_each_row_is_in_one_partition_with_its_number(rows: list[tuple[int, bytes | None]], count: int):
    rows.sort(key=lambda row: row[0])
    probes, keys = np.array([probe for probe, _ in rows], np.int64), [key for _, key in rows]
    batch = pa.RecordBatch.from_pydict({"at": [*range(len(rows))], "k": pa.array(keys, pa.binary())})
    whole = Answers(batch, probes, pa.array([f"{n}" for n in range(len(rows))], pa.string()), matches=len(rows))
    found, homes = [], {}
    for share in partitions_of(count, by_key=True):
        own = own_rows(whole, "k", share, FRAME)
        assert own.matches == whole.matches
        places = zip(own.probes, own.numbers, strict=True)
        found += zip(places, own.rows.column("at").to_pylist(), own.traces.to_pylist(), strict=True)
        for key in own.rows.column("k").to_pylist():
            assert homes.setdefault(key, share.number) == share.number
    numbers = [sum(1 for earlier in probes[:at] if earlier == probe) for at, probe in enumerate(probes)]
    expected = [((probe, number), at, f"{at}") for at, (probe, number) in enumerate(zip(probes, numbers, strict=True))]
    assert sorted(found) == expected
