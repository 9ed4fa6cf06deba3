"""Rows of several inputs, merged into one order."""

from __future__ import annotations

import numpy as np

from spojoin.roles.router.physical_input import Taken
from spojoin.roles.router.queue import Origins, StreamColumns, concat, concat_origins
from spojoin.wire.records import I64


def merged(taken: list[Taken], times: list[I64], streams: int) -> tuple[Origins, list[StreamColumns | None]]:
    """Rows of several inputs in one order: by their `times`, ties by stream, partition and place."""
    origins = concat_origins([each for _, each, _ in taken]).take(_order(taken, np.concatenate(times)))
    return origins, [_stream_columns(taken, times, stream) for stream in range(streams)]


def _stream_columns(taken: list[Taken], times: list[I64], stream: int) -> StreamColumns | None:
    own = [number for number, part in enumerate(taken) if part[0].stream == stream]
    if not own:
        return None
    columns = concat([taken[number][2] for number in own])
    order = _order([taken[number] for number in own], np.concatenate([times[number] for number in own]))
    return columns if (order[:-1] < order[1:]).all() else columns.take(order)


def _order(taken: list[Taken], times: I64) -> I64:
    ids = np.concatenate([origins.ids for _, origins, _ in taken])
    streams = np.concatenate([np.full(len(origins), source.stream) for source, origins, _ in taken])
    partitions = np.concatenate([np.full(len(origins), source.partition) for source, origins, _ in taken])
    return np.lexsort((ids, partitions, streams, times)).astype(np.int64)
