"""Keys and payload of the tuples in the window: pairs name both of their sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from spojoin.kernels.segments import gather
from spojoin.kernels.tail import Tail
from spojoin.roles.sink.column_store import GROWTH, ColumnStore, column_store
from spojoin.roles.sink.columns import int64_column
from spojoin.wire.records import I64

#: String pieces that are searched one by one before they are joined.
PIECES_MAX = 256


@dataclass(frozen=True, slots=True, eq=False)
class HeldRows:
    """What is held of n consecutive tuples: seqs int64 (n,), keys or None, payload or None."""

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

    def append(self, keys: pa.Array) -> None:
        """Add the keys of tuples behind the last one, at least one."""
        if pa.types.is_integer(keys.type) and not self._strings:
            self._integers.append(keys.to_numpy())
            return
        if len(self._integers):  # the input began with integers: from its first string on, all are strings
            self._strings_first = self._integers.first
            self._strings = [pa.array(self._integers.held.copy()).cast(pa.string())]
            self._integers = Tail(self._integers.end, growth=GROWTH)
        self._strings.append(keys if pa.types.is_string(keys.type) else keys.cast(pa.string()))

    def take(self, places: I64, first: int, origin: int) -> pa.Array:
        """Keys of tuples; places: int64 (n,), each `first` more than its index's distance from index `origin`."""
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
        """Bytes of the keys held, room included."""
        return self._integers.buffer.nbytes + int(sum(each.nbytes for each in self._strings))

    def all(self) -> pa.Array:
        """Every key held, from the first index on."""
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
        """The first index held."""
        return self._seqs.first

    def append(self, held: HeldRows) -> None:
        """Add tuples behind the last one."""
        if not len(held.seqs):
            return
        at = self._seqs.end
        self._seqs.append(held.seqs)
        if self._keys is not None and held.keys is not None:
            self._keys.append(held.keys)
        if held.payload is not None:
            for name, values in zip(held.payload.schema.names, held.payload.columns, strict=True):
                self._columns.setdefault(name, column_store(values.type, at)).append(values)

    def extend(self, other: RowStore) -> None:
        """Add all that another store holds, which begins where this one ends or before."""
        seqs = other._seqs.held[self._seqs.end - other.first :]
        names = list(other._columns)
        payload = pa.RecordBatch.from_arrays(other.columns(names, seqs), names=names) if names else None
        keys = None if other._keys is None or not len(seqs) else other.keys(seqs)
        self.append(HeldRows(seqs.copy(), keys, payload))

    def keys(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,), all of them held."""
        assert self._keys is not None, "keys are held where results name them"
        places, first = _places(self._seqs.held, seqs)
        return self._keys.take(places, first, self.first)

    def columns(self, names: Sequence[str], seqs: I64) -> list[pa.Array]:
        """Payload columns of tuples by seq, int64 (n,), all of them held."""
        return [gather() for gather in self.gathers(names, seqs)]

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """Functions that give the payload columns, one each; all may run at once, before anything else changes."""
        places, first = _places(self._seqs.held, seqs)
        return [partial(self._columns[name].take, places, first) for name in names]

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
    """Where ascending `held` has each of `seqs`, plus a number that is returned as well.

    In a self join no seq is missing between, so the seqs themselves are such places.
    """
    if len(held) and held[-1] - held[0] == len(held) - 1:
        return seqs, int(held[0])
    return np.searchsorted(held, seqs).astype(np.int64), 0


class History:
    """What pairs name of one stream's rows, as far as windows reach: keys, payload, or both.

    After a restart, batches give what the log's tail lacks.
    """

    def __init__(self, *, has_keys: bool) -> None:
        self._has_keys = has_keys
        self._store: RowStore | None = None
        self._batches: dict[int, HeldRows] = {}

    def restore(self, first: int, held: HeldRows) -> None:
        """Learn of a sealed batch; batches come in any order."""
        if self._store is None or first < self._store.first:
            self._batches[first] = replace(held, seqs=np.array(held.seqs))

    def append(self, first: int, held: HeldRows) -> None:
        """Take a frame's tuples, perhaps none."""
        if self._store is None:
            self._store = RowStore(first, has_keys=self._has_keys)
        self._store.append(held)

    def covers(self, index: int) -> bool:
        """Whether all keys from `index` on are here."""
        if self._store is None:
            return False
        if index < self._store.first:
            self._prepend(self._store)
        return index >= self._store.first

    def _prepend(self, tail: RowStore) -> None:
        """Put the batches that reach the tail without a gap before it."""
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
            store.append(self._batches[first])
        store.extend(tail)
        self._store = store
        self._batches = {}

    def keys(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,)."""
        return pa.array([], pa.int64()) if self._store is None else self._store.keys(seqs)

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """Functions that give payload columns of tuples by seq, int64 (n,), one each; all may run at once."""
        return [partial(pa.nulls, 0) for _ in names] if self._store is None else self._store.gathers(names, seqs)

    @property
    def nbytes(self) -> int:
        """Bytes of all that is held, room included."""
        batches = sum(_nbytes(held) for held in self._batches.values())
        return batches + (0 if self._store is None else self._store.nbytes)

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._batches = {f: b for f, b in self._batches.items() if f + len(b.seqs) > index}
        if self._store is not None:
            self._store.drop_below(index)

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)
