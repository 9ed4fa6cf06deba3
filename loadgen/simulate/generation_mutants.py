"""Planted bugs in the succession of a query's generations (rule P12); its seeds must find each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np

from loadgen.simulate.mutants import Mutant, Patches, planted
from spojoin.arrays import U8
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.answered import Answered
from spojoin.protocol.machine import Action
from spojoin.roles.router.closing_router import ClosingRouter
from spojoin.roles.router.frame_maker import FrameMaker
from spojoin.roles.router.input_order import BackfillOrder
from spojoin.roles.router.physical_input import PhysicalInput
from spojoin.roles.router.queue import Origins
from spojoin.roles.router.slicing import FrameRows
from spojoin.roles.sink.answers import Answering
from spojoin.roles.sink.assembly import FrameSpan
from spojoin.roles.sink.machine import SinkMachine
from spojoin.roles.sink.pairs import Answers
from spojoin.runtime import backfill
from spojoin.windows import Window
from spojoin.wire.records import NONE_SILENT, Barrier, Frame, Matches, Rows, Takeover

GENERATION_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, GENERATION_MUTANTS)
#: Planted bugs for queries whose left rows ask (rule P16).
REPLACED_ASKING_MUTANTS: dict[str, Mutant] = {}
_asking_mutant = partial(planted, REPLACED_ASKING_MUTANTS)


@_mutant("answers-again", "a new generation answers the rows that it reads again to fill its windows")
def _answers_again() -> Patches:
    def none(_: FrameMaker, _taken: FrameRows) -> U8:
        return NONE_SILENT

    return [patch.object(FrameMaker, "_silent", none)]


@_mutant("takes-over-early", "a generation hands over though some of its rows have no results yet")
def _takes_over_early() -> Patches:
    def written(self: ClosingRouter) -> bool:
        return not len(self._frames.queue) and not any(source.ledger.passable for source in self._inputs.opened)

    return [patch.object(ClosingRouter, "_is_all_answered", written)]


@_mutant("read-rows-left", "a generation is closed without the rows that were read and had not gone out")
def _read_rows_left() -> Patches:
    def flush(_: ClosingRouter) -> Iterator[Action]:
        yield from ()

    def is_answered(self: ClosingRouter) -> bool:
        return self._pace.result_frame >= self._log.next_frame

    def takeover(self: ClosingRouter, closing: Barrier) -> Takeover:
        found = original(self, closing)
        reads = self._read_before()
        source = {place: replace(at, offset=max(at.offset, reads.get(place, (0, 0))[0])) for place, at in
                  found.source.items()}  # fmt: skip
        return replace(found, source=source)

    original = ClosingRouter._takeover
    return [
        patch.object(ClosingRouter, "flush", flush),
        patch.object(ClosingRouter, "_is_all_answered", is_answered),
        patch.object(ClosingRouter, "_takeover", takeover),
    ]


@_mutant("closed-log-goes-on", "readers accept what a router appends to a log that was closed")
def _closed_log_goes_on() -> Patches:
    accept = LogFollower.accept

    def again(self: LogFollower, record: Frame | Barrier) -> bool:
        if isinstance(record, Barrier) and record.closes:
            return False
        return accept(self, record)

    return [patch.object(LogFollower, "accept", again)]


@_mutant("earlier-cut-forgotten", "a generation that ends while it fills its windows hands on how far it has read")
def _earlier_cut_forgotten() -> Patches:
    return [patch.object(ClosingRouter, "_source", lambda self: dict(self.sources()))]


@_mutant("overtaken-backfill", "rows behind the cut of one input go before rows ahead of another's")
def _overtaken_backfill() -> Patches:
    def take(self: BackfillOrder, source: PhysicalInput, rows: Rows) -> None:
        self._enter(source, rows)

    return [patch.object(BackfillOrder, "enter_rows", take)]


@_mutant("backfill-too-short", "windows are filled to half of what they reach")
def _backfill_too_short() -> Patches:
    original = backfill._needed_from

    def half(query: object, lateness_us: int, pasts: Sequence[backfill.Past], stream: int) -> int | None:
        return original(_Halved(query), lateness_us, pasts, stream)  # type: ignore[arg-type]

    return [patch.object(backfill, "_needed_from", half)]


@_mutant("seen-behind-the-cut", "rows seen before the takeover fill windows though they lie behind the cut")
def _seen_behind_the_cut() -> Patches:
    original = backfill.Past.between

    def between(self: backfill.Past, first: int, end: int) -> backfill.Past:
        return original(self, first, max(end, self.end))

    return [patch.object(backfill.Past, "between", between)]


class _Halved:
    """A query whose windows are half as long."""

    def __init__(self, query: object) -> None:
        self._query = query

    def __getattr__(self, name: str) -> object:
        return getattr(self._query, name)

    def window_over(self, stream: int) -> Window:
        """The halved window."""
        window: Window = self._query.window_over(stream)  # type: ignore[attr-defined]
        return replace(window, length=window.length // 2, slide=0)


@_mutant("letters-again", "rows that an earlier generation refused are refused and counted again")
def _letters_again() -> Patches:
    original = FrameMaker._letters

    def again(self: FrameMaker, origins: Origins) -> Iterator[Action]:
        with patch.object(Answered, "cut_of", lambda _self, _stream, _partition: (0, 0)):
            found = list(original(self, origins))
        yield from found

    return [patch.object(FrameMaker, "_letters", again)]


@_mutant("silence-by-frame", "the sink leaves out a frame if its first row was answered before")
def _silence_by_frame() -> Patches:
    original = SinkMachine._accept_frame

    def whole(self: SinkMachine, frame: Frame, offset: int) -> None:
        if len(frame.silent):
            frame = replace(frame, silent=np.full(frame.count, frame.silent[0], np.uint8))
        original(self, frame, offset)

    return [patch.object(SinkMachine, "_accept_frame", whole)]


@_asking_mutant("left-rows-answer-again", "left rows that are read again answer in the frames in which others do")
def _left_rows_answer_again() -> Patches:
    original = Answering._answers_on_close

    def all_of_them(self: Answering, span: FrameSpan, directions: list[Matches]) -> Answers:
        frame = span.frame if span.frame.is_silent else replace(span.frame, silent=NONE_SILENT)
        return original(self, span._replace(frame=frame), directions)

    return [patch.object(Answering, "_answers_on_close", all_of_them)]
