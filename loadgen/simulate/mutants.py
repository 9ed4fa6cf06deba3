"""Planted bugs: each breaks something that the protocol or an algorithm ensures, and must be found.

A mutant replaces attributes of the product for the length of one seed; it is planted again for every seed, so that no
state carries over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from loadgen.simulate.followers import ResultsFollower
from loadgen.simulate.process import Process
from loadgen.simulate.world import World
from spojoin.arrays import I64
from spojoin.index import assembly
from spojoin.index.node import Node
from spojoin.index.stream_index import StreamIndex
from spojoin.kernels import bounds as kernel_bounds
from spojoin.kernels import listing, pairs
from spojoin.kernels.bounds import BELOW, ENDS
from spojoin.kernels.counting import CountPlan
from spojoin.kernels.pairs import Segments
from spojoin.model import Op
from spojoin.protocol import standby
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.answered import FIRST_PLACE, Promises
from spojoin.protocol.grid import Grid, Share
from spojoin.protocol.machine import Action, Emit, ResultPosition
from spojoin.protocol.services import Rotation
from spojoin.protocol.stand_in import StandIn
from spojoin.protocol.topology import Topic
from spojoin.roles.logical_and import machine as logical_and
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.pojoin.machine import PoJoinMachine, WorkerBatches
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router import physical_input
from spojoin.roles.router.event_time_order import EventTimeOrder
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.router.physical_input import ReadyRows
from spojoin.roles.router.router_log import RouterLog
from spojoin.roles.router.stream_book import Reach, StreamBook
from spojoin.roles.sink.assembly import PartChunks, WaitingChunk
from spojoin.roles.sink.trimming import Trimming
from spojoin.wire.records import NEVER, Batch, Frame, Matches, Part, Record, Rows, Run, SourceState, SpreadKey

Patches = list[AbstractContextManager[object]]
Plant = Callable[[], Patches]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug: its description, and the patches that plant it."""

    what: str
    plant: Plant


MUTANTS: dict[str, Mutant] = {}


def planted(known: dict[str, Mutant], name: str, what: str) -> Callable[[Plant], Plant]:
    """Decorates a function that plants a bug, to add it to the `known` mutants."""

    def register(plant: Plant) -> Plant:
        known[name] = Mutant(what, plant)
        return plant

    return register


_mutant = partial(planted, MUTANTS)


# --- the log ----------------------------------------------------------------------------------------------------------


@_mutant("no-epoch-barrier", "readers accept frames of a router that another one has replaced")
def _no_epoch_barrier() -> Patches:
    def continues(self: LogFollower, frame: Frame) -> bool:
        position = frame.frame_id, frame.first_seq, frame.previous_link
        return position == (self.next_frame, self.next_seq, self.link)

    return [patch.object(LogFollower, "_continues", continues)]


@_mutant("no-source-chain", "a router reads on where its group committed, not where the log's frames ended")
def _no_source_chain() -> Patches:
    committed: SourceState = {}
    sources, on_rows = RouterLog.sources, RouterMachine.on_rows

    def commit(self: RouterMachine, stream: int, partition: int, rows: Rows) -> Iterator[Action]:
        yield from on_rows(self, stream, partition, rows)
        at = sources(self._log).get((stream, partition))
        if at is not None:
            committed[stream, partition] = replace(at, offset=rows.next_offset, row=0)

    return [
        patch.object(RouterLog, "sources", lambda self: {**sources(self), **committed}),
        patch.object(RouterMachine, "on_rows", commit),
    ]


@_mutant("promises-forgotten", "a restarted router knows of no heartbeat that positions have passed")
def _promises_forgotten() -> Patches:
    return [patch.object(EventTimeOrder, "_promises", lambda _: {})]


@_mutant("promises-at-once", "a heartbeat that was read but not passed counts for the rows before it after a restart")
def _promises_at_once() -> Patches:
    def all_of_them(self: EventTimeOrder) -> Promises:
        heard = [source for source in self._inputs if source.heartbeat_us != NEVER]
        return {source.key: (FIRST_PLACE, source.heartbeat_us) for source in heard}

    return [patch.object(EventTimeOrder, "_promises", all_of_them)]


@_mutant("reads-forgotten", "a router's first frames forget how far inputs were read before it")
def _reads_forgotten() -> Patches:
    checkpoint = EventTimeOrder.checkpoint

    def forgetful(self: EventTimeOrder) -> bytes:
        known = orjson.loads(checkpoint(self))
        known["read"] = [[s.stream, s.partition, *s.ledger.read_end()] for s in self._inputs]
        known["late"] = [[s.stream, s.partition, *place] for s in self._inputs for place in s.ledger.late_places()]
        return orjson.dumps(known)

    return [patch.object(EventTimeOrder, "checkpoint", forgetful)]


@_mutant("no-frame-number", "readers accept any frame of the current epoch, at any position")
def _no_frame_number() -> Patches:
    return [patch.object(LogFollower, "_continues", lambda self, frame: frame.epoch == self.epoch)]


@_mutant("early-commit", "a restart continues after the results that were sent, whether or not they reached the topic")
def _early_commit() -> Patches:
    sent = ResultsFollower()
    carry_out = Process._carry_out

    def note(self: Process, action: Action) -> None:
        if isinstance(action, Emit) and action.topic is Topic.RESULTS:
            sent.hear(action.record)
        carry_out(self, action)

    def ahead(self: World) -> ResultPosition:
        return max(sent.result_position, self.results.result_position)

    return [patch.object(Process, "_carry_out", note), patch.object(World, "_restart_position", ahead)]


# --- meeting ----------------------------------------------------------------------------------------------------------


@_mutant("and-without-key", "the logical AND takes each predicate's oldest partial, whatever its frame")
def _and_without_key() -> Patches:
    def evaluate_whole(self: LogicalAndMachine) -> Iterator[Action]:
        while self._frames and all(self._partials):
            partials = [waiting.pop(next(iter(waiting))) for waiting in self._partials]
            yield from self._evaluate_frame(self._frames.popleft(), partials)

    return [patch.object(LogicalAndMachine, "_evaluate_complete_frames", evaluate_whole)]


@_mutant("batch-without-id", "the permutation service joins a stream's runs as they come, whatever their batch")
def _batch_without_id() -> Patches:
    take = PermutationMachine._take

    def mixed(self: PermutationMachine, key: tuple[int, int], run: Run) -> Iterator[Action]:
        return take(self, (key[0], -1), run)

    return [patch.object(PermutationMachine, "_take", mixed)]


@_mutant("tie-order", "rows of equal event time are merged in the reverse order of their inputs")
def _tie_order() -> Patches:
    def order(taken: list[ReadyRows], times: I64) -> I64:
        ids = np.concatenate([origins.ids for _, origins, _ in taken])
        inputs = np.concatenate([np.full(len(origins), source.index) for source, origins, _ in taken])
        return np.lexsort((ids, -inputs, times)).astype(np.int64)

    return [patch.object(physical_input, "_order", order)]


# --- evaluation -------------------------------------------------------------------------------------------------------


@_mutant("lt-for-le", "the mutable joiners evaluate <= as <")
def _lt_for_le() -> Patches:
    return [patch("spojoin.roles.mutable.machine.ENDS", {**ENDS, Op.LE: BELOW})]


@_mutant("lost-self-join-role", "the logical AND evaluates a self join's probes as the left side only")
def _lost_self_join_role() -> Patches:
    matches = LogicalAndMachine._matches

    def left_only(self: LogicalAndMachine, *asked: Any) -> tuple[Matches, ...]:  # noqa: ANN401
        found = zip(self._query.directions, matches(self, *asked), strict=True)
        return tuple(one if role.as_left or role.probe != role.target else _nothing_like(one) for role, one in found)

    return [patch.object(LogicalAndMachine, "_matches", left_only)]


def _nothing_like(matches: Matches) -> Matches:
    counts = np.zeros_like(matches.counts)
    if matches.offsets is None:
        return Matches(counts)
    return Matches(counts, np.zeros_like(matches.offsets), np.empty(0, np.int64))


@_mutant("probing-during-handover", "a worker searches a batch as soon as it has it, while it is mutable still")
def _probing_during_handover() -> Patches:
    hand_over = WorkerBatches.hand_over

    def at_once(self: WorkerBatches, _: int, live_batch: int, lower: int, spread: Sequence[SpreadKey] = ()) -> None:
        hand_over(self, 1 << 40, live_batch, lower, spread)

    return [patch.object(WorkerBatches, "hand_over", at_once)]


@_mutant("worker-answers-early", "a worker evaluates a frame before the batches that it needs have come")
def _worker_answers_early() -> Patches:
    return [patch.object(PoJoinMachine, "_has_all", lambda *_: True)]


@_mutant("batches-kept", "a worker keeps its batches when another share of them becomes its own")
def _batches_kept() -> Patches:
    def change(self: PoJoinMachine, grid: Grid) -> Iterator[Action]:
        self._grid = grid
        yield from ()

    return [patch.object(PoJoinMachine, "_change_grid", change)]


@_mutant("grid-of-the-newest-frame", "a worker evaluates frames with the grid of the newest one that it has read")
def _grid_of_the_newest_frame() -> Patches:
    evaluate_ready = PoJoinMachine._evaluate_ready_frames

    def ahead(self: PoJoinMachine) -> Iterator[Action]:
        for newest in list(self._frames)[-1:]:
            self._frames = deque(
                replace(frame, workers=newest.workers, columns=newest.columns) for frame in self._frames
            )
        return evaluate_ready(self)

    return [patch.object(PoJoinMachine, "_evaluate_ready_frames", ahead)]


@_mutant("batch-of-no-column", "where several columns share the batches, none holds every fifth one")
def _batch_of_no_column() -> Patches:
    has = Share.has
    return [
        patch.object(Share, "has", lambda self, number: has(self, number) and (self.columns == 1 or number % 5 != 4))
    ]


@_mutant("column-waits-for-fewer-batches", "a column doesn't wait for the first of its batches that a window reaches")
def _column_waits_for_fewer_batches() -> Patches:
    first_from = Share.first_from
    return [patch.object(Share, "first_from", lambda self, batch_id: first_from(self, batch_id) + self.columns)]


@_mutant("frame-of-no-joiner", "where joiners or logical ANDs take turns, none takes every fifth frame and batch")
def _frame_of_no_joiner() -> Patches:
    has = Rotation.has
    return [patch.object(Rotation, "has", lambda self, number: has(self, number) and (self.of == 1 or number % 5 != 4))]


@_mutant("partials-in-order", "a logical AND stops reading partials though the one that it waits for comes behind them")
def _partials_in_order() -> Patches:
    def wants(self: LogicalAndMachine, topic: Topic, partition: int) -> bool:
        waiting = self._frames if topic is Topic.FRAMES else self._partials[partition]
        return len(waiting) < logical_and.WAITING_MAX * (1 + (topic is Topic.PARTIALS))

    return [patch.object(LogicalAndMachine, "wants", wants)]


@_mutant("runs-forgotten", "a silent joiner forgets its runs for batches before one that is made")
def _runs_forgotten() -> Patches:
    is_made = standby._is_made

    def made(record: Record, read: Batch) -> bool:
        is_earlier = isinstance(record, Run) and record.stream == read.stream and record.batch_id < read.batch_id
        return is_earlier or is_made(record, read)

    return [patch.object(standby, "_is_made", made)]


@_mutant("nobody-stands-in", "frames in flight wait for workers that a smaller worker count has dismissed")
def _nobody_stands_in() -> Patches:
    return [patch.object(PoJoinWorker, "_cover_vacant_numbers", lambda _: iter(()))]


@_mutant("no-row-stands-in", "frames wait for a worker that never comes back, although another row could answer")
def _no_row_stands_in() -> Patches:
    return [patch.object(StandIn, "due_frames", lambda *_: [])]


@_mutant("stand-in-sees-later-batches", "a stand-in searches batches that were handed over behind the frame")
def _stand_in_sees_later_batches() -> Patches:
    return [patch.object(StreamIndex, "below", lambda *_: nullcontext())]


@_mutant("stand-in-without-its-window", "a worker forgets what only waiting frames of other rows reach")
def _stand_in_without_its_window() -> Patches:
    return [patch.object(StandIn, "oldest", None)]


@_mutant("stand-in-of-another-column", "a worker answers for the column that it had with the batches of another one")
def _stand_in_of_another_column() -> Patches:
    return [patch.object(StandIn, "change_column", lambda _: None)]


@_mutant("stand-in-never-forgets", "a worker keeps the frames of all rows although results cover them; memory grows")
def _stand_in_never_forgets() -> Patches:
    return [patch.object(StandIn, "note_progress", lambda *_: None)]


@_mutant(
    "worker-count-waits-for-credit",
    "a router announces a worker count only with its next frame, for which it may have no credit",
)
def _worker_count_waits_for_credit() -> Patches:
    return [patch.object(RouterMachine, "_write_grid", lambda _: iter(()))]


@_mutant("band-by-sums", "a band over doubles is taken as [probe - width, probe + width], which rounds elsewhere")
def _band_by_sums() -> Patches:
    def interval(probes: I64, width: float, inclusive: bool) -> tuple[I64, I64]:
        values = _folded(probes).view(np.float64)
        low, high = _folded((values - width).view(np.int64)), _folded((values + width).view(np.int64))
        return (low, high) if inclusive else (low + 1, high - 1)

    return [patch.object(kernel_bounds, "_double_band", interval)]


def _folded(bits: I64) -> I64:
    """Convert bits to codes, or back: the fold is its own inverse."""
    return np.where(bits >= 0, bits, bits ^ 0x7FFF_FFFF_FFFF_FFFF)


# --- windows ----------------------------------------------------------------------------------------------------------


@_mutant("expiry-off-by-one", "windows begin one tuple too early")
def _expiry_off_by_one() -> Patches:
    lower = StreamBook.lower_bounds

    def earlier(self: StreamBook, probes: Reach, own: Reach) -> I64:
        return np.maximum(lower(self, probes, own) - 1, 0)

    return [patch.object(StreamBook, "lower_bounds", earlier)]


@_mutant("expiry-never", "workers never forget a batch; results stay right, memory grows")
def _expiry_never() -> Patches:
    return [patch.object(StreamIndex, "expire", lambda self, lower: None)]


@_mutant("late-window-update", "a worker searches each frame with the window of the one before")
def _late_window_update() -> Patches:
    evaluate = PoJoinMachine._evaluate_frame
    before: WeakKeyDictionary[PoJoinMachine, list[I64]] = WeakKeyDictionary()

    def late(self: PoJoinMachine, frame: Frame) -> Iterator[Action]:
        lowers = [piece.lower[:1] for piece in frame.slices]
        stale = before.get(self, lowers)
        before[self] = lowers
        slices = tuple(replace(piece, lower=lower) for piece, lower in zip(frame.slices, stale, strict=True))
        return evaluate(self, replace(frame, slices=slices))

    return [patch.object(PoJoinMachine, "_evaluate_frame", late)]


# --- the sink ---------------------------------------------------------------------------------------------------------


@_mutant("sink-without-dedup", "the sink takes a part's repeated chunk for its next one")
def _sink_without_dedup() -> Patches:
    def append_next(self: PartChunks, chunk: Part, partition: int) -> bool:
        begin, self.end = self.end, self.end + chunk.end - chunk.begin
        self._chunks.append(WaitingChunk(replace(chunk, begin=begin, end=self.end), partition))
        return True

    return [patch.object(PartChunks, "append_next", append_next)]


@_mutant("short-replay", "the log is trimmed to the recovery point, so that a restart lacks the mutable part")
def _short_replay() -> Patches:
    place = Trimming.note_frame

    def careless(self: Trimming, frame: Frame, offset: int) -> None:
        place(self, frame, offset)
        self._marks[-1].handovers = tuple(1 << 60 for _ in frame.slices)

    return [patch.object(Trimming, "note_frame", careless)]


@_mutant("latest-partners", "a limit keeps a probe's partners as the left side first, not the earliest ones")
def _latest_partners() -> Patches:
    def kept(rights: Segments, lefts: Segments, limit: int | None) -> tuple[I64, I64]:
        right, left = np.diff(rights[0]), np.diff(lefts[0])
        if limit is None:
            return right, left
        left = np.minimum(left, limit)
        return np.minimum(right, limit - left), left

    return [patch.object(pairs, "_kept", kept)]


LISTING_MUTANTS: dict[str, Mutant] = {}
_listing_mutant = partial(planted, LISTING_MUTANTS)

#: Rows of the result of `listing.asked`: the beginning and end of an interval of ranks.
_BEGIN, _END = 0, 1


@_listing_mutant("slice-with-its-end", "the tuple behind an interval of ranks is listed, too")
def _slice_with_its_end() -> Patches:
    asked = listing.asked

    def longer(nodes: I64, entries: I64, plan: CountPlan, m: int, widths: I64) -> Any:  # noqa: ANN401
        found = asked(nodes, entries, plan, m, widths)
        sizes = nodes[:, 0].astype(np.uint32)[:, np.newaxis, np.newaxis]
        found[:, :, _END] = np.minimum(found[:, :, _END] + 1, sizes)
        return found

    return [patch.object(listing, "asked", longer)]


@_listing_mutant("ranks-of-the-other-direction", "a direction lists what the other one's intervals hold")
def _ranks_of_the_other_direction() -> Patches:
    asked = listing.asked

    def swapped(nodes: I64, entries: I64, plan: CountPlan, m: int, widths: I64) -> Any:  # noqa: ANN401
        return np.ascontiguousarray(asked(nodes, entries, plan, m, widths)[:, ::-1])

    return [patch.object(listing, "asked", swapped)]


@_listing_mutant(
    "partners-behind-the-window", "nodes that some probes' windows no longer hold are searched for all of them"
)
def _partners_behind_the_window() -> Patches:
    alike = StreamIndex._answer_alike

    def none_missed(self: StreamIndex, nodes: list[Node], probes: Any, _missed: Any, *others: Any) -> None:  # noqa: ANN401
        alike(self, nodes, probes, None, *others)

    return [patch.object(StreamIndex, "_answer_alike", none_missed)]


@_listing_mutant("partners-by-node", "partners are given in the order in which nodes were searched")
def _partners_by_node() -> Patches:
    return [patch.object(assembly, "sort_segments", lambda _offsets, _values: None)]
