"""Results of a FULL JOIN: each pair once, and each row without a partner once, in the order in which rows close."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spojoin.model import EmitOn, Query
from spojoin.roles.sink.closed_rows import ClosedRows
from spojoin.roles.sink.history import History
from spojoin.roles.sink.pairs import NO_ROW, Answers, Projection, SeqPairs
from spojoin.wire.records import I64


class FullAnswers:
    """Makes the results of rows of both sides.

    At arrival either row of a pair may be the later one, which answers. On close a left row answers with its pairs, so
    that a right row answers where it has none.
    """

    def __init__(self, query: Query, projection: Projection) -> None:
        self._projection = projection
        self._at_close = query.emit is EmitOn.CLOSE
        self._is_traced = query.is_traced

    def matches(self, found: Sequence[ClosedRows]) -> int:
        """The pairs among the results of left and right rows."""
        return sum(int(rows.counts.sum()) for rows in (found[:1] if self._at_close else found))

    def rows(self, found: Sequence[ClosedRows], numbers: Sequence[I64], histories: Sequence[History]) -> Answers:
        """The results of left and right rows; numbers: by side, int64 (n,), the number of each row's answer.

        Rows don't answer in the order of their seqs, so the results name these numbers, which ascend.
        """
        left, partners, of_left = _paired(found[0], numbers[0])
        right, others, of_right = (_alone if self._at_close else _paired)(found[1], numbers[1])
        together = np.concatenate([of_left, of_right])
        order = np.argsort(together, kind="stable")
        pairs = SeqPairs(np.concatenate([left, others])[order], np.concatenate([partners, right])[order], histories)
        traces = pairs.traces(np.concatenate([left, right])[order]) if self._is_traced else None
        return Answers(self._projection.rows(pairs), together[order], traces)


def _paired(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
    """Of each result of rows of a side the row, its partner or NO_ROW, and the number of its answer."""
    whole = rows.with_none()
    return *whole.pairs(), np.repeat(numbers, np.maximum(rows.counts, 1))


def _alone(rows: ClosedRows, numbers: I64) -> tuple[I64, I64, I64]:
    """The same of those rows alone that have no partner."""
    kept = rows.counts == 0
    return rows.seqs[kept], np.full(np.count_nonzero(kept), NO_ROW, np.int64), numbers[kept]
