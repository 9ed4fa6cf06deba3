"""A column's share of a window that is too long to be filled row by row: its batches are made directly.

A run over some frames gives the log. It is moved behind the window: all indexes and numbers of batches grow alike. The
window's batches of the column come before the run's own; those of other columns are left out, since their tuples are
in other processes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from loadgen.promises.data import Columns, columns, self_join_text
from loadgen.promises.recording import Recording, ScaleWork, recorded
from loadgen.promises.sizes import PromiseSizes
from spojoin.arrays import I64, U16
from spojoin.kernels.codes import fold_doubles
from spojoin.kernels.permutation import permutation
from spojoin.protocol.grid import Share
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.wire.records import Batch, Frame, Part, SortedColumn, StreamSlice

#: Slides of the window.
SLIDES = 10
#: Frames of the run, and those of them after which measuring begins.
FRAMES, FRAMES_BEFORE = 128, 16
WORKLOAD = "uniform"
CHECKED = 8
BATCH = RouterConfig("recorded").batch_tuples


class WideWindow:
    """The recorded run behind a column's share of a window of counts.

    tuples, share: of the whole window that the last frame's probes search, and of the column's part
    """

    def __init__(self, sizes: PromiseSizes, share: Share) -> None:
        self._slide = sizes.wide_batches // SLIDES * BATCH
        self._share = share
        self._rows = columns(WORKLOAD, FRAMES * BATCH)
        self.tuples = SLIDES * self._slide
        #: the run's first index, so that all of the run is at the end of one slide
        self._first = self.tuples + self._slide - len(self._rows)
        random = np.random.default_rng(31)
        self._numbers = range(share.first_from(self._slide // BATCH), self._first // BATCH, share.columns)
        a, b = np.round(random.uniform(0, 1e6, (2, len(self._numbers) * BATCH)), 2)
        self._stored = Columns(a, b)
        self.work = ScaleWork("wide", self._text, self._rows.table(), FRAMES_BEFORE * BATCH, _unchecked)
        self.run = self._moved(recorded(self.work))

    @property
    def stored(self) -> int:
        """How many tuples the column's batches before the run hold."""
        return len(self._stored)

    def _text(self, name: str) -> str:
        return self_join_text(self.tuples, self._slide, name=name)

    def _moved(self, run: Recording) -> Recording:
        records, before = dict(run.records), dict(run.before)
        # The log begins with a frame, as a trimmed one does.
        records[Topic.FRAMES] = [
            self._moved_frame(each) for each in run.records[Topic.FRAMES] if isinstance(each, Frame)
        ]
        before[Topic.FRAMES] = FRAMES_BEFORE
        own = [each for each in run.records[Topic.BATCHES] if isinstance(each, Batch)]
        stored = [self._stored_batch(at, number, own[0]) for at, number in enumerate(self._numbers)]
        records[Topic.BATCHES] = [*stored, *map(self._moved_batch, own)]
        before[Topic.BATCHES] += len(stored)
        return Recording(records, before)

    def _moved_frame(self, frame: Frame) -> Frame:
        (piece,) = frame.slices
        return replace(frame, first_seq=frame.first_seq + self._first, slices=(self._moved_slice(piece),))

    def _moved_slice(self, piece: StreamSlice) -> StreamSlice:
        batches = self._first // BATCH
        return replace(
            piece,
            first_index=piece.first_index + self._first,
            lower=np.full_like(piece.lower, self._slide),
            batch_id=piece.batch_id + batches,
            batch_first=piece.batch_first + self._first,
            group=self._group(piece.batch_first + self._first),
            handover_batch=piece.handover_batch + batches,
            handover_index=piece.handover_index + self._first,
            live_batch=self._slide // BATCH,
        )

    def _moved_batch(self, batch: Batch) -> Batch:
        first = batch.first + self._first
        return replace(
            batch,
            batch_id=batch.batch_id + self._first // BATCH,
            first=first,
            end=batch.end + self._first,
            group=self._group(first),
            seqs=batch.seqs + self._first,
        )

    def _stored_batch(self, at: int, number: int, like: Batch) -> Batch:
        """The column's batch number `at`, a batch with this number in the stream; other fields are those of `like`."""
        rows, first = self._stored[at * BATCH : (at + 1) * BATCH], number * BATCH
        sorted_columns = tuple(_sorted_column(slot, codes) for slot, codes in enumerate((rows.a, rows.b)))
        return replace(
            like,
            batch_id=number,
            first=first,
            end=first + BATCH,
            group=self._group(first),
            columns=sorted_columns,
            permutations={(0, 1): permutation(sorted_columns[0].order, sorted_columns[1].order)},
            seqs=np.arange(first, first + BATCH),
        )

    def _group(self, index: int) -> int:
        return index // self._slide

    def check(self, part: Part) -> None:
        """Compare some counts of the column's part of the run's last frame with a scan. Raises AssertionError."""
        frame = self.run.frames(is_measured=True)[-1]
        (piece,) = frame.slices
        assert part.frame_id == frame.frame_id, "the last part answers the last frame"
        first = piece.first_index - self._first
        held = self._held(piece.handover_index - self._first)
        for at in np.linspace(0, len(piece) - 1, CHECKED, dtype=np.int64).tolist():
            x, y = self._rows.a[first + at], self._rows.b[first + at]
            as_left = int(np.count_nonzero((held.a < x) & (held.b > y)))
            as_right = int(np.count_nonzero((held.a > x) & (held.b < y)))
            found = tuple(int(each.counts[at]) for each in part.directions)
            if found != (as_left, as_right):
                raise AssertionError(f"row {first + at} of the run has {found}, a scan finds {as_left}, {as_right}")

    def _held(self, handed_over: int) -> Columns:
        """The column's tuples, given how many of the run's tuples are handed over."""
        batches = np.arange(handed_over) // BATCH + self._first // BATCH
        own = np.flatnonzero(batches % self._share.columns == self._share.column)
        parts = zip((self._stored.a, self._stored.b), (self._rows.a[own], self._rows.b[own]), strict=True)
        return Columns(*map(np.concatenate, parts))


def _sorted_column(slot: int, values: np.ndarray) -> SortedColumn:
    codes: I64 = fold_doubles(values)
    order = np.argsort(codes, kind="stable")
    ranks: U16 = order.astype(np.uint16)
    return SortedColumn(slot, codes[order], ranks)


def _unchecked(found: pa.Table) -> None:
    """Only a worker is measured, whose parts `WideWindow.check` compares with a scan."""
