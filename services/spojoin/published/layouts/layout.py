"""What a layout is: which worker stores a tuple, and which workers search for its partners.

A layout is a function of one frame, the worker's number and the worker count, and of nothing else: so a worker that
reads the log again computes the same shares, and all workers agree without communication. What depends on history
(which keys are hot) is in the frame.

The law that makes a layout exact: for any two tuples that may match, exactly one worker stores the earlier one and
searches for the later one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spojoin.model import OptionValue, Query
from spojoin.wire.records import Frame

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


class FrameShare(NamedTuple):
    """A worker's share of one stream's n tuples in one frame.

    stored: bool (n,), the tuples that it stores; asked: bool (n,), those whose partners it searches for
    """

    stored: Mask
    asked: Mask

    @property
    def received(self) -> int:
        """Tuples that the worker must receive for that."""
        return int(np.count_nonzero(self.stored | self.asked))


class Layout(ABC):
    """How the work on a query's tuples is spread over workers; the same object for all of them."""

    #: Whether each worker stores all tuples instead of about one in n.
    is_replicated: ClassVar[bool] = False
    #: Whether it uses the frame's flags of hot keys, which need a predictor.
    needs_hot_keys: ClassVar[bool] = False

    def __init__(self, query: Query) -> None:
        self.query = query
        self.options: Mapping[str, OptionValue] = dict(query.layout.options)

    @abstractmethod
    def share(self, frame: Frame, stream: int, worker: int, workers: int) -> FrameShare:
        """The share of `worker`, 0 <= `worker` < `workers`, in a stream's tuples of the frame."""


def indexes(frame: Frame, stream: int) -> I64:
    """The stream's indexes of a frame's tuples, int64 (n,)."""
    piece = frame.slices[stream]
    return np.arange(piece.first_index, piece.first_index + len(piece), dtype=np.int64)


def seqs(frame: Frame, stream: int) -> I64:
    """Seqs of a frame's tuples of a stream, int64 (n,)."""
    return frame.first_seq + frame.slices[stream].positions.astype(np.int64)


def every(frame: Frame, stream: int) -> Mask:
    """All of a frame's tuples of a stream, bool (n,)."""
    return np.ones(len(frame.slices[stream]), np.bool_)
