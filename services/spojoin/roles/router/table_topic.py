"""A compacted topic as a table: for each key, the rows of its last message.

A message without a value deletes its key's rows, and so does one that can't be read: compaction may already have
removed the previous message, and a table's content must not depend on that. A message without a key is a dead letter.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spojoin.arrays import I64, U8
from spojoin.columns.stream_columns import no_payload
from spojoin.model import Query
from spojoin.protocol.machine import TableRows
from spojoin.reading.original_rows import original_message
from spojoin.reading.parsing import Message
from spojoin.roles.router.physical_input import rows_where
from spojoin.roles.router.queue import StreamColumns, concat_columns
from spojoin.roles.router.table_versions import RIGHT
from spojoin.wire.columns import NO_KEYS
from spojoin.wire.records import DeadLetter, Rows, nothing_came

NO_KEY = "no-key"


class KeyedMessage(Message, Protocol):
    """A message of a compacted topic."""

    @property
    def key(self) -> bytes | None:
        """The key by which the topic is compacted."""
        ...


#: (stream, partition, messages) -> the rows in them
ParseMessages = Callable[[int, int, Sequence[Any]], Rows]


@dataclass(slots=True)
class _Messages:
    """Messages in order, with their rows, including at least the last message of each key.

    offsets, sums: int64 (n,), offsets and checksums; keys: (n,); read: the offset after the last message read
    """

    offsets: I64
    sums: I64
    keys: pa.BinaryArray
    pieces: list[Rows] = field(default_factory=list)
    read: int = 0


class CompactedTable:
    """Gathers the messages of a query's table, and returns its rows."""

    def __init__(self, query: Query, parse: ParseMessages) -> None:
        source = query.inputs[RIGHT].table
        self.refresh_ms = 0 if source is None else source.refresh_ms
        self._query = query
        self._parse = parse
        self._partitions: dict[int, _Messages] = {}
        self._dead: list[DeadLetter] = []

    def add_messages(self, partition: int, messages: Sequence[KeyedMessage]) -> None:
        """Take the next messages of a partition, at least one."""
        state = self._partitions.setdefault(partition, _empty())
        offsets = np.array([message.offset for message in messages], np.int64)
        sums = np.array([zlib.crc32(message.value or b"") for message in messages], np.int64)
        rows = self._parse(RIGHT, partition, messages)
        keyed = np.array([message.key is not None for message in messages])
        self._dead += [letter for letter in rows.dead if letter.key is not None]
        self._dead += [_without_key(partition, message) for message in messages if message.key is None]
        if not keyed.all():
            rows = rows_where(rows, np.isin(rows.offsets, offsets[keyed]))
        keys = pa.array([message.key for message in messages if message.key is not None], pa.binary())
        state.offsets = np.concatenate((state.offsets, offsets[keyed]))
        state.sums = np.concatenate((state.sums, sums[keyed]))
        state.keys = pa.concat_arrays([state.keys, keys])
        state.pieces.append(replace(rows, dead=[], as_it_came=nothing_came))
        state.read = int(offsets[-1]) + 1

    def version(self) -> TableRows:
        """The table's rows, by partition and place in it, with the dead letters since the last call."""
        for state in self._partitions.values():
            _forget_replaced(state)
        states = sorted(self._partitions.items())
        digest = hashlib.blake2b(digest_size=8)
        for partition, state in states:
            head = np.array([partition, len(state.offsets)], np.int64)
            digest.update(np.concatenate((head, state.offsets, state.sums)).tobytes())
        dead, self._dead = self._dead, []
        rows = replace(_joined([piece for _, state in states for piece in state.pieces], self._query), dead=dead)
        read = {partition: state.read for partition, state in states}
        return TableRows(rows, int.from_bytes(digest.digest(), "little"), read)


def _empty() -> _Messages:
    return _Messages(np.empty(0, np.int64), np.empty(0, np.int64), pa.array([], pa.binary()))


def _without_key(partition: int, message: KeyedMessage) -> DeadLetter:
    detail = "the message has no key, by which a later one could replace it: expected one"
    return DeadLetter(RIGHT, partition, message.offset, 0, NO_KEY, detail, *original_message(message))


def _forget_replaced(state: _Messages) -> None:
    """Keep the last message of each key, if it has rows."""
    rows = state.pieces[0] if len(state.pieces) == 1 else _concatenated(state.pieces)
    codes = pc.dictionary_encode(state.keys).indices.to_numpy(zero_copy_only=False)
    last = np.zeros(len(codes), np.bool_)
    last[len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]] = True
    last &= np.isin(state.offsets, rows.offsets)
    kept = np.isin(rows.offsets, state.offsets[last])
    state.pieces = [rows if kept.all() else rows_where(rows, kept)]
    state.keys = state.keys.filter(pa.array(last))
    state.offsets, state.sums = state.offsets[last], state.sums[last]


def _joined(pieces: list[Rows], query: Query) -> Rows:
    return _concatenated(pieces) if pieces else _no_rows(query)


def _concatenated(pieces: list[Rows]) -> Rows:
    """The rows of several pieces, in order; places are within their partitions."""
    columns = concat_columns([StreamColumns(each.codes, each.times_us, each.keys, each.payload) for each in pieces])
    return Rows(
        offsets=np.concatenate([each.offsets for each in pieces]),
        rows=np.concatenate([each.rows for each in pieces]),
        next_offset=pieces[-1].next_offset,
        codes=columns.codes,
        times_us=columns.times_us,
        keys=columns.keys,
        produced_ms=np.concatenate([each.produced_ms for each in pieces]),
        payload=columns.payload,
        members=_bits([each.members for each in pieces], pieces),
        joins=_bits([each.joins for each in pieces], pieces),
    )


def _bits(found: list[U8 | None], pieces: list[Rows]) -> U8 | None:
    """The flags of all pieces; in pieces without flags, every row joins in the right stream."""
    if all(bits is None for bits in found):
        return None
    everywhere = [np.full(len(each), 1 << RIGHT, np.uint8) for each in pieces]
    return np.concatenate([all_of if bits is None else bits for bits, all_of in zip(found, everywhere, strict=True)])


def _no_rows(query: Query) -> Rows:
    nothing, table = np.empty(0, np.int64), query.inputs[RIGHT]
    codes = tuple(nothing for _ in table.keys)
    return Rows(nothing, nothing, 0, codes, None, NO_KEYS, nothing, payload=no_payload(table))
