"""All aggregates, one object each: its names, its types, what a plan needs for it, and how its values are computed.

To add an aggregate, add an object to `FUNCTIONS`, of an existing class or a new one; the statement, the plan, EXPLAIN
and the sink need nothing else. An aggregate is computed from listed partners (`listed`), or from the sums that parts
find in the index (`summed`). Only these two functions load kernels; parsing a statement doesn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spojoin.expressions.types import value_type
from spojoin.model import FLOATING, Aggregate, AggregateFunction, Choice, ColumnType, SortKey, TypeName

if TYPE_CHECKING:
    from spojoin.aggregates.partners import Partners
    from spojoin.aggregates.totals import Totals

_LONG, _DOUBLE = ColumnType(TypeName.LONG), ColumnType(TypeName.DOUBLE)
_NUMBERS = (TypeName.INT, TypeName.LONG, TypeName.FLOAT, TypeName.DOUBLE, TypeName.DECIMAL)
_ORDERED = (*_NUMBERS, TypeName.DATE, TypeName.TIMESTAMP, TypeName.STRING, TypeName.BOOLEAN)
#: The digits of a sum, which 128 bits hold.
_SUM_PRECISION = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(AggregateFunction):
    """An aggregate.

    nodes: sqlglot's classes for it; sql: its name in errors that list the expected aggregates, "" if they don't list it
    types: the types that its last argument may have, None for any; is_compared: whether this argument is compared
    argument_count: the number of its arguments; is_of_conditions: whether these are conditions
    share: its share if there is no second argument; has_share: whether a second argument gives the share
    is_in_order: whether the order of partners changes its value; ignores_distinct: whether equal values don't change it
    of_intervals: the aggregate to use for intervals, which are ordered by their microseconds
    suggests_doubles: whether an argument column of unknown type is taken for doubles
    """

    nodes: tuple[type[exp.Expression], ...]
    sql: str = ""
    types: tuple[TypeName, ...] | None = None
    is_compared: bool = False
    argument_count: int = 1
    is_of_conditions: bool = False
    has_share: bool = False
    share: Fraction | None = None
    is_in_order: bool = False
    ignores_distinct: bool = False
    of_intervals: Function | None = None
    suggests_doubles: bool = False

    def arguments(self, _node: exp.Expression, given: list[exp.Expression]) -> list[exp.Expression]:
        """The expressions to aggregate, from the arguments of the call."""
        return given

    def result(self, kind: ColumnType) -> ColumnType:
        """The type of its values, by the type of its first argument, which for COUNT(*) is LONG."""
        return kind

    def listed(self, partners: Partners) -> pa.Array:
        """One value per left row, from all its partners."""
        raise NotImplementedError

    def summed(self, totals: Totals) -> pa.Array:
        """One value per left row, from the sums of its parts; only if `is_counted` or `is_summed`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Function):
    """The number of partners, or of values."""

    is_counted: bool = True

    def arguments(self, _node: exp.Expression, given: list[exp.Expression]) -> list[exp.Expression]:
        """The arguments; none for a star."""
        return [] if given and isinstance(given[0], exp.Star) else given

    def result(self, _kind: ColumnType) -> ColumnType:
        """A long."""
        return _LONG

    def listed(self, partners: Partners) -> pa.Array:
        """One number a left row."""
        return pa.array(partners.counts())

    def summed(self, totals: Totals) -> pa.Array:
        """One number a left row."""
        return pa.array(totals.counts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(Function):
    """The exact sum of values; sums of doubles are rounded once."""

    is_summed: bool = True
    types: tuple[TypeName, ...] | None = _NUMBERS

    def arguments(self, node: exp.Expression, given: list[exp.Expression]) -> list[exp.Expression]:
        """The arguments; for COUNT_IF, ones and zeros."""
        return [exp.cast(exp.paren(node.this), "INTEGER")] if isinstance(node, exp.CountIf) else given

    def result(self, kind: ColumnType) -> ColumnType:
        """A decimal with all digits, or a double."""
        return _DOUBLE if kind.name in FLOATING else ColumnType(TypeName.DECIMAL, _SUM_PRECISION, kind.scale)

    def listed(self, partners: Partners) -> pa.Array:
        """One sum a left row."""
        return partners.sums()

    def summed(self, totals: Totals) -> pa.Array:
        """One sum a left row."""
        return totals.sums()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Function):
    """The exact sum of values divided by their number, rounded once."""

    is_summed: bool = True
    types: tuple[TypeName, ...] | None = _NUMBERS

    def result(self, _kind: ColumnType) -> ColumnType:
        """A double."""
        return _DOUBLE

    def listed(self, partners: Partners) -> pa.Array:
        """One mean a left row."""
        return partners.means()

    def summed(self, totals: Totals) -> pa.Array:
        """One mean a left row."""
        return totals.means()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme(Function):
    """The first argument of the partner with the least, or greatest, last argument; ties go to the first partner."""

    is_greatest: bool
    types: tuple[TypeName, ...] | None = _ORDERED
    is_compared: bool = True

    def choice(self, of: Aggregate) -> Choice | None:
        """The choice of the first partner in the order of the last argument."""
        key = SortKey(of.arguments[-1], self.is_greatest, nulls_first=False)
        return Choice(key, needed=of.arguments, filter=of.filter)

    def listed(self, partners: Partners) -> pa.Array:
        """One value a left row."""
        if partners.aggregate.choice is not None:
            return partners.first_by_code(is_greatest=self.is_greatest)
        numbers, zeros = partners.ranks(), np.zeros(len(partners.offsets) - 1, np.int64)
        if self.is_greatest and len(partners.arguments) == 1:
            return partners.at(numbers, partners.counts() - 1)
        return partners.at(~numbers if self.is_greatest else numbers, zeros)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile(Function):
    """The least of the values that a share of the values doesn't exceed."""

    types: tuple[TypeName, ...] | None = _ORDERED
    is_compared: bool = True

    def listed(self, partners: Partners) -> pa.Array:
        """One value a left row."""
        share = partners.aggregate.share
        assert share is not None, "a quantile has a share"
        places = [-(-n * share.numerator // share.denominator) - 1 for n in partners.counts().tolist()]
        return partners.at(partners.ranks(), np.maximum(np.array(places, np.int64), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(Function):
    """The mean of squared distances from the mean, or its root; NULL for too few values.

    is_sample: whether to divide by n - 1 instead of n, as for a sample
    """

    is_sample: bool
    is_root: bool
    types: tuple[TypeName, ...] | None = _NUMBERS
    suggests_doubles: bool = True

    def result(self, _kind: ColumnType) -> ColumnType:
        """A double."""
        return _DOUBLE

    def listed(self, partners: Partners) -> pa.Array:
        """One value a left row.

        It takes two passes over doubles: the mean is exact and rounded once; the distances from it and their squares
        are summed exactly, and the error from rounding the mean is subtracted.
        """
        values = partners.doubles()
        means, counts = partners.exactly(values, is_mean=True)
        with np.errstate(all="ignore"):
            apart = values - np.repeat(means, np.diff(partners.offsets))
            squares, _ = partners.exactly(apart * apart, is_mean=False)
            rest, _ = partners.exactly(apart, is_mean=False)
            found = np.maximum(squares - rest * rest / counts, 0.0) / (counts - self.is_sample)
        variances = pa.array(found, mask=counts <= int(self.is_sample))
        return pc.sqrt(variances) if self.is_root else variances


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Function):
    """The first or last value in the order of partners."""

    is_last: bool = False
    is_in_order: bool = True

    def choice(self, of: Aggregate) -> Choice | None:
        """The choice of the first or last partner by number."""
        return Choice(None, self.is_last, needed=() if self.takes_nulls else of.arguments, filter=of.filter)

    def listed(self, partners: Partners) -> pa.Array:
        """One value a left row."""
        return partners.end(is_last=self.is_last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Values(Function):
    """All values in the order of partners, as a list."""

    takes_nulls: bool = True
    is_in_order: bool = True

    def result(self, kind: ColumnType) -> ColumnType:
        """A list of the argument's type."""
        return ColumnType(TypeName.CARRIED, arrow=pa.list_(value_type(kind)))

    def listed(self, partners: Partners) -> pa.Array:
        """One list a left row."""
        return partners.lists()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedText(Function):
    """All values in the order of partners, as one text."""

    is_in_order: bool = True

    def arguments(self, _node: exp.Expression, given: list[exp.Expression]) -> list[exp.Expression]:
        """The arguments as text."""
        return [exp.cast(given[0], "VARCHAR", dialect="duckdb"), *given[1:]]

    def listed(self, partners: Partners) -> pa.Array:
        """One text a left row."""
        return pc.binary_join(partners.lists(), partners.aggregate.separator)


_ARG_MIN = Extreme(name="arg_min", sql="ARG_MIN", nodes=(exp.ArgMin,), argument_count=2, is_greatest=False)
_ARG_MAX = Extreme(name="arg_max", sql="ARG_MAX", nodes=(exp.ArgMax,), argument_count=2, is_greatest=True)

#: All aggregates, in the order in which errors list the expected ones.
FUNCTIONS: tuple[Function, ...] = (
    Count(name="count", sql="COUNT", nodes=(exp.Count,)),
    Sum(name="sum", sql="COUNT_IF", nodes=(exp.CountIf,)),
    Sum(name="sum", sql="SUM", nodes=(exp.Sum,), suggests_doubles=True),
    Mean(name="avg", sql="AVG", nodes=(exp.Avg,), suggests_doubles=True),
    Extreme(name="min", sql="MIN", nodes=(exp.Min,), is_greatest=False, ignores_distinct=True, of_intervals=_ARG_MIN),
    Extreme(name="max", sql="MAX", nodes=(exp.Max,), is_greatest=True, ignores_distinct=True, of_intervals=_ARG_MAX),
    _ARG_MIN,
    _ARG_MAX,
    Extreme(
        name="max",
        sql="BOOL_OR",
        nodes=(exp.LogicalOr,),
        is_greatest=True,
        ignores_distinct=True,
        is_of_conditions=True,
    ),
    Extreme(
        name="min",
        sql="BOOL_AND",
        nodes=(exp.LogicalAnd,),
        is_greatest=False,
        ignores_distinct=True,
        is_of_conditions=True,
    ),
    Quantile(name="quantile_disc", sql="QUANTILE_DISC", nodes=(exp.PercentileDisc,), has_share=True),
    Quantile(name="quantile_disc", sql="MEDIAN", nodes=(exp.Median,), share=Fraction(1, 2), suggests_doubles=True),
    Spread(name="stddev_samp", sql="STDDEV", nodes=(exp.Stddev, exp.StddevSamp), is_sample=True, is_root=True),
    Spread(name="stddev_pop", nodes=(exp.StddevPop,), is_sample=False, is_root=True),
    Spread(name="var_samp", sql="VARIANCE", nodes=(exp.Variance,), is_sample=True, is_root=False),
    Spread(name="var_pop", nodes=(exp.VariancePop,), is_sample=False, is_root=False),
    End(name="first", sql="FIRST", nodes=(exp.First,), takes_nulls=True),
    End(name="last", sql="LAST", nodes=(exp.Last,), takes_nulls=True, is_last=True),
    End(name="any_value", sql="ANY_VALUE", nodes=(exp.AnyValue,), ignores_distinct=True),
    Values(name="list", sql="LIST", nodes=(exp.ArrayAgg,)),
    JoinedText(name="string_agg", sql="STRING_AGG", nodes=(exp.GroupConcat,)),
)
BY_NODE: Mapping[type[exp.Expression], Function] = {node: one for one in FUNCTIONS for node in one.nodes}

_NAMES = [one.sql for one in FUNCTIONS if one.sql]
EXPECTED = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


def function_of(one: Aggregate) -> Function:
    """The function object of an aggregate in a query."""
    assert isinstance(one.function, Function), "a query's aggregates are of these functions"
    return one.function
