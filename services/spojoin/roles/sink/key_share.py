"""The rows of a sink whose partition has those of its keys (rule P20.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.kernels.murmur2 import murmur2
from spojoin.kernels.segments import places_within, run_starts
from spojoin.protocol.result_partitions import ResultPartition
from spojoin.roles.sink.pairs import Answers
from spojoin.wire.row_values import message_keys

_POSITIVE = 0x7FFFFFFF


def own_rows(answers: Answers, key: str, share: ResultPartition, frame_id: int) -> Answers:
    """The rows with keys of the partition, and their numbers within their answers; key: the column of the keys."""
    assert answers.probes is not None, "rows with a key are those of a select list"
    rows = answers.rows
    keys = message_keys(rows.schema.field(key), rows.column(key))
    own = partitions_of_keys(keys, share.count, frame_id) == share.number
    wanted = pa.array(own)
    return replace(
        answers,
        rows=rows.filter(wanted),
        probes=answers.probes[own],
        traces=None if answers.traces is None else answers.traces.filter(wanted),
        numbers=_numbers(answers.probes)[own],
    )


def partitions_of_keys(keys: Sequence[bytes | None], count: int, frame_id: int) -> I64:
    """The partition of each of n keys, int64 (n,), as Kafka's Java clients choose it by default.

    A frame's rows without a key are in the partition where the frame counts.
    """
    given = pa.array(keys, pa.large_binary())
    _, offsets, data = given.buffers()
    ends = np.frombuffer(offsets, np.int64, len(keys) + 1)
    hashes = murmur2(np.frombuffer(data or b"", np.uint8), ends)
    found = (hashes & _POSITIVE).astype(np.int64) % count
    return np.where(given.is_null().to_numpy(zero_copy_only=False), frame_id % count, found)


def _numbers(probes: I64) -> I64:
    """The number of each of n rows within its answer, from 0, int64 (n,)."""
    return places_within(np.diff(run_starts(probes), append=len(probes)))
