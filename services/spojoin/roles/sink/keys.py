"""Users' keys of the tuples in the window: pairs name both of their sides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spojoin.kernels.segments import gather
from spojoin.kernels.tail import Tail
from spojoin.roles.sink.columns import int64_column
from spojoin.wire.records import I64

#: String pieces that are searched one by one before they are joined.
PIECES_MAX = 256


class KeyStore:
    """Seqs and keys of one stream's indexes [first, end); integer keys in one buffer, strings in pieces."""

    def __init__(self, first: int) -> None:
        self._seqs = Tail(first)
        self._integers = Tail(first)
        self._strings: list[pa.Array] = []
        self._strings_first = first

    @property
    def first(self) -> int:
        """The first index held."""
        return self._seqs.first

    def append(self, seqs: I64, keys: pa.Array) -> None:
        """Add tuples behind the last one."""
        if not len(seqs):
            return
        self._seqs.append(seqs)
        if pa.types.is_integer(keys.type) and not self._strings:
            self._integers.append(keys.to_numpy())
            return
        if len(self._integers):  # the input began with integers: from its first string on, all are strings
            self._strings_first = self._integers.first
            held = self._integers.view(self._integers.first, self._integers.end)
            self._strings = [pa.array(held.copy()).cast(pa.string())]
            self._integers = Tail(self._integers.end)
        self._strings.append(keys if pa.types.is_string(keys.type) else keys.cast(pa.string()))

    def extend(self, other: KeyStore) -> None:
        """Add all that another store holds, which begins where this one ends or before."""
        skip = self._seqs.end - other.first
        seqs = other._seqs.view(other.first + skip, other._seqs.end)
        self.append(seqs, other.take(seqs))

    def take(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,), all of them held."""
        places, first = _places(self._seqs.view(self._seqs.first, self._seqs.end), seqs)
        if len(self._integers):
            keys, column = int64_column(len(seqs))
            gather(self._integers.view(self._integers.first, self._integers.end), places, first, keys)
            return column
        if not self._strings:
            return pa.array([], pa.int64())
        if len(self._strings) > PIECES_MAX:
            self._strings = [pa.concat_arrays(self._strings)]
        places = places + (self._seqs.first - self._strings_first - first)
        return pa.chunked_array(self._strings).take(pa.array(places)).combine_chunks()

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._seqs.drop_below(index)
        self._integers.drop_below(index)
        while self._strings and self._strings_first + len(self._strings[0]) <= index:
            self._strings_first += len(self._strings.pop(0))

    def __len__(self) -> int:
        return len(self._seqs)


def _places(held: I64, seqs: I64) -> tuple[I64, int]:
    """Where ascending `held` has each of `seqs`, plus a number that is returned as well.

    In a self join no seq is missing between, so the seqs themselves are such places.
    """
    if len(held) and held[-1] - held[0] == len(held) - 1:
        return seqs, int(held[0])
    return np.searchsorted(held, seqs).astype(np.int64), 0


class KeyHistory:
    """One stream's keys as far as windows reach; after a restart, batches give what the log's tail lacks."""

    def __init__(self) -> None:
        self._store: KeyStore | None = None
        self._batches: dict[int, tuple[I64, pa.Array]] = {}

    def restore(self, first: int, seqs: I64, keys: pa.Array) -> None:
        """Learn of a sealed batch; batches come in any order."""
        if self._store is None or first < self._store.first:
            self._batches[first] = (np.array(seqs), keys)

    def append(self, first: int, seqs: I64, keys: pa.Array) -> None:
        """Take a frame's tuples, perhaps none."""
        if self._store is None:
            self._store = KeyStore(first)
        self._store.append(seqs, keys)

    def covers(self, index: int) -> bool:
        """Whether all keys from `index` on are here."""
        if self._store is None:
            return False
        if index < self._store.first:
            self._prepend(self._store)
        return index >= self._store.first

    def _prepend(self, tail: KeyStore) -> None:
        """Put the batches that reach the tail without a gap before it."""
        chain: list[int] = []
        reached = tail.first
        for first in sorted(self._batches, reverse=True):
            if first < reached <= first + len(self._batches[first][0]):
                chain.append(first)
                reached = first
        if not chain:
            return
        store = KeyStore(reached)
        for first in reversed(chain):
            store.append(*self._batches[first])
        store.extend(tail)
        self._store = store
        self._batches = {}

    def take(self, seqs: I64) -> pa.Array:
        """Keys of tuples by seq, int64 (n,)."""
        if self._store is None:
            return pa.array([], pa.int64())
        return self._store.take(seqs)

    def drop_below(self, index: int) -> None:
        """Forget tuples of smaller indexes."""
        self._batches = {f: b for f, b in self._batches.items() if f + len(b[0]) > index}
        if self._store is not None:
            self._store.drop_below(index)

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)
