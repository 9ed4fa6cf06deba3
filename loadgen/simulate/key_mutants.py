"""Planted bugs of columns by key (rule P21)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch
from weakref import WeakKeyDictionary

from loadgen.simulate.mutants import Mutant, Patches, planted
from spojoin.arrays import I64, Flags
from spojoin.protocol.grid import Grid, Share
from spojoin.protocol.key_columns import is_asked, is_held
from spojoin.protocol.machine import Action
from spojoin.protocol.topology import Topic
from spojoin.roles.pojoin import selection
from spojoin.roles.pojoin.machine import PoJoinMachine
from spojoin.roles.pojoin.selection import KeySelection
from spojoin.roles.router.frame_maker import FrameMaker
from spojoin.roles.router.spread_keys import SpreadKeys
from spojoin.wire.records import STILL_HOT, Batch, Frame, Record, SpreadKey, StreamSlice

KEY_MUTANTS: dict[str, Mutant] = {}
_key_mutant = partial(planted, KEY_MUTANTS)


@_key_mutant("cooled-key-forgotten", "a key that cools down between store and probe is forgotten with its tuples")
def _cooled_key_forgotten() -> Patches:
    of_next_frame = SpreadKeys.of_next_frame

    def hot_alone(self: SpreadKeys, slices: Sequence[StreamSlice]) -> tuple[SpreadKey, ...]:
        return tuple(key for key in of_next_frame(self, slices) if key.end == STILL_HOT)

    return [patch.object(SpreadKeys, "of_next_frame", hot_alone)]


@_key_mutant("spread-key-asked-of-its-column", "a spread key's probe is asked of its hash's column alone")
def _spread_key_asked_of_its_column() -> Patches:
    def own_keys(codes: I64, share: Share, spread: Flags) -> Flags:
        return is_asked(codes, share, spread & False)

    return [patch.object(selection, "is_asked", own_keys)]


@_key_mutant("later-tuples-moved", "tuples from after a key cooled down are held in turn, too")
def _later_tuples_moved() -> Patches:
    def moved(codes: I64, order: I64, first: int, share: Share, spread: Sequence[SpreadKey]) -> Flags:
        return is_held(codes, order, first, share, [replace(key, end=STILL_HOT) for key in spread])

    return [patch.object(selection, "is_held", moved)]


@_key_mutant("spread-keys-lost-at-a-takeover", "a router that takes over does not know the spread keys of the log")
def _spread_keys_lost_at_a_takeover() -> Patches:
    apply_frame = FrameMaker.apply_frame

    def forgetful(self: FrameMaker, frame: Frame, *, is_first: bool, is_written_here: bool) -> None:
        apply_frame(self, frame, is_first=is_first, is_written_here=is_written_here)
        if not is_written_here:
            self.spread._spread = ()

    return [patch.object(FrameMaker, "apply_frame", forgetful)]


@_key_mutant(
    "spread-keys-at-arrival", "a worker selects a batch's tuples as it comes, by the newest frame that it has read"
)
def _spread_keys_at_arrival() -> Patches:
    on_record, held = PoJoinMachine.on_record, KeySelection.held
    newest: WeakKeyDictionary[PoJoinMachine, tuple[SpreadKey, ...]] = WeakKeyDictionary()
    known: WeakKeyDictionary[KeySelection, dict[int, tuple[SpreadKey, ...]]] = WeakKeyDictionary()

    def note(self: PoJoinMachine, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        if isinstance(record, Frame):
            newest[self] = record.spread
        elif isinstance(record, Batch) and record.stream in self._batches:
            selection = self._batches[record.stream]._selection
            if isinstance(selection, KeySelection):
                known.setdefault(selection, {}).setdefault(record.batch_id, newest.get(self, ()))
        return on_record(self, topic, partition, offset, record)

    def early(self: KeySelection, batch: Batch, spread: Sequence[SpreadKey]) -> Batch:
        return held(self, batch, known.get(self, {}).get(batch.batch_id, spread))

    return [patch.object(PoJoinMachine, "on_record", note), patch.object(KeySelection, "held", early)]


@_key_mutant("bounds-by-index", "a window's bound is taken for a tuple's number in its column")
def _bounds_by_index() -> Patches:
    return [patch.object(KeySelection, "_numbers_from", lambda _, lower: lower)]


@_key_mutant("by-key-kept", "a worker keeps its batches when columns by key follow columns by batch, or precede them")
def _by_key_kept() -> Patches:
    change_grid = PoJoinMachine._change_grid

    def change(self: PoJoinMachine, grid: Grid) -> Iterator[Action]:
        if self._grid is not None and replace(self._grid, by_key=grid.by_key) == grid:
            self._grid = grid
        else:
            yield from change_grid(self, grid)

    return [patch.object(PoJoinMachine, "_change_grid", change)]
