"""Judges a run: the order of the log, every result row, the dead letters, liveness and memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

from pyroaring import BitMap64

from loadgen.simulate.followers import RunOutcome
from loadgen.simulate.oracle import (
    Probe,
    SourceRow,
    full_answers,
    merge_by_time,
    nested_loop,
    open_rows,
    partners_of_left,
    plays,
    split_late,
    takes_part,
)
from loadgen.simulate.scenario import Scenario, codes_of
from spojoin.index.merging import BEHIND_ONE_IN
from spojoin.model import Order, Output
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.topology import FIRST_GENERATION, Role, Topic
from spojoin.wire.records import DeadLetter, Frame

Row = dict[str, Any]


class Wrong(Exception):
    """A run is wrong; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Participants:
    """The rows that take part (in event-time order if the query is), and the refused rows."""

    taking_part: list[SourceRow]
    refused: list[SourceRow]


def judge(scenario: Scenario, outcome: RunOutcome) -> None:
    """Raises Wrong with the first fault, in the output or then in memory."""
    order = judge_output(scenario, outcome)
    check_memory(scenario, order, outcome)


def judge_output(scenario: Scenario, outcome: RunOutcome) -> list[SourceRow]:
    """The total order of the log; raises Wrong if it, a result or a dead letter is wrong."""
    if not outcome.came_to_rest:
        raise Wrong(f"no rest after {outcome.steps} steps")
    check_continuous(outcome)
    expected = _expected(scenario)
    by_key = {(row.stream, row.key): row for row in scenario.rows()}
    order = [row for frame in outcome.frames.accepted for row in rows_in(scenario, frame, by_key)]
    _check_order(scenario, order, expected)
    _check_rows(scenario, order, outcome)
    check_dead(outcome, expected)
    return order


def check_continuous(outcome: RunOutcome, generation: int = FIRST_GENERATION) -> None:
    """Raise Wrong if a reader that takes a generation's results as they come missed some or had another order."""
    for expected, found in outcome.results.gaps[:1]:
        raise Wrong(f"results that should go on at {expected} went on at {found}")
    for key in outcome.results.strays[:1]:
        raise Wrong(f"rows with key {key} are in two partitions")
    for place, following in pairwise(outcome.places):
        if place > following:
            raise Wrong(f"a reader of all partitions gets {following} after {place}")
    given = {frame_id for number, frame_id, *_, is_last in outcome.places if number == generation and is_last}
    is_all_out = outcome.results.result_position.frame_id == len(outcome.frames.accepted)
    if is_all_out and len(given) != len(outcome.frames.accepted):
        raise Wrong(f"a reader of all partitions gets {len(given)} of {len(outcome.frames.accepted)} frames")


def _expected(scenario: Scenario) -> Participants:
    valid = scenario.valid_rows()
    positions = {row.position for row in valid}
    refused = [row for row in scenario.rows() if row.position not in positions]
    if scenario.query.order.by is Order.ARRIVAL:
        return Participants(numbered(scenario, valid), refused)
    in_time, late = split_late(valid, scenario.query.order.lateness_us)
    return Participants(numbered(scenario, merge_by_time(in_time)), refused + late)


def numbered(scenario: Scenario, rows: Iterable[SourceRow]) -> list[SourceRow]:
    """The rows that take a number, because they pass the filter of a side."""
    return [row for row in rows if takes_part(scenario.join, row)]


# --- the order that the log gives -------------------------------------------------------------------------------------


def rows_in(scenario: Scenario, frame: Frame, by_key: dict[tuple[int, int | str], SourceRow]) -> Iterator[SourceRow]:
    """A frame's tuples as input rows, in order; checks their codes."""
    placed: dict[int, SourceRow] = {}
    pieces = [(scenario.query.fed_by[s], piece.positions, piece.keys) for s, piece in enumerate(frame.slices)]
    pieces += [(rows.input, rows.positions, rows.keys) for rows in frame.unjoined]
    for source, positions, keys in pieces:
        for position, key in zip(positions.tolist(), keys.to_pylist(), strict=True):
            row = by_key[source, key]
            if placed.setdefault(position, row) is not row:
                raise Wrong(f"frame {frame.frame_id}: {row} and {placed[position]} have one position")
    _check_codes(scenario, frame, placed)
    if sorted(placed) != list(range(frame.count)):
        raise Wrong(f"frame {frame.frame_id} of {frame.count} tuples has positions {sorted(placed)}")
    yield from (placed[position] for position in range(frame.count))


def _check_codes(scenario: Scenario, frame: Frame, placed: dict[int, SourceRow]) -> None:
    for stream, piece in enumerate(frame.slices):
        for i, position in enumerate(piece.positions.tolist()):
            found, row = [int(column[i]) for column in piece.codes], placed[position]
            if any(code not in (None, own) for code, own in zip(codes_of(scenario, stream, row), found, strict=True)):
                raise Wrong(f"frame {frame.frame_id}: the codes of {row} were altered")


def _check_order(scenario: Scenario, order: list[SourceRow], expected: Participants) -> None:
    positions = Counter(row.position for row in order)
    wanted = {row.position for row in expected.taking_part}
    twice = [position for position, count in positions.items() if count > 1]
    if twice or positions.keys() != wanted:
        missing, surplus = sorted(wanted - positions.keys()), sorted(positions.keys() - wanted)
        raise Wrong(f"the log holds twice: {twice[:5]}, lacks {missing[:5]}, must not hold {surplus[:5]}")
    if scenario.query.order.by is Order.EVENT_TIME:
        check_same_order(order, expected.taking_part)
    else:
        check_partitions_in_order(order)


def check_same_order(order: list[SourceRow], expected: list[SourceRow]) -> None:
    """Raise Wrong if two orders of the same rows differ."""
    for seq, (found, wanted) in enumerate(zip(order, expected, strict=True)):
        if found is not wanted:
            raise Wrong(
                f"seq {seq} is {found.position} at {found.time_us}; by time it is {wanted.position} at {wanted.time_us}"
            )


def check_partitions_in_order(order: list[SourceRow]) -> None:
    """Raise Wrong if the rows of an input are not in the order in which they were written."""
    last: dict[tuple[int, int], SourceRow] = {}
    for row in order:
        before = last.get((row.stream, row.partition))
        if before is not None and before.position >= row.position:
            raise Wrong(f"{row.position} follows {before.position}: an input's order was lost")
        last[row.stream, row.partition] = row


# --- results ----------------------------------------------------------------------------------------------------------


def _check_rows(scenario: Scenario, order: list[SourceRow], outcome: RunOutcome) -> None:
    if scenario.join.asking is not None:
        expected = list(_asked_rows(scenario, order, outcome))
    else:
        expected = [row for probe in nested_loop(scenario.join, order) for row in expected_rows(scenario, probe, order)]
    compare(scenario, order, outcome, expected)


def _asked_rows(scenario: Scenario, order: list[SourceRow], outcome: RunOutcome) -> Iterator[Row]:
    """The answers of closed rows; raises Wrong if too few or too many rows of a side are closed."""
    join = scenario.join
    if not asks_fully(scenario):
        closed = _closed(scenario, order, outcome, 0)
        for seq, _, partners in [*partners_of_left(join, order)][:closed]:
            yield from answers_of(scenario, 0, seq, partners, order)
        return
    ends = [_closed(scenario, order, outcome, side) for side in (0, 1)]
    for answer in full_answers(join, order):
        if answer.place < ends[answer.side]:
            yield from answers_of(scenario, answer.side, answer.seq, answer.partners, order)


def asks_fully(scenario: Scenario) -> bool:
    """Whether rows of both sides ask."""
    return scenario.join.asking is not None and scenario.join.asking.join == "FULL"


def _closed(scenario: Scenario, order: list[SourceRow], outcome: RunOutcome, side: int) -> int:
    """The number of closed rows of a side."""
    join = scenario.join
    rows = sum(plays(join, row, side) for row in order)
    closings = [frame.closings[side] for frame in outcome.frames.accepted if frame.closings]
    closed = closings[-1].end if closings else 0
    last = max((row.time_us for row in order if row.time_us is not None), default=None)
    least, most = (rows - open_rows(join, order, time, side) for time in (last, _latest(scenario)))
    if not least <= closed <= most:
        name = ("left", "right")[side]
        raise Wrong(f"{closed} of {rows} {name} rows are closed; at least {least} must be, at most {most} may be")
    return closed


def answers_of(
    scenario: Scenario, side: int, seq: int, partners: Sequence[int], order: Sequence[SourceRow]
) -> Iterator[Row]:
    """The output rows of one row that asks, of the left or the right side; order: rows by number."""
    asking = scenario.join.asking
    assert asking is not None, "left rows ask"
    own, *found = ({**order[each].values, "id": order[each].key, "seq": each} for each in (seq, *partners))
    for row in (asking.rows_of_right if side else asking.rows)(own, found, scenario.join.select):
        yield {name: _written(value) for name, value in row.items()}


def _latest(scenario: Scenario) -> int | None:
    """The greatest event time that any input has reached, by a row (filtered or not) or by a promise."""
    promised = [message.heartbeat_us for messages in scenario.inputs.values() for message in messages]
    reached = [*promised, *(row.time_us for row in scenario.rows())]
    return max((time for time in reached if time is not None), default=None)


def compare(scenario: Scenario, order: list[SourceRow], outcome: RunOutcome, expected: list[Row]) -> None:
    """Raise Wrong if the results differ from the expected ones, or some are missing."""
    found = [readable(scenario, row) for row in outcome.results.rows]
    for i, (got, wanted) in enumerate(zip_longest(found, expected)):
        if got != wanted:
            raise Wrong(
                f"result row {i} is {got}; the oracle says {wanted}\n{_partners(scenario, order, got or wanted)}"
            )
    if outcome.results.result_position != ResultPosition(len(outcome.frames.accepted), 0):
        raise Wrong(f"results end at {outcome.results.result_position} of {len(outcome.frames.accepted)} frames")


def expected_rows(scenario: Scenario, probe: Probe, order: Sequence[SourceRow]) -> list[Row]:
    """The output rows of one probe."""
    if scenario.query.results.output is Output.PAIRS:
        return list(_pair_rows(scenario, probe, order))
    if scenario.query.results.output is Output.BITMAP:
        return [{"seq": probe.seq, "as_left": list(probe.as_left), "as_right": list(probe.as_right)}]
    if scenario.query.results.output is Output.ROWS:
        return list(_selected_rows(scenario, probe, order))
    return [_count_row(scenario, probe)]


def _count_row(scenario: Scenario, probe: Probe) -> Row:
    left, right = len(probe.as_left), len(probe.as_right)
    row = {
        "seq": probe.seq,
        "stream": scenario.query.inputs[probe.row.stream].name,
        "key": _common_key(scenario, probe.row.key),
        "matches": left + right,
    }
    return row | ({"as_left": left, "as_right": right} if scenario.join.is_self else {})


def _common_key(scenario: Scenario, key: int | str) -> int | str:
    """The key as a count's output has it: text, if any stream's keys are text."""
    return str(key) if scenario.has_text_keys else key


def _pairs_of(probe: Probe) -> list[tuple[int, int]]:
    return [(probe.seq, partner) for partner in probe.as_left] + [(partner, probe.seq) for partner in probe.as_right]


def _selected_rows(scenario: Scenario, probe: Probe, order: Sequence[SourceRow]) -> Iterator[Row]:
    for pair in sorted(_earliest(_pairs_of(probe), scenario.join.limit)):
        left, right = ({**order[seq].values, "id": order[seq].key, "seq": seq} for seq in pair)
        yield {name: _written(term.value((left, right))) for name, term in scenario.join.select}


def _written(value: Any) -> Any:  # noqa: ANN401  (a value of any column)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _pair_rows(scenario: Scenario, probe: Probe, order: Sequence[SourceRow]) -> Iterator[Row]:
    pairs = _pairs_of(probe)
    for left, right in sorted(_earliest(pairs, scenario.join.limit)):
        yield {
            "probe_seq": probe.seq,
            "left_seq": left,
            "right_seq": right,
            "left_key": order[left].key,
            "right_key": order[right].key,
        } | ({} if scenario.join.limit is None else {"cut": len(pairs) > scenario.join.limit})


def _earliest(pairs: list[tuple[int, int]], limit: int | None) -> list[tuple[int, int]]:
    """The pairs with the earliest partners; for a partner on both sides, the pair that the output lists first."""
    return sorted(pairs, key=lambda pair: (min(pair), pair))[:limit]


def readable(scenario: Scenario, row: Row) -> Row:
    """A row with Roaring bitmaps as lists of seqs, and a count's key in the common type of all streams' keys."""
    row = {name: list(BitMap64.deserialize(v)) if isinstance(v, bytes) else _written(v) for name, v in row.items()}
    return row | ({"key": _common_key(scenario, row["key"])} if "key" in row else {})


def _partners(scenario: Scenario, order: Sequence[SourceRow], row: Row | None) -> str:
    seq = (row or {}).get("probe_seq", (row or {}).get("seq"))
    if seq is None or seq >= len(order):
        return ""
    probe = next(p for p in nested_loop(scenario.join, order) if p.seq == seq)
    return f"probe {seq}: {probe.row}\n  as left {list(probe.as_left)}\n  as right {list(probe.as_right)}"


# --- dead letters and memory ------------------------------------------------------------------------------------------


def check_dead(outcome: RunOutcome, expected: Participants) -> None:
    """Raise Wrong if the dead letters or their count in the log differ from the expected ones."""
    found, lost = _positions(outcome.dead), _positions(outcome.dead_lost)
    wanted = {row.position for row in expected.refused}
    # A letter may be lost with its router while the frame that counts it lands; the count is always exact.
    if not found <= wanted <= found | lost:
        raise Wrong(f"dead letters lack {sorted(wanted - found)[:5]} and must not hold {sorted(found - wanted)[:5]}")
    for a, b in pairwise(outcome.frames.accepted):
        if any(b.rejected.get(reason, 0) < count for reason, count in a.rejected.items()):
            raise Wrong(f"rejected counts fall from {a.rejected} to {b.rejected} in frame {b.frame_id}")
    counted = sum(outcome.frames.accepted[-1].rejected.values()) if outcome.frames.accepted else 0
    if counted != len(wanted):
        raise Wrong(f"the last frame counts {counted} rejected rows; there are {len(wanted)}")


def _positions(letters: Iterable[DeadLetter]) -> set[tuple[int, int, int, int]]:
    return {(d.stream, d.partition, d.offset, d.row) for d in letters}


def check_memory(scenario: Scenario, order: list[SourceRow], outcome: RunOutcome) -> None:
    """Raise Wrong if more is held or retained at rest than windows, batches and frames need."""
    bound = state_bound(scenario, order)
    for name, tuples in outcome.state_tuples.items():
        needed = worker_bound(scenario, order) if name.startswith(Role.POJOIN) else bound
        if name.startswith(f"{Role.MUTABLE} in {Role.POJOIN}"):  # an answerer's joiner has all predicates
            needed *= len(scenario.query.predicates)
        if tuples > needed:
            raise Wrong(
                f"{name} holds {tuples} tuples at rest; window, slide, batches and frames need at most {needed}"
            )
    if outcome.batch_tuples > bound:
        raise Wrong(f"batches of {outcome.batch_tuples} tuples are retained at rest; windows reach at most {bound}")
    if outcome.frames_retained > frames_bound(scenario):
        raise Wrong(
            f"{outcome.frames_retained} frames are retained at rest; at most {frames_bound(scenario)} are needed"
        )
    for topic in (Topic.BLOCKS, Topic.PARTIALS, Topic.MATCHES, Topic.RUNS):
        if outcome.retained[topic]:
            raise Wrong(f"{outcome.retained[topic]} records of {topic} are retained, though all results are out")


def state_bound(scenario: Scenario, order: Sequence[SourceRow]) -> int:
    """Tuples that a direction may hold when all results are out: windows, one step of them, batches and frames."""
    config = scenario.config
    slack = 2 * config.batch_tuples + (config.handover_frames + 2) * config.frame_tuples
    return sum(_reach(scenario, order, stream) + slack for stream in range(len(scenario.query.streams)))


def worker_bound(scenario: Scenario, order: Sequence[SourceRow]) -> int:
    """Tuples that a PO-Join worker may hold when all results are out.

    For each stream: the tuples from the start of the last frame's windows to the stream's end, which are a window, one
    slide and that frame's own tuples; and the tuples before that start in the batch that it cuts, or in a node merged
    from batches, which are at most one in BEHIND_ONE_IN of the node's tuples.
    """
    config = scenario.config
    reached = [_reach(scenario, order, s) + config.frame_tuples for s in range(len(scenario.query.streams))]
    return sum(tuples + max(config.batch_tuples, tuples // (BEHIND_ONE_IN - 1)) for tuples in reached)


def _reach(scenario: Scenario, order: Sequence[SourceRow], stream: int) -> int:
    """Tuples of a stream in a last tuple's possible window, one slide longer, or tuples that open left rows keep."""
    if asks_fully(scenario):
        return max(_reach_of_open(scenario, order, stream, asking) for asking in (0, 1))
    if scenario.join.asking is not None:
        return _reach_of_open(scenario, order, stream, 0)
    window = scenario.query.window_over(stream)
    if not window.needs_time:
        return window.length + window.slide
    # If a stream's probes are silent, only the next frame moves its window over the last frame's tuples.
    before = order[: -scenario.config.frame_tuples] or order
    end = max((row.time_us or 0 for row in before), default=0)
    source = scenario.query.fed_by[stream]
    return sum(row.stream == source and (row.time_us or 0) >= end - window.length - window.slide for row in order)


def _reach_of_open(scenario: Scenario, order: Sequence[SourceRow], stream: int, side: int) -> int:
    """Open rows of a side, and a slide; of the other side, rows from the start of the first open row's window."""
    join = scenario.join
    # The last frame's own tuples close rows only with the next frame.
    before = order[: -scenario.config.frame_tuples] or order
    time = max((row.time_us or 0 for row in before), default=0)
    own = [seq for seq, row in enumerate(order) if plays(join, row, side)]
    stays = min(open_rows(join, order, time if scenario.query.window.needs_time else None, side), len(own))
    window = scenario.query.window_over(1 - side)
    kept = min(stays + scenario.query.window_over(side).slide + scenario.config.frame_tuples, len(own))
    if stream == side:
        return kept
    first = own[-kept] if kept else len(order)
    others = [row for row in order[:first] if plays(join, row, 1 - side)]
    after = sum(plays(join, row, 1 - side) for row in order[first:])
    if not window.needs_time:
        return after + min(len(others), window.length + window.slide)
    end = min(time, order[first].time_us or 0) if kept else time
    return after + sum((row.time_us or 0) >= end - window.length - window.slide for row in others)


def frames_bound(scenario: Scenario) -> int:
    """Frames that a restart may need: a batch is sealed by age, then handed over, and the last frame is kept."""
    return scenario.config.batch_frames + scenario.config.handover_frames + 3
