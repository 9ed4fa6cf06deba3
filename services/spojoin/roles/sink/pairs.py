"""Expressions of both sides, evaluated for many pairs at once, and the select list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spojoin.arrays import I64
from spojoin.expressions.pair_expressions import PairExpressions
from spojoin.expressions.types import select_schema, value_type
from spojoin.model import AGGREGATE, TRACE, PairExpression, Query, Use

#: In place of a seq: there is no row, and its columns are NULL.
NO_ROW = -1
#: From this many pairs on, several threads gather columns; fewer take less time than waking a thread.
SHARED_MIN = 1 << 12

Each = Callable[[Sequence[Callable[[], pa.Array]]], list[pa.Array]]


def in_turn(tasks: Sequence[Callable[[], pa.Array]]) -> list[pa.Array]:
    """The results of functions that are called one after the other."""
    return [task() for task in tasks]


class HeldColumns(Protocol):
    """The held columns of one side's rows, by seq."""

    def gathers(self, names: Sequence[str], seqs: I64) -> list[Callable[[], pa.Array]]:
        """For each column a function that returns the values of n rows by their seqs, int64 (n,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The rows of a result, and the number of partners behind them, listed or not.

    probes, traces, numbers: as in `Result`
    """

    rows: pa.RecordBatch
    probes: I64 | None = None
    traces: pa.Array | None = None
    matches: int = 0
    numbers: I64 | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SeqPairs:
    """n pairs by the seqs of their sides, int64 (n,) each, and the held columns of both sides.

    left, right: NO_ROW for a row whose columns are all NULL
    aggregates: by number, n values each: one for each left row, in place of its partners
    """

    left: I64
    right: I64
    histories: Sequence[HeldColumns]
    aggregates: Mapping[str, pa.Array] = field(default_factory=dict)

    def columns(self, uses: Sequence[Use], each: Each = in_turn) -> dict[Use, pa.Array]:
        """The columns of these uses, n values each; each: calls the functions that gather them."""
        if not len(self.left):  # a stream without any row yet has no columns
            return {use: pa.array([], value_type(use.type)) for use in uses}
        found = {use: self._number(use.side) for use in uses if use.is_number}
        found |= {use: self.aggregates[use.name] for use in uses if use.side == AGGREGATE}
        held = [use for side in (0, 1) for use in uses if use.side == side and not use.is_number]
        gathers = [gather for side in (0, 1) for gather in self._gathers(side, held)]
        return found | dict(zip(held, each(gathers), strict=True))

    def _gathers(self, side: int, uses: Sequence[Use]) -> list[Callable[[], pa.Array]]:
        names = [use.name for use in uses if use.side == side]
        if not names:
            return []
        history, seqs = self.histories[min(side, len(self.histories) - 1)], self._seqs(side)
        if not (seqs == NO_ROW).any():
            return history.gathers(names, seqs)
        there = np.flatnonzero(seqs != NO_ROW)
        places = np.full(len(seqs), -1, np.int64)
        places[there] = np.arange(len(there))
        spread = pa.array(places, mask=places < 0)
        if not len(there):
            return [partial(pa.nulls, len(seqs), value_type(use.type)) for use in uses if use.side == side]
        return [partial(_taken, gather, spread) for gather in history.gathers(names, seqs[there])]

    def _number(self, side: int) -> pa.Array:
        seqs = self._seqs(side)
        return pa.array(seqs, mask=seqs == NO_ROW)

    def traces(self, probes: I64) -> pa.Array:
        """The traces of the rows that answered; probes: int64 (n,), for each pair the seq of one of its sides."""
        found = pa.nulls(len(probes), pa.string())
        for is_probe, history in ((probes == self.left, self.histories[0]), (probes == self.right, self.histories[-1])):
            if is_probe.any():
                (gather,) = history.gathers([TRACE], probes[is_probe])
                found = pc.replace_with_mask(found, pa.array(is_probe), gather().cast(pa.string()))
        return found

    def _seqs(self, side: int) -> I64:
        return self.right if side else self.left


def _taken(gather: Callable[[], pa.Array], places: pa.Array) -> pa.Array:
    return gather().take(places)


class PairProgram:
    """Expressions that are evaluated for pairs given by seqs."""

    def __init__(self, expressions: Sequence[PairExpression], *, is_timed: bool = True) -> None:
        self._expressions = PairExpressions(expressions, is_timed=is_timed)

    @property
    def failures(self) -> int:
        """How many pairs had no value for an expression, which is then NULL (cumulative)."""
        return self._expressions.failures

    def run(self, pairs: SeqPairs) -> list[pa.Array]:
        """One array for each expression, n values each."""
        return self._expressions.values(pairs.columns(self._expressions.uses), len(pairs.left))

    def are_true(self, pairs: SeqPairs) -> NDArray[np.bool_]:
        """Which pairs meet the first expression, a condition, (n,)."""
        holds = self.run(pairs)[0].cast(pa.bool_()).fill_null(False)
        return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_)


def residual_program(query: Query) -> PairProgram:
    """All residual conditions of a query as one.

    In a FULL JOIN a pair is evaluated both for its left row and for its right row, so no time limit may decide (P10).
    """
    sql = " AND ".join(f"({each.sql})" for each in query.residuals)
    uses = tuple(dict.fromkeys(use for each in query.residuals for use in each.uses))
    kind, text = query.residuals[0].type, " AND ".join(each.text for each in query.residuals)
    return PairProgram([PairExpression(sql, uses, kind, text)], is_timed=not query.both_ask)  # P10.5


class Projection:
    """The select list: a record batch of exactly its columns."""

    def __init__(self, query: Query, each: Each = in_turn) -> None:
        self._select = query.results.select
        self._each = each
        self._plain = list(dict.fromkeys(each.plain for each in query.results.select if each.plain is not None))
        self.program = PairProgram([each.expression for each in query.results.select if each.plain is None])

    def select_rows(self, pairs: SeqPairs) -> pa.RecordBatch:
        """The columns of n pairs."""
        if not len(pairs.left):
            return pa.RecordBatch.from_pylist([], schema=select_schema(self._select))
        plain = pairs.columns(self._plain, self._each if len(pairs.left) >= SHARED_MIN else in_turn)
        computed = iter(self.program.run(pairs)) if len(self._plain) < len(self._select) else iter(())
        columns = [next(computed) if each.plain is None else plain[each.plain] for each in self._select]
        return pa.RecordBatch.from_arrays(columns, names=[each.name for each in self._select])
