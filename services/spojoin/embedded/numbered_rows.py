"""Rows of one side of a join with a table, by numbers from 0, and their codes as a table that SQL compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.embedded.one_batch import one_batch
from spojoin.model import ASKS_NOTHING, Op, Stream
from spojoin.query.payload import assigned_slots, no_payload
from spojoin.wire.records import I64, Rows

#: The operators as SQL writes them. A band isn't among them: its bounds may be beyond 64 bits.
SIGNS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">=", Op.EQ: "=", Op.NE: "<>"}


class NumberedRows:
    """Rows of one side by their numbers from 0, as `HeldColumns`. number: that of the stream in the query."""

    def __init__(self, stream: Stream, number: int, parts: Sequence[Rows]) -> None:
        nothing = no_payload(stream)
        self.parts = parts
        self._number = number
        self._assigned = assigned_slots(stream)
        self._payload = None if nothing is None else one_batch([p.payload for p in parts if p.payload], nothing.schema)

    @property
    def nbytes(self) -> int:
        """Bytes of codes and payload."""
        codes = sum(column.nbytes for part in self.parts for column in part.codes)
        return codes + (self._payload.nbytes if self._payload is not None else 0)

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """One function a column, which gives the values of n rows by their numbers, int64 (n,)."""
        assert self._payload is not None, "columns that results name travel with the rows"
        places = pa.array(seqs)
        return [partial(self._payload.column(name).take, places) for name in names]

    def coded(self, *, keeps_all: bool) -> pa.Table:
        """The numbers `n` and codes `k0`, `k1` ... of rows that may have partners.

        keeps_all: of all that pass the filter; codes are NULL where a row has no partners in any case
        """
        joins = np.concatenate([self._joins_of(part) for part in self.parts])
        passing = joins >> self._number & 1 == 1
        joining = passing & (joins >> (ASKS_NOTHING + self._number) & 1 == 0)
        numbers = np.flatnonzero(passing if keeps_all else joining)
        hidden = None if joining[numbers].all() else ~joining[numbers]
        columns = {"n": pa.array(numbers)}
        for slot, codes in enumerate(zip(*(part.codes for part in self.parts), strict=True)):
            columns[f"k{slot}"] = pa.array(np.concatenate(codes)[numbers], mask=hidden)
        for each in self._assigned:
            assert self._payload is not None, "values that are compared travel with the rows"
            values = self._payload.column(each.column).take(columns["n"])
            columns[f"k{each.slot}"] = values if hidden is None else pc.if_else(pa.array(hidden), None, values)
        return pa.table(columns)

    def _joins_of(self, part: Rows) -> NDArray[np.uint8]:
        return np.full(len(part), 1 << self._number, np.uint8) if part.joins is None else part.joins
