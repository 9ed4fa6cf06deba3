"""Keys and payload of the tuples in the window: pairs name both of their sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from spojoin.arrays import I64
from spojoin.kernels.segments import gather
from spojoin.kernels.tail import Tail
from spojoin.model import Query
from spojoin.protocol.frame_evaluation import first_reached
from spojoin.roles.sink.column_store import GROWTH, ColumnStore, column_store, int64_column
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Batch, Frame

#: How many pieces of strings are searched one by one before they are joined.
PIECES_MAX = 256


@dataclass(frozen=True, slots=True, eq=False)
class HeldRows:
    """The held columns of n consecutive tuples: seqs int64 (n,), keys or None, payload or None."""

    seqs: I64
    keys: pa.Array | None
    payload: pa.RecordBatch | None


def _nbytes(held: HeldRows) -> int:
    parts = (held.seqs, held.keys, held.payload)
    return int(sum(each.nbytes for each in parts if each is not None))


class KeyStore:
    """Keys of one stream's indexes [first, end); integer keys in one buffer, strings in pieces."""

    def __init__(self, first: int) -> None:
        self._integers = Tail(first, growth=GROWTH)
        self._strings: list[pa.Array] = []
        self._strings_first = first

    def append_keys(self, keys: pa.Array) -> None:
        """Add the keys of tuples behind the last one, at least one."""
        if pa.types.is_integer(keys.type) and not self._strings:
            self._integers.append(keys.to_numpy())
            return
        if len(self._integers):  # the input began with integers: from its first string on, all are strings
            self._strings_first = self._integers.first
            self._strings = [pa.array(self._integers.held.copy()).cast(pa.string())]
            self._integers = Tail(self._integers.end, growth=GROWTH)
        self._strings.append(keys if pa.types.is_string(keys.type) else keys.cast(pa.string()))

    def keys_at(self, places: I64, first: int, origin: int) -> pa.Array:
        """Keys of tuples; places: int64 (n,), each the tuple's index, less `origin`, plus `first`."""
        if len(self._integers):
            keys, column = int64_column(len(places))
            gather(self._integers.held, places, first, keys)
            return column
        if not self._strings:
            return pa.array([], pa.int64())
        if len(self._strings) > PIECES_MAX:
            self._strings = [pa.concat_arrays(self._strings)]
        places = places + (origin - self._strings_first - first)
        return pa.chunked_array(self._strings).take(pa.array(places)).combine_chunks()

    @property
    def nbytes(self) -> int:
        """Bytes of the held keys, spare room included."""
        return self._integers.buffer.nbytes + int(sum(each.nbytes for each in self._strings))

    def all(self) -> pa.Array:
        """All held keys, from the first index on."""
        if len(self._integers) or not self._strings:
            return pa.array(self._integers.held.copy())
        return pa.concat_arrays(self._strings)

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._integers.drop_below(index)
        while self._strings and self._strings_first + len(self._strings[0]) <= index:
            self._strings_first += len(self._strings.pop(0))


class RowStore:
    """Seqs, keys and payload of one stream's indexes [first, end)."""

    def __init__(self, first: int, *, has_keys: bool) -> None:
        self._seqs = Tail(first, growth=GROWTH)
        self._keys = KeyStore(first) if has_keys else None
        self._columns: dict[str, ColumnStore] = {}

    @property
    def first(self) -> int:
        """The first held index."""
        return self._seqs.first

    def append_rows(self, held: HeldRows) -> None:
        """Add tuples after the last one."""
        if not len(held.seqs):
            return
        at = self._seqs.end
        self._seqs.append(held.seqs)
        if self._keys is not None and held.keys is not None:
            self._keys.append_keys(held.keys)
        if held.payload is not None:
            for name, values in zip(held.payload.schema.names, held.payload.columns, strict=True):
                self._columns.setdefault(name, column_store(values.type, at)).append_values(values)

    def extend(self, other: RowStore) -> None:
        """Add the rows of another store, which begins at or before the end of this one."""
        seqs = other._seqs.held[self._seqs.end - other.first :]
        names = list(other._columns)
        payload = pa.RecordBatch.from_arrays(other.columns(names, seqs), names=names) if names else None
        keys = None if other._keys is None or not len(seqs) else other.keys(seqs)
        self.append_rows(HeldRows(seqs.copy(), keys, payload))

    def keys(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,); all must be held."""
        assert self._keys is not None, "keys are held where results name them"
        places, first = _places(self._seqs.held, seqs)
        return self._keys.keys_at(places, first, self.first)

    def columns(self, names: Sequence[str], seqs: I64) -> list[pa.Array]:
        """Payload columns of tuples by seq, int64 (n,); all must be held."""
        return [gather() for gather in self.gathers(names, seqs)]

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """Functions that each return a payload column; all may run at once, until the store changes."""
        places, first = _places(self._seqs.held, seqs)
        return [partial(self._columns[name].values_at, places, first) for name in names]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, room included."""
        keys = 0 if self._keys is None else self._keys.nbytes
        return self._seqs.buffer.nbytes + keys + sum(each.nbytes for each in self._columns.values())

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._seqs.drop_below(index)
        if self._keys is not None:
            self._keys.drop_below(index)
        for column in self._columns.values():
            column.drop_below(index)

    def __len__(self) -> int:
        return len(self._seqs)


def _places(held: I64, seqs: I64) -> tuple[I64, int]:
    """The offset of each of `seqs` in ascending `held`, plus a number that is also returned.

    In a self join no seq is missing, so the seqs themselves are such places.
    """
    if len(held) and held[-1] - held[0] == len(held) - 1:
        return seqs, int(held[0])
    return np.searchsorted(held, seqs).astype(np.int64), 0


class History:
    """The columns of one stream's rows that results need, as far as windows reach: keys, payload, or both.

    After a restart, batches supply the rows that the log's tail lacks.
    """

    def __init__(self, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._store: RowStore | None = None
        self._batches: dict[int, HeldRows] = {}

    def restore_batch(self, first: int, held: HeldRows) -> None:
        """Note a sealed batch; batches come in any order."""
        if self._store is None or first < self._store.first:
            self._batches[first] = replace(held, seqs=np.array(held.seqs))

    def append_rows(self, first: int, held: HeldRows) -> None:
        """Hold a frame's tuples, if it has any."""
        if self._store is None:
            self._store = RowStore(first, has_keys=self._has_keys)
        self._store.append_rows(held)

    def covers(self, index: int) -> bool:
        """Whether all tuples from `index` on are held."""
        if self._store is None:
            return False
        if index < self._store.first:
            self._prepend(self._store)
        return index >= self._store.first

    def _prepend(self, tail: RowStore) -> None:
        """Put the batches that adjoin the tail without a gap before it."""
        chain: list[int] = []
        reached = tail.first
        for first in sorted(self._batches, reverse=True):
            if first < reached <= first + len(self._batches[first].seqs):
                chain.append(first)
                reached = first
        if not chain:
            return
        store = RowStore(reached, has_keys=self._has_keys)
        for first in reversed(chain):
            store.append_rows(self._batches[first])
        store.extend(tail)
        self._store = store
        self._batches = {first: held for first, held in self._batches.items() if first < reached}

    def keys(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,)."""
        return pa.array([], pa.int64()) if self._store is None else self._store.keys(seqs)

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """Functions that each return a payload column of tuples by seq, int64 (n,); all may run at once."""
        return [partial(pa.nulls, 0) for _ in names] if self._store is None else self._store.gathers(names, seqs)

    @property
    def nbytes(self) -> int:
        """Bytes of all held columns, spare room included."""
        batches = sum(_nbytes(held) for held in self._batches.values())
        return batches + (0 if self._store is None else self._store.nbytes)

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._batches = {f: b for f, b in self._batches.items() if f + len(b.seqs) > index}
        if self._store is not None:
            self._store.drop_below(index)

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)


class StreamHistories:
    """The columns of all streams' rows that results need, as far as windows reach; empty if they need none."""

    def __init__(self, query: Query) -> None:
        self.streams = [History(has_keys=query.carries_keys) for _ in query.streams]
        self._is_needed = query.carries_keys or SearchPlan(query).has_pair_payload
        self._names = [list(stream.payload) for stream in query.streams]

    def accept_frame(self, frame: Frame) -> None:
        if self._is_needed:
            for stream, (history, piece) in enumerate(zip(self.streams, frame.slices, strict=True)):
                seqs = frame.first_seq + piece.positions.astype(np.int64)
                rows = HeldRows(seqs, piece.keys, self._named(stream, piece.payload))
                history.append_rows(piece.first_index, rows)

    def accept_batch(self, batch: Batch) -> None:
        if self._is_needed:
            rows = HeldRows(batch.seqs, batch.keys, self._named(batch.stream, batch.payload))
            self.streams[batch.stream].restore_batch(batch.first, rows)

    def _named(self, stream: int, payload: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """The columns that results or conditions on pairs need; an input of two streams has the columns of both."""
        names = self._names[stream]
        return payload if payload is None or len(names) == payload.num_columns else payload.select(names)

    def cover(self, frame: Frame) -> bool:
        """Whether all rows that a frame's results may need are held."""
        if not self._is_needed:
            return True
        return all(history.covers(first_reached(frame, stream)) for stream, history in enumerate(self.streams))

    def drop_before(self, done: Frame) -> None:
        """Forget rows before the windows of a frame whose results are out."""
        if self._is_needed:
            for stream, history in enumerate(self.streams):
                history.drop_below(first_reached(done, stream))

    @property
    def nbytes(self) -> int:
        return sum(history.nbytes for history in self.streams)

    def __len__(self) -> int:
        return sum(len(history) for history in self.streams)
