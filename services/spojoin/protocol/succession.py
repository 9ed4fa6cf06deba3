"""Where the next generation would begin if its predecessor ended behind a frame (rule P12).

The last message of a frame's results carries it, so that results and inputs alone are enough to go on from.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import orjson

from spojoin.protocol.answered import Answered, PassedOrder
from spojoin.protocol.generations import Beginning
from spojoin.wire.records import Frame, SourcePosition, SourceState, Takeover


def left_by(frame: Frame, generation: int, lateness_us: int) -> Takeover:
    """The takeover from a generation whose results end with this frame."""
    counts = tuple(piece.first_index + piece.passed + len(piece) + piece.void for piece in frame.slices)
    return Takeover(
        generation + 1,
        generation,
        dict(frame.source),
        counts,
        dict(frame.rejected),
        frame.checkpoint,
        lateness_us,
        frame.first_seq + frame.count,
    )


def places(sources: SourceState, beginning: Beginning, *, keeps_order: bool = True) -> SourceState:
    """Places before which every row was answered or refused, by a generation or one before it.

    keeps_order: whether the next generation continues its order of event time
    """
    found, answered = dict(sources), beginning.answered()
    for key, cut in beginning.cut.items():
        at = found.get(key)
        high = answered.high_of(*key)
        if at is None or (at.offset, at.row) < cut:
            found[key] = SourcePosition(*cut, high)
        elif keeps_order:  # rows read again may not reach back to the largest time before the cut
            found[key] = replace(at, high_time_us=max(at.high_time_us, high))
    return found


def order_so_far(checkpoint: bytes, beginning: Beginning) -> bytes:
    """What a generation's order by event time passed, with what only earlier ones had; empty by arrival."""
    passed = PassedOrder.of(orjson.loads(checkpoint)) if checkpoint else None
    return beginning.answered().saved_with(passed)


def forgetting(checkpoint: bytes, inputs: Collection[tuple[int, int]]) -> bytes:
    """What was passed by event time, without what is said of inputs that were made anew."""
    if not (checkpoint and inputs):
        return checkpoint
    passed = [
        replace(
            each,
            reads={key: place for key, place in each.reads.items() if key not in inputs},
            late=frozenset(row for row in each.late if row[:2] not in inputs),
            promised={key: promise for key, promise in each.promised.items() if key not in inputs},
        )
        for each in Answered.of({}, {}, checkpoint).passed
    ]
    return orjson.dumps([each.saved() for each in passed])
