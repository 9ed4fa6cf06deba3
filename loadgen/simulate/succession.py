"""Checks that the generation in charge answers each row once, over full windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import cast

import numpy as np

from loadgen.simulate.broker import SimulatedLog
from loadgen.simulate.feed import Source
from loadgen.simulate.followers import FramesFollower, ResultsFollower, RunOutcome
from loadgen.simulate.oracle import (
    SourceRow,
    full_answers,
    is_valid,
    merge_by_time,
    nested_loop,
    partners_of_left,
    plays,
    split_late,
    takes_part,
)
from loadgen.simulate.scenario import Scenario
from loadgen.simulate.verdict import (
    Row,
    Wrong,
    answers_of,
    asks_fully,
    check_continuous,
    check_memory,
    check_partitions_in_order,
    check_same_order,
    expected_rows,
    numbered,
    readable,
    rows_in,
)
from loadgen.window import window_begin
from spojoin.model import Order
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import START, ResultPosition
from spojoin.query.fingerprint import is_same_order
from spojoin.wire.records import NEVER

#: The offset of a message, and a row within it.
At = tuple[int, int]
_FIRST: At = (0, 0)
_LAST: At = (1 << 60, 0)


@dataclass(slots=True)
class Era:
    """One generation's log and its output; `filled`: where each router began that may have written the first frame."""

    number: int
    scenario: Scenario
    log: SimulatedLog
    begun: Beginning
    frames: FramesFollower = field(default_factory=FramesFollower)
    results: ResultsFollower = field(default_factory=ResultsFollower)
    result_positions: list[ResultPosition] = field(default_factory=lambda: [START])
    filled: dict[str, Beginning] = field(default_factory=dict)
    backfill: Backfill = Backfill.WINDOW

    @property
    def beginning(self) -> Beginning:
        """Where the router began whose claim came before the first frame."""
        return self.filled.get(self.frames.first_router, self.begun)


@dataclass(frozen=True, slots=True)
class RowsInCharge:
    """The rows for which a generation is in charge: in each input from `begin` to `end`; it reads from `start` on.

    read_end: its position when it ended; no bound if the next generation continues its order
    answered: positions of rows that earlier generations have answered
    highs: the largest event time before `begin`, if that counts for lateness
    """

    start: dict[Source, At]
    begin: dict[Source, At]
    end: dict[Source, At]
    read_end: dict[Source, At]
    answered: frozenset[tuple[int, int, int, int]] = frozenset()
    highs: dict[Source, tuple[At, int]] = field(default_factory=dict)

    def reads(self, row: SourceRow) -> bool:
        """Whether the generation reads a row."""
        source = row.stream, row.partition
        return self.start.get(source, _FIRST) <= (row.offset, row.row) < self.read_end.get(source, _LAST)

    def is_due(self, row: SourceRow) -> bool:
        """Whether the generation must answer a row that it has read."""
        source = row.stream, row.partition
        return row.position not in self.answered and self.begin.get(source, _FIRST) <= (row.offset, row.row)

    def refuses(self, row: SourceRow) -> bool:
        """Whether the generation must refuse an invalid row."""
        source = row.stream, row.partition
        return self.begin.get(source, _FIRST) <= (row.offset, row.row) < self.end.get(source, _LAST)


def judge_succession(eras: Sequence[tuple[Era, RunOutcome]]) -> None:
    """Raises Wrong with the first fault."""
    refused: list[SourceRow] = []
    refusable: list[SourceRow] = []
    answered: frozenset[tuple[int, int, int, int]] = frozenset()
    for number, (era, outcome) in enumerate(eras):
        if not outcome.came_to_rest:
            raise Wrong(f"no rest after {outcome.steps} steps")
        check_continuous(outcome, era.number)
        charge = replace(_charge(era, eras[number + 1][0] if number + 1 < len(eras) else None), answered=answered)
        charge.highs.update(_highs(era))
        if number and is_same_order(eras[number - 1][0].scenario.query, era.scenario.query):
            _check_highs(era, eras[number - 1], charge)
        refused += _judge_era(era, outcome, charge)
        order = _order(era, outcome)
        said = zip(order, _is_silent(era, outcome, order, charge), strict=True)
        answered |= {row.position for row, is_silent in said if not is_silent}
        if number + 1 < len(eras):
            answered |= _passed_over(era, eras[number + 1][0])
        refusable += _valid(era.scenario, RowsInCharge({}, {}, {}, {}))[1] + _valid(era.scenario, charge)[1]
    _check_dead(eras, refused, refusable)
    last, outcome = eras[-1]
    check_memory(last.scenario, _order(last, outcome), outcome)


def _passed_over(era: Era, successor: Era) -> set[tuple[int, int, int, int]]:
    """Rows that passed no filter and were out of their inputs' order when the next generation took over."""
    scenario, earlier = era.scenario, era.begun.answered().passed
    own = [each for each in successor.begun.answered().passed if each not in earlier]
    if not own:
        return set()
    valid = [row for row in scenario.rows() if is_valid(scenario.join, row, scenario.query.needs_time)]
    return {
        row.position
        for row in split_late(valid, scenario.query.order.lateness_us)[0]
        if not takes_part(scenario.join, row)
        and (row.time_us or 0, *row.position) <= own[0].frontier
        and own[0].has_read(row.position)
    }


def _highs(era: Era) -> dict[Source, tuple[At, int]]:
    """The time that each input had reached; one without rows, what was merged without it."""
    begun = era.begun
    merged = max((each.frontier[0] for each in begun.answered().passed), default=NEVER)
    known = {source: begun.highs.get(source, NEVER) for source in era.scenario.inputs}
    reached = {source: merged if high == NEVER else high for source, high in known.items()}
    return {source: (begun.cut.get(source, _FIRST), high) for source, high in reached.items() if high != NEVER}


def _check_highs(era: Era, before: tuple[Era, RunOutcome], charge: RowsInCharge) -> None:
    """Check that rows that a generation answered count for the lateness of the next generation's rows."""
    known = {**_highs(before[0])}
    for row in _order(*before):
        source = row.stream, row.partition
        place, high = known.get(source, (_FIRST, NEVER))
        if (row.offset, row.row) < charge.begin[source]:
            known[source] = place, max(high, row.time_us or 0)
    for source, (_, high) in known.items():
        if charge.highs.get(source, (_FIRST, NEVER))[1] < high:
            raise Wrong(f"generation {era.number}: it doesn't know that times of {source} had reached {high}")


def _charge(era: Era, successor: Era | None) -> RowsInCharge:
    inputs = list(era.scenario.inputs)
    begin = {source: era.begun.cut.get(source, _FIRST) for source in inputs}
    starts = {source: (at.offset, at.row) for source, at in era.beginning.starts.items()}
    if successor is None:
        return RowsInCharge(starts, begin, {}, {})
    end = {source: successor.begun.cut.get(source, _FIRST) for source in inputs}
    if is_same_order(era.scenario.query, successor.scenario.query):
        return RowsInCharge(starts, begin, end, {})
    reached = era.frames.accepted[-1].source if era.frames.accepted else era.beginning.starts
    read = {source: (reached[source].offset, reached[source].row) if source in reached else _FIRST for source in inputs}
    return RowsInCharge(starts, begin, end, read)


def _judge_era(era: Era, outcome: RunOutcome, charge: RowsInCharge) -> list[SourceRow]:
    """Judge a generation; returns the rows that it refused."""
    order = _order(era, outcome)
    valid, refused = _valid(era.scenario, charge)
    if charge.end and not charge.read_end:  # the next one continues its order, so its rows are the first of all rows
        valid = valid[: len(order)]
    _check_order(era, order, valid)
    _check_numbers(era)
    _check_silence(era, outcome, order, charge)
    _check_rows(era, outcome, order, charge)
    if era.begun.cut and outcome.frames.accepted:
        _check_reach(era, order, charge)
    return [row for row in refused if charge.refuses(row)]


def _order(era: Era, outcome: RunOutcome) -> list[SourceRow]:
    by_key = {(row.stream, row.key): row for row in era.scenario.rows()}
    return [row for frame in outcome.frames.accepted for row in rows_in(era.scenario, frame, by_key)]


def _valid(scenario: Scenario, charge: RowsInCharge) -> tuple[list[SourceRow], list[SourceRow]]:
    """Rows that take part, in event-time order if the query is, and rows that are refused."""
    read = [row for row in scenario.rows() if charge.reads(row)]
    valid = [row for row in read if is_valid(scenario.join, row, scenario.query.needs_time)]
    positions = {row.position for row in valid}
    refused = [row for row in read if row.position not in positions]
    if scenario.query.order.by is Order.ARRIVAL:
        return numbered(scenario, valid), refused
    in_time, late = split_late(valid, scenario.query.order.lateness_us, charge.highs)
    return numbered(scenario, merge_by_time(in_time)), refused + late


def _check_order(era: Era, order: list[SourceRow], valid: list[SourceRow]) -> None:
    found, wanted = sorted(row.position for row in order), sorted(row.position for row in valid)
    if found != wanted:
        missing, surplus = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
        raise Wrong(
            f"generation {era.number}: its log lacks {missing[:5]}, must not hold {surplus[:5]}, or holds a row twice"
        )
    if era.scenario.query.order.by is Order.EVENT_TIME:
        check_same_order(order, valid)
    else:
        check_partitions_in_order(order)


def _check_numbers(era: Era) -> None:
    """Check that numbers begin where the router says that wrote the first frame: others may have looked back less."""
    beginning, log = era.beginning, era.frames
    said = beginning.first_seq or sum(beginning.first_indexes)
    if log.accepted and (log.first_indexes, log.first_seq) != (beginning.first_indexes, said):
        raise Wrong(f"generation {era.number}: seqs begin at {log.first_seq}; by where its rows begin, at {said}")


def _check_silence(era: Era, outcome: RunOutcome, order: list[SourceRow], charge: RowsInCharge) -> None:
    said = _is_silent(era, outcome, order, charge)
    for row, is_silent in zip(order, said, strict=True):
        if is_silent == charge.is_due(row):
            raise Wrong(f"generation {era.number}: {row.position} is {'silent' if is_silent else 'answered'}, wrongly")
    if era.scenario.query.order.by is Order.ARRIVAL and said != sorted(said, reverse=True):
        raise Wrong(f"generation {era.number}: rows of an earlier one come behind rows that it answers")


def _is_silent(era: Era, outcome: RunOutcome, order: list[SourceRow], charge: RowsInCharge) -> list[bool]:
    """Whether each row's frame marks it as silent; if left rows ask, no frame does, so whether the row isn't due."""
    found = np.zeros(len(order), np.bool_)
    for frame in outcome.frames.accepted:
        first = frame.first_seq - outcome.frames.first_seq
        if era.scenario.join.asking is not None:
            found[first : first + frame.count] = [not charge.is_due(row) for row in order[first : first + frame.count]]
        if not frame.closings:
            found[first : first + frame.count] = frame.silent if len(frame.silent) else False
        for closing, piece in zip(frame.closings, frame.slices, strict=False):
            silent = frame.silent[closing.all_places] if len(frame.silent) else False
            found[first : first + frame.count][piece.positions] = silent
    return cast("list[bool]", found.tolist())


def _check_rows(era: Era, outcome: RunOutcome, order: list[SourceRow], charge: RowsInCharge) -> None:
    scenario = era.scenario
    expected = [*_expected(era, outcome, order, _is_silent(era, outcome, order, charge))]
    for i, (got, wanted) in enumerate(zip_longest([readable(scenario, r) for r in outcome.results.rows], expected)):
        if got != wanted:
            raise Wrong(f"generation {era.number}: result row {i} is {got}; the oracle says {wanted}")
    if outcome.results.result_position != ResultPosition(len(outcome.frames.accepted), 0):
        raise Wrong(
            f"generation {era.number}: results end at {outcome.results.result_position} of "
            f"{len(outcome.frames.accepted)}"
        )


def _expected(era: Era, outcome: RunOutcome, order: list[SourceRow], are_silent: list[bool]) -> Iterator[Row]:
    """The output rows of all rows that the generation answers."""
    scenario = era.scenario
    firsts, first = outcome.frames.first_indexes or (0, 0), outcome.frames.first_seq
    by_number = _Numbered(order, first)
    if asks_fully(scenario):
        for answer in full_answers(scenario.join, order, firsts, first):
            if not are_silent[answer.seq - first]:
                yield from answers_of(scenario, answer.side, answer.seq, answer.partners, by_number)
        return
    if scenario.join.asking is not None:
        for seq, _, partners in partners_of_left(scenario.join, order, firsts, first):
            if not are_silent[seq - first]:
                yield from answers_of(scenario, 0, seq, partners, by_number)
        return
    for probe, is_silent in zip(nested_loop(scenario.join, order, firsts, first), are_silent, strict=True):
        if not is_silent:
            yield from expected_rows(scenario, probe, by_number)


class _Numbered(Sequence[SourceRow]):
    """Rows by seq, if the first seq isn't 0."""

    def __init__(self, order: Sequence[SourceRow], first: int) -> None:
        self._order = order
        self._first = first

    def __len__(self) -> int:
        return len(self._order) + self._first

    def __getitem__(self, seq: int) -> SourceRow:  # type: ignore[override]
        return self._order[seq - self._first]


# --- windows ----------------------------------------------------------------------------------------------------------


def _check_reach(era: Era, order: list[SourceRow], charge: RowsInCharge) -> None:
    """Check that rows that were not read again are before the windows of all answered rows."""
    scenario = era.scenario
    if era.backfill is Backfill.NONE:
        return
    unread = _unread(scenario, charge)
    asks_left = scenario.join.asking is not None and not asks_fully(scenario)
    for stream in (1,) if asks_left else range(len(scenario.query.streams)):
        missing = [row for row in unread if plays(scenario.join, row, stream)]
        if missing:
            _check_stream(era, order, charge, stream, missing)


def _unread(scenario: Scenario, charge: RowsInCharge) -> list[SourceRow]:
    """Valid rows before the first position that was read, except late ones."""
    rows = [row for row in scenario.rows() if is_valid(scenario.join, row, scenario.query.needs_time)]
    if scenario.query.order.by is Order.EVENT_TIME:
        rows, _ = split_late(rows, scenario.query.order.lateness_us)
    return [row for row in rows if (row.offset, row.row) < charge.start.get((row.stream, row.partition), _FIRST)]


def _check_stream(
    era: Era, order: list[SourceRow], charge: RowsInCharge, stream: int, missing: list[SourceRow]
) -> None:
    window, join = era.scenario.query.window_over(stream), era.scenario.join
    seen = 0
    for row in order:
        is_probe = plays(join, row, stream if era.scenario.query.is_self else 1 - stream)
        if is_probe and charge.is_due(row):
            if window.needs_time:
                bound = window_begin(row.time_us or 0, window.length, window.slide)
                too_far = [m for m in missing if (m.time_us or 0) >= bound]
            else:
                too_far = missing if seen < window.length else []
            if too_far:
                raise Wrong(
                    f"generation {era.number}: {row.position} reaches {too_far[0].position}, which was not read again"
                )
            if not window.needs_time:
                return
        seen += plays(join, row, stream)


# --- dead letters -----------------------------------------------------------------------------------------------------


def _check_dead(eras: Sequence[tuple[Era, RunOutcome]], refused: list[SourceRow], refusable: list[SourceRow]) -> None:
    """Check dead letters. If a letter's frame didn't count, a later generation may be in charge of the row."""
    last = eras[-1][1]
    wanted = {row.position for row in refused}
    found = {(d.stream, d.partition, d.offset, d.row) for d in last.dead}
    lost = {(d.stream, d.partition, d.offset, d.row) for d in last.dead_lost}
    allowed = wanted | {row.position for row in refusable}
    if not (found <= allowed and wanted <= found | lost):
        raise Wrong(f"dead letters lack {sorted(wanted - found)[:5]} and must not hold {sorted(found - allowed)[:5]}")
    accepted = next((outcome.frames.accepted for _, outcome in reversed(eras) if outcome.frames.accepted), [])
    counted = sum(accepted[-1].rejected.values()) if accepted else 0
    if accepted is last.frames.accepted and counted != len(wanted):
        raise Wrong(f"the last frame counts {counted} rejected rows; there are {len(wanted)}")
