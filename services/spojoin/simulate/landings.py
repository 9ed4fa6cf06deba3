"""What a record that lands in the log shows: how its frame ended, what it carries, into how much it was cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spojoin.roles.router.config import RouterConfig
from spojoin.simulate.coverage import Event
from spojoin.simulate.memorylog import Target
from spojoin.simulate.world import World
from spojoin.wire.records import Closing, DeadLetter, Frame, Part, Record, Result


def landed(world: World, target: Target, record: Record) -> Counter[Event]:
    """What a record shows that has just landed at `target`."""
    found: Counter[Event] = Counter()
    if isinstance(record, Frame):
        accepted = world.frames.accepted
        if accepted and accepted[-1] is record:
            found.update(_of_frame(record, world.scenario.config))
            found.update(_of_change(accepted))
    elif isinstance(record, Part):
        found["P10 chunks", "part in several chunks"] += record.begin > 0
    elif isinstance(record, Result):
        found["P10 chunks", "result in several records"] += record.begin > 0
    elif isinstance(record, DeadLetter):
        found["P4 sources", "late row refused" if record.reason == "late" else "row with NULL or NaN refused"] += 1
    return found


def _of_frame(frame: Frame, config: RouterConfig) -> Iterator[Event]:
    seals = [piece for piece in frame.slices if piece.seals]
    if not frame.count:
        yield "P5 frames", "empty frame"
    elif frame.count >= config.frame_tuples:
        yield "P5 frames", "full frame"
    elif not seals:
        yield "P5 frames", "frame that lingered"
    for piece in frame.slices:
        if len(piece):
            yield "P5 frames", "bound is a column" if len(piece.lower) > 1 else "bound is a constant"
        if piece.void:
            yield "P5 frames", "void row"
    for piece in seals:
        size = piece.first_index + len(piece) - piece.batch_first
        yield "P8 batches", "batch sealed full" if size >= config.batch_tuples else "batch sealed early"
    if any(len(rows) for rows in frame.unjoined):
        yield "P5 frames", "row in no slice"
    if frame.is_shared and frame.count:
        yield "P5 frames", "frame shared by two streams of one input"
    yield from _of_closings(frame)
    if frame.silent.any():
        yield "P12 generations", "frame of silent rows alone" if frame.is_silent else "silent row"


def _of_closings(frame: Frame) -> Iterator[Event]:
    for stream, closing in enumerate(frame.closings):
        if len(closing.seqs):
            yield from _of_closing(frame, closing, stream)
    if len(frame.closings) > 1 and all(len(closing.seqs) for closing in frame.closings):
        yield "P16 rows that ask", "rows of both sides close with one frame"


def _of_closing(frame: Frame, closing: Closing, stream: int) -> Iterator[Event]:
    group = "P16 rows that ask"
    if not frame.count:
        yield group, "row closes in a frame without rows"
    elif closing.end > frame.slices[stream].first_index:
        yield group, "row closes in its own frame"
    else:
        yield group, "row closes with a later row"
    if len(closing) < len(closing.seqs):
        yield group, "row that finds nothing answered"
    if closing.own is not None:
        yield group, "own tuple left out"


def _of_change(accepted: list[Frame]) -> Iterator[Event]:
    if len(accepted) > 1 and accepted[-1].workers != accepted[-2].workers:
        yield "P11 workers", "worker count changes in the log"
