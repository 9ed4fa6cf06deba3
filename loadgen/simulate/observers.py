"""Counts a process's events from outside: it wraps the functions that follow a rule; the product has no hooks."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np

from loadgen.simulate.broker import AppendsUnderWay, SimulatedLog, Target, Writers, exclusive
from loadgen.simulate.coverage import Event, forms, landed
from loadgen.simulate.generations import GenerationsWorld
from loadgen.simulate.process import Post, Process
from loadgen.simulate.world import World
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.access import SHARING
from spojoin.protocol.answerer import AnswererTurn
from spojoin.protocol.grid import Grid, grid_of
from spojoin.protocol.key_columns import column_of
from spojoin.protocol.machine import BY_REFERENCE, ResultPosition
from spojoin.protocol.packed_machine import Pack, PackMember, _Held
from spojoin.protocol.packing import roles_of
from spojoin.protocol.result_partitions import ResultPartition
from spojoin.protocol.services import Rotation, role_of
from spojoin.protocol.stand_in import StandIn
from spojoin.protocol.standby import Seat, Standby
from spojoin.protocol.topology import Role, Topic
from spojoin.roles.intake.machine import IntakeMachine
from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.pojoin.machine import PoJoinMachine, WorkerBatches
from spojoin.roles.pojoin.selection import AskedProbes, KeySelection
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router.asking import AskingSide
from spojoin.roles.router.block_rows import BlockRows
from spojoin.roles.router.event_time_order import EventTimeOrder
from spojoin.roles.router.machine import RouterMachine, WorkerRequest
from spojoin.roles.router.spread_keys import SpreadKeys
from spojoin.roles.router.value_numbers import ValueNumbers
from spojoin.roles.sink.assembly import FrameSpan, PartChunks, WaitingParts
from spojoin.roles.sink.machine import SinkMachine
from spojoin.roles.sink.pairs import Answers
from spojoin.wire.records import (
    Barrier,
    Batch,
    Block,
    Frame,
    Part,
    Presence,
    Probes,
    Record,
    SpreadKey,
    Takeover,
    WorkerCount,
    resume_position,
)

Events = Counter[Event]
#: Observes a call, given the events so far and the call's own arguments.
Look = Callable[..., None]
_BEFORE: list[tuple[type, str, Look]] = []
_AFTER: list[tuple[type, str, Look]] = []


@contextmanager
def observed(events: Events) -> Iterator[None]:
    """Count the events of seeds that run within the block into `events`."""
    with ExitStack() as watches:
        for owner, name, look in _BEFORE:
            watches.enter_context(patch.object(owner, name, _first(getattr(owner, name), look, events)))
        for owner, name, look in _AFTER:
            watches.enter_context(patch.object(owner, name, _then(getattr(owner, name), look, events)))
        yield


def _first(original: Callable[..., Any], look: Look, events: Events) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*given: Any, **named: Any) -> Any:  # noqa: ANN401  (any method's)
        look(events, *given, **named)
        return original(*given, **named)

    return watched


def _then(original: Callable[..., Any], look: Look, events: Events) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*given: Any, **named: Any) -> Any:  # noqa: ANN401  (any method's)
        found = original(*given, **named)
        look(events, found, *given, **named)
        return found

    return watched


def _before(owner: type, name: str) -> Callable[[Look], Look]:
    def register(look: Look) -> Look:
        _BEFORE.append((owner, name, look))
        return look

    return register


def _after(owner: type, name: str) -> Callable[[Look], Look]:
    def register(look: Look) -> Look:
        _AFTER.append((owner, name, look))
        return look

    return register


# --- rows that ask ----------------------------------------------------------------------------------------------------


@_before(AskingSide, "finish_restore")
def _restores_open_rows(events: Events, side: AskingSide) -> None:
    events["P16 rows that ask", "open rows restored from batches"] += bool(side.open._restored)
    events["P16 rows that ask", "open right rows restored from batches"] += bool(side.stream and side.open._restored)


# --- the simulated world ----------------------------------------------------------------------------------------------


@_after(World, "__init__")
def _begun(events: Events, _: None, world: World, *__: object) -> None:
    if isinstance(world, GenerationsWorld):
        for scenario in world._replacement.scenarios:
            events.update(forms(scenario))
    else:
        events.update(forms(world.scenario))


@_after(World, "_landed")
def _landing(events: Events, record: Record, world: World, target: Target, __: Record) -> None:
    events["P1 log", "record passes the wire codec"] += world.scenario.faults.encode
    events.update(landed(world, target, record))


@_before(World, "_note_batch")
def _batch_lands(events: Events, world: World, target: Target, batch: Batch) -> None:
    newest = world._newest_batch.get((id(world.log), target[1]), -1)
    events["P8 batches", "batch written twice"] += batch.batch_id <= newest


@_before(World, "_start")
def _starts(events: Events, world: World, post: Post) -> None:
    if hasattr(world, "processes"):  # otherwise it is the first process of its post
        for role in post.roles:
            events["starts again", str(role)] += 1


_SAID = {
    "is replaced, but keeps running": "keeps running beside its successor",
    "dies within a record": "dies within a record",
    "reads nothing from": "reads nothing for a while",
    "stands still": "stands still",
}


@_before(World, "_note")
def _said(events: Events, _: World, fault: str) -> None:
    for words, group in _SAID.items():
        if words in fault:
            for role in roles_of(role_of(fault.split("#", maxsplit=1)[0])):
                events[group, str(role)] += 1
    events["P14 packing", "packing changed"] += fault.startswith("packing ")
    events["P11 workers", "worker dismissed"] += fault.endswith("is taken away")
    events["P15 seats", "log out of reach"] += fault.startswith(("the log is out", "no transaction"))


_ENDS = {
    "what it had not read yet was trimmed": ("P1 log", "process ends for records trimmed unread"),
    "another router has claimed the log; this one ends": ("P2 epochs", "router fenced by a later claim"),
    "another router claimed the log while this one was starting; this one ends": (
        "P2 epochs",
        "router fenced while it starts",
    ),
    "another router claimed this epoch first; this one ends": ("P2 epochs", "router fenced while it starts"),
}


@_after(World, "_take_seat")
def _takes_seat(events: Events, found: ResultPosition | None, *_: object) -> None:
    events["P15 seats", "taking the seat waits for transactions"] += found is None


@_before(Writers, "open")
def _opens(events: Events, writers: Writers, roles: Iterable[Role], outbox: AppendsUnderWay, *_: object) -> None:
    for role in exclusive(roles):
        if any(holder is outbox for (owner, _), holder in writers._holders.items() if owner is role):
            events["P15 seats", "seat taken again in one life"] += 1
            events["P15 seats", "own appends under way on taking it again"] += bool(outbox._targets(SHARING[role]))


@_after(AppendsUnderWay, "abort")
def _aborted(events: Events, lost: list[Record], *_: object) -> None:
    events["P15 seats", "appends of another aborted"] += len(lost)


@_before(World, "_end")
def _ended(events: Events, _: World, __: Process, why: str) -> None:
    if why in _ENDS:
        events[_ENDS[why]] += 1


@_after(Process, "__init__")
def _reads_from(events: Events, _: None, process: Process, *__: object, **___: object) -> None:
    events["P1 log", "role reads a trimmed log"] += process.cursors.get((Topic.FRAMES, 0), 0) > 0


@_before(SimulatedLog, "trim")
def _trimmed(events: Events, log: SimulatedLog, target: Target, before: int) -> None:
    if before > log.partitions[target].earliest:
        events["P9 recovery", f"{target[0]} trimmed"] += 1


@_before(GenerationsWorld, "_take_over")
def _takes_over(events: Events, world: GenerationsWorld, takeover: Takeover) -> None:
    events["P12 generations", "takeover"] += 1
    events["P12 generations", "takeover of an order by time"] += bool(takeover.checkpoint)
    backfill = world._replacement.backfills[takeover.generation - 2].value
    events["P12 generations", _BACKFILLS[backfill]] += 1
    before, after = world._replacement.scenarios[takeover.generation - 2 : takeover.generation]
    events["P20 result partitions", "number of partitions changes"] += before.sinks != after.sinks


_BACKFILLS = {
    "window": "backfill of the window",
    "none": "backfill of nothing",
    "earliest": "backfill from the earliest",
}


# --- how the log is read ----------------------------------------------------------------------------------------------


@_after(LogFollower, "_accept_barrier")
def _barrier(events: Events, accepted: bool, _: LogFollower, barrier: Barrier) -> None:
    events["P2 epochs", "barrier claims the log" if accepted else "barrier of a taken epoch refused"] += 1
    events["P12 generations", "log closed"] += accepted and barrier.closes


@_after(LogFollower, "accept")
def _frame(events: Events, accepted: bool, reader: LogFollower, record: Frame | Barrier) -> None:
    if accepted or (isinstance(record, Barrier) and not reader.is_closed):
        return
    if reader.is_closed:
        events["P12 generations", "record behind a closed log refused"] += 1
    elif isinstance(record, Frame):
        events["P3 acceptance", _why_refused(reader, record)] += 1


def _why_refused(reader: LogFollower, frame: Frame) -> str:
    if frame.epoch != reader.epoch:
        return "frame of an old epoch refused"
    if (frame.frame_id, frame.first_seq) != (reader.next_frame, reader.next_seq):
        return "frame out of turn refused"
    return "frame of other inputs refused"


# --- the router -------------------------------------------------------------------------------------------------------


@_after(RouterMachine, "_activate")
def _activated(events: Events, _: None, router: RouterMachine) -> None:
    if router._log.last is not None:
        events["P4 sources", "router goes on from a frame's sources"] += 1
        events["P21 columns by key", "spread keys known at a takeover"] += bool(router._frames.spread._spread)
        events["P4 sources", "router goes on within a message"] += any(at.row for at in router.sources().values())


@_before(EventTimeOrder, "_restore")
def _restored(events: Events, *_: object) -> None:
    events["P4 sources", "router restores an order by time"] += 1


@_after(EventTimeOrder, "_passed")
def _passed(events: Events, found: Any, _: EventTimeOrder, source: Any, *__: object) -> None:  # noqa: ANN401
    if source.late_before:
        events["P4 sources", "row remembered as late refused again"] += int(found[1].sum())


@_after(RouterMachine, "_has_credit")
def _credit(events: Events, has_credit: bool, _: RouterMachine) -> None:
    events["P11 workers", "router out of credits"] += not has_credit


@_before(WorkerRequest, "accept_count")
def _requested(events: Events, request: WorkerRequest, count: WorkerCount) -> None:
    if request._version is not None and count.version <= request._version:
        events["P11 workers", "request out of date ignored"] += 1
    elif count.workers > request._workers_max:
        events["P11 workers", "request too large refused"] += 1


_forgotten: WeakKeyDictionary[ValueNumbers, set[Any]] = WeakKeyDictionary()


@_before(ValueNumbers, "_numbers_of")
def _numbered(events: Events, names: ValueNumbers, values: Any, *_: object) -> None:  # noqa: ANN401
    events["P13 names", "text numbered"] += len(values)
    gone = _forgotten.get(names)
    if gone:
        again = gone.intersection(values.to_pylist())
        events["P13 names", "forgotten name given again"] += len(again)
        gone -= again


@_before(ValueNumbers, "learn_numbers")
def _learned(events: Events, names: ValueNumbers, stream: int, codes: Any, payload: Any, *_: object) -> None:  # noqa: ANN401
    if payload is not None and names._slots[stream]:
        events["P13 names", f"name learned from a {'batch' if isinstance(codes, dict) else 'frame'}"] += 1


@_before(ValueNumbers, "forget_unreached")
def _forgets(events: Events, names: ValueNumbers, lower: Any) -> None:  # noqa: ANN401
    if len(names) < names._sweep_at:
        return
    reached: list[bool] = np.any(names._last[:, : len(names)] >= np.array(lower)[:, None], axis=0).tolist()
    gone = {name for name, is_reached in zip(names._places, reached, strict=True) if not is_reached}
    events["P13 names", "name forgotten"] += len(gone)
    _forgotten.setdefault(names, set()).update(gone)


# --- workers and the sink ---------------------------------------------------------------------------------------------


@_after(PoJoinMachine, "_has_all")
def _waits(events: Events, has_all: bool, *_: object) -> None:
    events["P7 places", "worker waits for a batch"] += not has_all


@_after(WorkerBatches, "hand_over")
def _handed_over(events: Events, _: None, batches: WorkerBatches, *__: object) -> None:
    events["P7 places", "batch comes before its frame"] += bool(batches._waiting)
    events["P7 places", "worker searches batches"] += batches.index.tuples > 0


@_after(PoJoinMachine, "_is_due")
def _due(events: Events, is_due: bool, machine: PoJoinMachine, frame: Frame, grid: Grid) -> None:
    events["P19 grid", "frame answered by one of several rows"] += is_due and grid.rows > 1
    events["P19 grid", "frame answered by several rows' columns"] += is_due and min(grid.rows, grid.columns) > 1
    events["P19 grid", "worker outside the grid"] += grid.workers <= machine._worker < frame.workers


@_before(MutableMachine, "_evaluate_frame")
def _evaluates(events: Events, machine: MutableMachine, *_: object) -> None:
    events["P22 mutable part", "frame evaluated by one of several joiners"] += _takes_turns(machine)


@_before(MutableMachine, "_send_runs")
def _sorts(events: Events, machine: MutableMachine, frame: Frame) -> None:
    ours = sum(piece.seals and machine._turn.has_batch(frame, piece.batch_id) for piece in frame.slices)
    events["P22 mutable part", "batch sorted by one of several joiners"] += ours * _takes_turns(machine)


def _takes_turns(machine: MutableMachine) -> bool:
    """Whether a joiner is one of several that are apart."""
    return isinstance(machine._turn, Rotation) and machine._turn.of > 1


@_before(MutableMachine, "answer")
def _ranks(events: Events, machine: MutableMachine, frame: Frame) -> None:
    turn = machine._turn
    if not isinstance(turn, AnswererTurn):
        return
    grid = grid_of(frame)
    events["P22 answerers", "frame of one of several answerers"] += grid.workers > 1
    events["P22 answerers", "frame of several columns"] += grid.columns > 1
    events["P22 answerers", "answerer stands in"] += not turn.has_frame(frame)
    is_late = any(
        store._codes and next(iter(store._codes.values())).end > piece.first_index + len(piece)
        for store, piece in zip(machine._stores, frame.slices, strict=True)
    )
    events["P22 answerers", "frame evaluated beside later tuples"] += is_late


@_before(MutableMachine, "run_of")
def _sorts_for_another(events: Events, *_: object) -> None:
    events["P22 answerers", "batch sorted in place of another"] += 1


@_before(LogicalAndMachine, "_evaluate_frame")
def _combines(events: Events, machine: LogicalAndMachine, *_: object) -> None:
    events["P22 mutable part", "frame combined by one of several logical ANDs"] += machine._turn.of > 1


@_before(PoJoinMachine, "_change_grid")
def _changes(events: Events, machine: PoJoinMachine, grid: Grid) -> None:
    share = grid.share_of(machine._worker)
    events["P11 workers", "batches read again"] += share is not None and share != machine._share
    events["P19 grid", "batches kept as rows change"] += share is not None and share == machine._share
    events["P21 columns by key", "batches read again by key"] += (
        share is not None and share.by_key and share != machine._share
    )


@_after(KeySelection, "held")
def _held(events: Events, _: Batch, selection: KeySelection, batch: Batch, spread: Sequence[SpreadKey]) -> None:
    events["P21 columns by key", "batch divided among columns"] += 1
    key = next(column for column in batch.columns if column.slot == selection._slots.stored)
    for each in selection._own(spread):
        indexes = batch.first + key.order[key.codes == each.code].astype(np.int64)
        in_turn = int(((indexes >= each.first) & (indexes < each.end)).sum())
        events["P21 columns by key", "tuple held in turn"] += in_turn
        events["P21 columns by key", "tuple held by its key beside a spread one"] += bool(in_turn < len(indexes))


@_after(KeySelection, "asked")
def _asked(events: Events, found: AskedProbes, selection: KeySelection, probes: Probes, *_: object) -> None:
    assert found.asked is not None
    codes = probes.codes[selection._slots.probes]
    own = int((column_of(codes, selection._share.columns) == selection._share.column).sum())
    events["P21 columns by key", "probe asked of another key's column"] += int(found.asked.sum()) - own


@_after(SpreadKeys, "of_next_frame")
def _spreads(events: Events, found: tuple[SpreadKey, ...], keys: SpreadKeys, *_: object) -> None:
    before = {(key.stream, key.code): key.end for key in keys._spread}
    for key in found:
        events["P21 columns by key", "key becomes hot"] += (key.stream, key.code) not in before
        events["P21 columns by key", "key cools down"] += before.get((key.stream, key.code), key.end) > key.end


@_before(SpreadKeys, "forget_unreached")
def _forgets_keys(events: Events, keys: SpreadKeys, result_frame: int) -> None:
    reached = [each for frame_id, each in keys._under_way if frame_id < result_frame][-1:]
    gone = [key for key in keys._spread for each in reached if key.end <= each[key.stream]]
    events["P21 columns by key", "key forgotten"] += len(gone)


@_after(StandIn, "covers")
def _covered(events: Events, covers: bool, stand_in: StandIn, frame: Frame) -> None:
    events["P19 grid", "worker answers for another row"] += (
        covers and stand_in._place.asked(frame) != stand_in._place.worker
    )


@_before(PoJoinMachine, "_answer_late")
def _answers_late(events: Events, machine: PoJoinMachine, frame: Frame) -> None:
    events["P19 grid", "worker answers late for another row"] += 1
    nodes = [(stream, node) for stream, batches in machine._batches.items() for node in batches.index._nodes[-1:]]
    sees_some = any(node.end > frame.slices[stream].handover_index for stream, node in nodes)
    events["P19 grid", "answer that sees only some of the tuples held"] += sees_some


@_before(PoJoinWorker, "_cover_vacant_numbers")
def _covers(events: Events, worker: PoJoinWorker) -> None:
    events["P11 workers", "worker stands in"] += len(worker._vacant.keys() - worker._covered.keys())


@_before(PartChunks, "append_next")
def _chunk(events: Events, chunks: PartChunks, chunk: Part, _: int) -> None:
    events["P6 parts", "chunk ahead of its turn refused"] += chunk.begin > chunks.end
    events["P6 parts", "repeated chunk cut"] += chunk.begin < chunks.end


@_before(WaitingParts, "accept_chunk")
def _part(events: Events, _: WaitingParts, chunk: Part, __: int, next_frame: int, *___: object) -> None:
    events["P6 parts", "part of a finished frame dropped"] += chunk.frame_id < next_frame


@_before(SinkMachine, "_move_past")
def _answered(events: Events, sink: SinkMachine, span: FrameSpan) -> None:
    is_shared = sink._share.count > 1
    events["P20 result partitions", "frame answered by one of several sinks"] += is_shared
    is_ahead = span.frame.frame_id - sink._result_position.frame_id >= sink._share.count
    events["P20 result partitions", "sink ahead of the result position"] += is_shared and is_ahead


@_after(SinkMachine, "_own")
def _own_rows(events: Events, kept: Answers, sink: SinkMachine, _: int, answers: Answers) -> None:
    if kept.numbers is not None:
        events["P20 result partitions", "row kept by its key"] += kept.rows.num_rows
        events["P20 result partitions", "row of another key left out"] += answers.rows.num_rows - kept.rows.num_rows
        events["P20 result partitions", "row without a key"] += kept.rows.column(sink._key).null_count


@_after(ResultPartition, "has")
def _has(events: Events, is_own: bool, *_: object) -> None:
    events["P20 result partitions", "part for another sink left out"] += not is_own


@_after(Process, "_is_out")
def _was_out(events: Events, is_out: bool, *_: object) -> None:
    events["P20 result partitions", "result of a partition that is ahead left out"] += is_out


# --- intakes ----------------------------------------------------------------------------------------------------------


@_after(IntakeMachine, "_begin_if_ready")
def _intake_begins(events: Events, _: None, intake: IntakeMachine) -> None:
    events["P23 blocks", "intake begins where a router resumes"] += intake.active and bool(intake._starts)


@_after(IntakeMachine, "wants_rows")
def _intake_wants(events: Events, wants: bool, *_: object) -> None:
    events["P23 blocks", "intake waits for the router"] += not wants


@_before(BlockRows, "_take")
def _takes_block(events: Events, rows: BlockRows, key: tuple[int, int], block: Block) -> None:
    taken = rows._reached(key)
    events["P23 blocks", "block that was taken before left out"] += block.end <= taken
    events["P23 blocks", "block taken in part"] += block.first < taken < block.end
    events["P23 blocks", "block ends within a message"] += block.next_row > 0
    events["P23 blocks", "block with dead letters"] += block.refused is not None


@_before(BlockRows, "_forget_settled")
def _silent_router(events: Events, rows: BlockRows) -> None:
    sources = rows.sources()
    gone = sum(held[0].end <= resume_position(sources, key).place for key, held in rows._held.items() if held)
    events["P23 blocks", "router that is silent forgets a block"] += gone


# --- packings and standbys --------------------------------------------------------------------------------------------


@_before(PackMember, "queue_record")
def _put(events: Events, _: PackMember, source: tuple[Topic, int], offset: int, __: Record) -> None:
    if offset == BY_REFERENCE:
        is_ahead = source[0] is Topic.FRAMES
        events["P14 packing", "frame taken ahead of the log" if is_ahead else "record passed by reference"] += 1


@_after(Pack, "_newest_behind")
def _followed(events: Events, frame_id: int, pack: Pack, *_: object) -> None:
    events["P14 packing", "record held until its frame is in the log"] += frame_id >= pack._reader.next_frame


@_before(Pack, "_release")
def _released(events: Events, pack: Pack) -> None:
    held: list[_Held] = list(pack._held)
    events["P14 packing", "held record let go"] += sum(each.frame_id < pack._reader.next_frame for each in held)


@_after(Seat, "beat")
def _beats(events: Events, beat: Presence | None, seat: Seat, *_: object) -> None:
    if beat is not None and beat.speaks and not seat.is_mine:
        events["P15 seats", "seat claimed" if seat._holder[0] else "seat claimed at the start"] += 1


@_before(Standby, "_follow_seat")
def _follows(events: Events, standby: Standby, seat: Seat) -> None:
    if seat.is_mine and not standby._speaks:
        events["P15 seats", "record said on taking the seat"] += len(standby._unsaid)
        if seat._term > 1:
            for role in roles_of(role_of(seat._service)):
                events["takes the seat of another", str(role)] += 1
    events["P15 seats", "speaker falls silent"] += standby._speaks and not seat.is_mine
