"""Frames for layouts, and how a layout distributes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.papers.layouts.layout import Layout
from spojoin.wire.records import Frame
from tests.support.frames import make_frame, make_slice

#: A tuple's stream, the workers that store it and the workers that it asks.
Shared = tuple[int, set[int], set[int]]


def frame_of(streams: Sequence[int], codes: Sequence[int], *, firsts: Sequence[int] = (0,), **fields: object) -> Frame:
    """A frame of tuples by their streams and keys; `firsts` are the tuples of each stream before it."""
    slices = []
    for stream, first in enumerate(firsts):
        positions = np.flatnonzero(np.array(streams) == stream)
        own = [codes[i] for i in positions]
        slices.append(make_slice([own], first, positions=positions.astype(np.uint16)))
    return make_frame(slices, **fields)


def shares(layout: Layout, frames: Sequence[Frame], streams: int, workers: int) -> list[Shared]:
    """For each tuple in order: (stream, workers that store it, workers that it asks); the workers as sets."""
    found = []
    for frame in frames:
        by_position = {}
        for stream in range(streams):
            each = [layout.share(frame, stream, worker, workers) for worker in range(workers)]
            for i, position in enumerate(frame.slices[stream].positions.tolist()):
                stored = {worker for worker in range(workers) if each[worker].stored[i]}
                asked = {worker for worker in range(workers) if each[worker].asked[i]}
                by_position[position] = (stream, stored, asked)
        found += [by_position[position] for position in sorted(by_position)]
    return found
