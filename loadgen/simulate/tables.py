"""Joins with a table under faults: versions come while rows flow and routers die (rule P17).

The active router is given the next version. Each frame of the log names the current version. A frame's answers must
equal a nested loop's over exactly that version's rows, and the log must hold all of these.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from unittest.mock import patch

from loadgen.simulate import probabilities as odds
from loadgen.simulate.drawn_table import TableScenario, draw_table
from loadgen.simulate.followers import RunOutcome
from loadgen.simulate.mutants import Mutant, Patches, planted
from loadgen.simulate.oracle import SourceRow, are_partners
from loadgen.simulate.process import WIRING, Process
from loadgen.simulate.run import Failure, account, planted_in_run, shrunk
from loadgen.simulate.verdict import (
    Participants,
    Row,
    Wrong,
    answers_of,
    check_continuous,
    check_dead,
    check_partitions_in_order,
    compare,
    numbered,
    rows_in,
)
from loadgen.simulate.world import World
from spojoin.protocol.machine import InputMachine, TableRows
from spojoin.protocol.topology import Role
from spojoin.roles.router.stream_book import StreamBook
from spojoin.roles.router.table_versions import TableSide, TableVersion
from spojoin.wire.records import Frame

#: A row with its number.
Numbered = tuple[int, SourceRow]

TABLE_MUTANTS: dict[str, Mutant] = {}
_mutant = partial(planted, TABLE_MUTANTS)


def run_table(seed: int, mutant: str | None = None) -> Failure | None:
    """Draw, run and judge a join with a table; returns None if it equals the oracle's output and nothing is wrong."""
    with planted_in_run(TABLE_MUTANTS[mutant] if mutant else None):
        return run_table_scenario(draw_table(seed))


def run_table_scenario(drawn: TableScenario) -> Failure | None:
    """Run and judge a join with a table; returns None if nothing is wrong."""
    seed = drawn.whole.seed
    with shrunk(drawn.whole):
        world = TableWorld(drawn)
        try:
            judge_table(drawn, world.run())
        except Wrong as wrong:
            return Failure(seed, str(wrong).splitlines()[0], account(drawn.whole, world, str(wrong)))
        except Exception as error:  # noqa: BLE001 - any error of a machine is a finding
            what = traceback.format_exc()
            return Failure(seed, f"{type(error).__name__}: {error}", account(drawn.whole, world, what))
    return None


class TableWorld(World):
    """A world with versions of a table."""

    def __init__(self, drawn: TableScenario) -> None:
        self._drawn = drawn
        self._turn = 0
        self._given: dict[str, int] = {}
        super().__init__(drawn.served, WIRING)

    def _write_inputs(self) -> None:
        """Write inputs; most versions come when the previous one is in the log, and rows wait for many of them."""
        is_named = self._named() is not None
        if is_named and self.rng.random() < odds.ROWS_WITH_VERSION:
            super()._write_inputs()
        if self.rng.random() < (odds.VERSION_A_STEP if is_named else odds.VERSION_TOO_SOON):
            self._next_version()

    def _named(self) -> TableVersion | None:
        """The version that the log names, if it is the current turn's."""
        last = self.frames.accepted[-1] if self.frames.accepted else None
        version = None if last is None else TableVersion.from_checkpoint(last.checkpoint)
        return version if version is not None and version.content == self._drawn.turns[self._turn] else None

    def _next_version(self) -> None:
        self._turn = min(self._turn + 1, len(self._drawn.turns) - 1)

    def _make_trouble(self) -> None:
        """Cause faults; routers die more often while the log holds part of a version, and find the next one."""
        routers = [process for process in self.processes if Role.ROUTER in process.post.roles]
        if routers and self._crashes_left and self._is_within_version() and self.rng.random() < odds.CRASH_IN_VERSION:
            self._crashes_left -= 1
            self._crash(self.rng.choice(routers))
            self._next_version()
        if self.processes:
            super()._make_trouble()

    def _is_within_version(self) -> bool:
        last = self.frames.accepted[-1] if self.frames.accepted else None
        if last is None or not len(last.slices[1]):
            return False
        version = TableVersion.from_checkpoint(last.checkpoint)
        return version is not None and version.end != last.slices[1].first_index + len(last.slices[1])

    def _heal(self) -> None:
        super()._heal()
        self._turn = len(self._drawn.turns) - 1

    def _read(self, process: Process) -> bool:
        if self._lacks_version(process) and (not self._is_storm or self.rng.random() < odds.FEEDS):
            router: InputMachine = process.machine  # type: ignore[assignment]
            self._given[process.name] = self._turn
            self._progress += 1
            table = self._drawn.turns[self._turn]
            process.begin(router.on_table(TableRows(self._drawn.rows(table), table)))
            process.go_on(self.rng.choice(odds.ACTIONS_AT_FIRST))
            return True
        return super()._read(process)

    def _lacks_version(self, process: Process) -> bool:
        if Role.ROUTER not in process.post.roles or self._given.get(process.name, -1) >= self._turn:
            return False
        router: InputMachine = process.machine  # type: ignore[assignment]
        return router.active


def judge_table(drawn: TableScenario, outcome: RunOutcome) -> None:
    """Raises Wrong with the first fault."""
    if not outcome.came_to_rest:
        raise Wrong(f"no rest after {outcome.steps} steps")
    check_continuous(outcome)
    reading = _LogReading(drawn)
    expected = [row for frame in outcome.frames.accepted for row in reading.answers(frame)]
    reading.check_whole()
    compare(drawn.whole, reading.order, outcome, expected)
    valid = drawn.served.valid_rows()
    refused = {row.position for row in drawn.served.rows()} - {row.position for row in valid}
    check_dead(outcome, Participants([], [row for row in drawn.served.rows() if row.position in refused]))


class _LogReading:
    """Follows the log frame by frame. order: all rows by number; a version's rows occur as often as it is written."""

    def __init__(self, drawn: TableScenario) -> None:
        self.order: list[SourceRow] = []
        self._drawn = drawn
        self._by_key = {(row.stream, row.key): row for row in drawn.whole.rows()}
        self._written: list[Numbered] = []
        self._version: TableVersion | None = None
        self._current: list[Numbered] = []
        self._turn = 0

    def answers(self, frame: Frame) -> Iterator[Row]:
        """The output rows of a frame's left rows, by its current version."""
        here = list(enumerate(rows_in(self._drawn.whole, frame, self._by_key), len(self.order)))
        self.order += [row for _, row in here]
        lefts = [each for each in here if each[1].stream == 0]
        if lefts and len(lefts) < len(here):
            raise Wrong(f"frame {frame.frame_id} holds rows of the stream and of the table")
        self._written += [each for each in here if each[1].stream == 1]
        self._follow(frame)
        if lefts and self._version is None:
            raise Wrong(f"frame {frame.frame_id} answers before the table's first version")
        join = self._drawn.whole.join
        for left in lefts:
            partners = [right[0] for right in self._current if are_partners(join, left, right)]
            yield from answers_of(self._drawn.whole, 0, left[0], partners, self.order)

    def _follow(self, frame: Frame) -> None:
        named = TableVersion.from_checkpoint(frame.checkpoint)
        if named == self._version or named is None:
            return
        wanted = self._drawn.numbered(named.content)
        tail = self._written[len(self._written) - len(wanted) :]
        if [row for _, row in tail] != wanted:
            raise Wrong(f"frame {frame.frame_id} names version {named.content}, of which the log lacks rows")
        turns = self._drawn.turns
        later = (turn for turn in range(self._turn, len(turns)) if turns[turn] == named.content)
        turn = next(later, None)
        if turn is None:
            raise Wrong(f"frame {frame.frame_id} names version {named.content}, whose turn is over")
        self._version, self._current, self._turn = named, tail, turn

    def check_whole(self) -> None:
        """Raise Wrong if rows of the stream are missing or duplicated, or the last version isn't current."""
        lefts = [row for row in self.order if row.stream == 0]
        wanted = {row.position for row in numbered(self._drawn.served, self._drawn.served.valid_rows())}
        counts = Counter(row.position for row in lefts)
        if counts.keys() != wanted or any(each > 1 for each in counts.values()):
            raise Wrong(f"the log lacks {sorted(wanted - counts.keys())[:5]} or holds rows twice")
        check_partitions_in_order(lefts)
        last = self._drawn.turns[-1]
        if self._version is None or self._version.content != last:
            raise Wrong(f"the last version is {last}, the log names {self._version}")


# --- planted bugs -----------------------------------------------------------------------------------------------------


@_mutant("part-of-a-version-seen", "a router that starts answers rows before it has made sure of a whole version")
def _part_of_a_version_seen() -> Patches:
    note = TableSide.apply_checkpoint

    def ready(self: TableSide, checkpoint: bytes) -> None:
        note(self, checkpoint)
        self.is_offered |= self.current is not None

    return [patch.object(TableSide, "apply_checkpoint", ready)]


@_mutant("version-by-its-content", "a version that the log has is current though a part of another one lies behind it")
def _version_by_its_content() -> Patches:
    def alike(self: TableSide, content: int) -> bool:
        return self.current is not None and self.current.content == content

    return [patch.object(TableSide, "_is_current", alike)]


@_mutant("old-version-after-a-replay", "a router that starts doesn't learn from the log where the version begins")
def _old_version_after_a_replay() -> Patches:
    note: Callable[[StreamBook, int], None] = StreamBook.note_lower

    def forgetful(self: StreamBook, lower: int) -> None:
        if not self._window.has_versions:
            note(self, lower)

    return [patch.object(StreamBook, "note_lower", forgetful)]


@_mutant("versions-pile-up", "a new version is added to the one before")
def _versions_pile_up() -> Patches:
    def keeps(self: StreamBook) -> None:
        self._ends_version = True

    return [patch.object(StreamBook, "end_version", keeps)]
