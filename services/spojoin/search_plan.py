"""What the parts that search windows yield for a query: lists of partners, counts, sums, or the first in an order.

A *part* is a worker or the mutable part: each searches some rows of a window, and the sink combines their answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spojoin.model import (
    Aggregate,
    Choice,
    Column,
    Direction,
    EmitOn,
    JoinKind,
    Measure,
    Op,
    Output,
    Query,
    Use,
)


@dataclass(frozen=True)  # without slots: cached properties need a __dict__
class SearchPlan:
    """The plan of one query."""

    query: Query

    @property
    def lists_pairs(self) -> bool:
        """Whether each part lists all partners that it finds; otherwise it counts, sums or chooses them."""
        needs_less = self.query.results.output is Output.COUNT or self.only_counts or self.measures or self.choices
        return bool(self.query.residuals) or not needs_less

    def lists_matches(self, direction: Direction) -> bool:
        """Whether each part lists all partners that it finds in one direction; otherwise it counts them.

        A right row of a FULL JOIN on close only needs to know whether there is any left row, unless a condition filters
        its partners.
        """
        query = self.query
        only_asks_whether = query.both_ask and not direction.as_left and query.answers.emit is EmitOn.CLOSE
        return self.lists_pairs and not (only_asks_whether and not query.residuals)

    def output_of_parts(self, direction: Direction) -> Output:
        """What each part yields in one direction: pairs or counts."""
        return Output.PAIRS if self.lists_matches(direction) else Output.COUNT

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """What each part sums up over the partners that it finds; empty if counts suffice or lists are needed."""
        grouped = self.query.answers.grouped
        if grouped is None or self.only_counts or self.query.residuals:
            return ()
        if not all(aggregate.is_sum or aggregate.choice for aggregate in grouped.aggregates):
            return ()
        sums = [aggregate for aggregate in grouped.aggregates if aggregate.is_sum]
        summed = [aggregate.measured for aggregate in sums if aggregate.function.is_summed]
        return tuple(Measure(*each, each in summed) for each in dict.fromkeys(one.measured for one in sums))

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Which partners each part lists, if an answer needs no others; empty if counts or sums suffice."""
        best, grouped = self.query.answers.best, self.query.answers.grouped
        if self.query.residuals or self.only_counts:
            return ()
        if best is not None:
            return () if best.choice is None else (best.choice,)
        if grouped is None:
            return ()
        choices = [aggregate.choice for aggregate in grouped.aggregates if not aggregate.is_sum]
        return () if None in choices else tuple(dict.fromkeys(choice for choice in choices if choice is not None))

    @property
    def chosen_count(self) -> int:
        """How many partners a part lists for each choice: one more if a left row may find itself."""
        finds_itself = self.query.is_of_one_input and self.query.answers.emit is EmitOn.CLOSE
        return max([choice.count for choice in self.choices], default=0) + finds_itself

    @property
    def enough_partners(self) -> int | None:
        """How many partners of a left row a part needs to find; None for all.

        A SEMI or ANTI JOIN needs to know whether there is one, and a part may find the row itself.
        """
        asks_whether = self.query.answers.join in (JoinKind.SEMI, JoinKind.ANTI) and not self.query.residuals
        return 2 if asks_whether else None

    @property
    def part_limit(self) -> int | None:
        """How many partners a part may list; None with residual conditions, which parts don't evaluate."""
        return None if self.query.residuals or self.query.asks else self.query.results.limit

    @property
    def only_counts(self) -> bool:
        """Whether an answer needs only the number of partners."""
        answers = self.query.answers
        if answers.grouped is None:
            return answers.join in (JoinKind.SEMI, JoinKind.ANTI)
        return all(self._counts_partners(aggregate) for aggregate in answers.grouped.aggregates)

    def _counts_partners(self, aggregate: Aggregate) -> bool:
        uses = (use for argument in aggregate.arguments for use in argument.uses)
        return aggregate.is_plain_count and all(map(self._is_never_null, uses))

    def _is_never_null(self, use: Use) -> bool:
        """Whether a column is never NULL in a partner: the event time, or a column that a condition compares."""
        right = self.query.streams[-1]
        is_compared = Column(use.name) in (key.expression for key in right.keys)
        is_time = self.query.needs_time and use.name == right.time_column
        return use.side == 1 and (use.is_number or is_compared or is_time)

    @property
    def has_pair_payload(self) -> bool:
        """Whether results or residual conditions need columns of the rows of a pair."""
        return any(stream.payload for stream in self.query.streams)

    def interval_count(self, direction: Direction) -> int:
        """How many intervals a search intersects, except the mark of void rows: nearly all tuples match that one."""
        return direction.condition_count - self.query.both_ask

    @property
    def key_slots(self) -> tuple[int, ...] | None:
        """The slots of the streams' join key: the columns of the first equality, which are equal in every match.

        None without an equality. In a self join the equality must compare a column with itself: otherwise a tuple would
        have two keys.
        """
        equal = [(p.left_slot, p.right_slot) for p in self.query.predicates if p.op is Op.EQ]
        if self.query.is_self:
            return next(((left,) for left, right in equal if left == right), None)
        return next(iter(equal), None)
