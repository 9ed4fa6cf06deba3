"""A layout decides which worker stores a tuple, and which workers search for its partners.

A layout is a function of only one frame, the worker's number and the worker count. So a worker that reads the log again
computes the same shares, and all workers agree without communication. The frame itself holds the facts that depend on
history (the hot keys).

The law that makes a layout exact: for any two tuples that may match, exactly one worker stores the earlier one and
searches for the later one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from spojoin.arrays import I64, Flags
from spojoin.model import OptionValue, Query
from spojoin.wire.records import Frame


def spread(codes: I64, choices: int, salt: int = 0) -> I64:
    """For each code a pseudo-random number in [0, choices), which depends on the salt: int64 (n,).

    The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): it spreads adjacent codes over all bits.
    """
    mixed = codes.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(choices)).astype(np.int64)


class FrameShare(NamedTuple):
    """A worker's share of one stream's n tuples in one frame.

    stored: bool (n,), the tuples that it stores; asked: bool (n,), the tuples that it searches partners for
    """

    stored: Flags
    asked: Flags

    @property
    def received(self) -> int:
        """The tuples that the worker must receive."""
        return int(np.count_nonzero(self.stored | self.asked))


class Layout(ABC):
    """Spreads the work on a query's tuples over workers; one object for all of them."""

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


def every(frame: Frame, stream: int) -> Flags:
    """All of a frame's tuples of a stream, bool (n,)."""
    return np.ones(len(frame.slices[stream]), np.bool_)
