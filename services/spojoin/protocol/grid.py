"""The grid of PO-Join workers: its rows share the frames, its columns share the window (rule P19)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spojoin.wire.records import Frame


class Share(NamedTuple):
    """What the workers of a column hold: the batches whose number modulo `columns` is `column`, or a part of each.

    by_key: whether they hold some tuples of each batch, by their keys (rule P21)
    """

    column: int
    columns: int
    by_key: bool = False

    @property
    def step(self) -> int:
        """How many batches further its next batch is."""
        return 1 if self.by_key else self.columns

    def has(self, batch_id: int) -> bool:  # P19.3, P21.1
        """Whether a batch is in the share, or some of its tuples may be."""
        return (batch_id - self.column) % self.step == 0

    def first_from(self, batch_id: int) -> int:
        """The first batch of the share from a number on."""
        return batch_id + (self.column - batch_id) % self.step


@dataclass(frozen=True, slots=True)
class Grid:
    """Workers 0 to rows * columns - 1, row by row: worker w is in row w // columns and column w mod columns.

    by_key: whether the columns share the tuples by their keys, rather than the batches
    """

    rows: int
    columns: int
    by_key: bool = False

    @property
    def workers(self) -> int:
        """How many workers answer frames; workers with larger numbers hold and answer nothing."""
        return self.rows * self.columns

    def share_of(self, worker: int) -> Share | None:
        """What a worker holds; None if its number is beyond the grid."""
        return Share(worker % self.columns, self.columns, self.by_key) if worker < self.workers else None

    def holds_alike(self, other: Grid) -> bool:
        """Whether the columns of both grids hold the same, so that rows of one answer frames of the other."""
        return (self.columns, self.by_key) == (other.columns, other.by_key)

    def asked(self, frame_id: int, column: int) -> int:  # P19.2
        """The worker that answers for a column of a frame: the one in the frame's row, frame id modulo rows."""
        return frame_id % self.rows * self.columns + column

    def rows_between(self, frame_id: int, worker: int) -> int:  # P19.7
        """How many rows behind a frame's row a worker's row is, the first row being behind the last one."""
        return (worker // self.columns - frame_id) % self.rows


class GridOfFrame(NamedTuple):
    """What a frame says of the grid, from which `grid_of` follows."""

    workers: int
    columns: int
    by_key: bool

    @classmethod
    def said_by(cls, frame: Frame) -> GridOfFrame:
        """What a frame says."""
        return cls(frame.workers, frame.columns, frame.columns_by_key)


def grid_of(frame: Frame) -> Grid:
    """The grid that answers a frame."""
    return grid_with(frame.workers, frame.columns, by_key=frame.columns_by_key)


def grid_with(workers: int, columns: int, *, by_key: bool = False) -> Grid:  # P19.1
    """As many whole rows of `columns` as the workers fill.

    Without columns, as in older logs and other layouts, or with fewer workers than columns, all workers are one row.
    One column holds all tuples, by key or not.
    """
    columns = min(columns or workers, workers)
    return Grid(workers // columns if columns else 0, columns, by_key and columns > 1)
