"""The oracle against small examples worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from loadgen.simulate.conditions import Among, Compared, Either, IsNull, Literal, Negation, SideColumn
from loadgen.simulate.oracle import (
    Comparison,
    OracleJoin,
    SourceRow,
    evaluate,
    holds,
    is_valid,
    merge_by_time,
    nested_loop,
    split_late,
)
from spojoin.model import Arithmetic, Column, Constant, Op, Output
from spojoin.windows import RowWindow, TimeWindow

A = Column("a")
NO_WIDTH = Fraction(0)
EVERYTHING = RowWindow(100, 100)


def row(n, a=None, stream=0, time_us=None, partition=0):
    return SourceRow(stream, partition, n, 0, time_us, n, {"a": a})


def join(*comparisons, window=EVERYTHING, is_self=True):
    return OracleJoin(is_self, comparisons or (compare(Op.LT),), window, Output.COUNT, None)


def compare(op, width=NO_WIDTH, ieee=False):
    return Comparison(A, op, A, width, ieee)


def partners(the_join, rows):
    return [(p.as_left, p.as_right) for p in nested_loop(the_join, rows)]


def test_self_join_evaluates_both_directions_against_earlier_tuples_only():
    # l.a < r.a over 2, 1, 3: pair (x, y) belongs to the later of the two
    assert partners(join(), [row(0, 2), row(1, 1), row(2, 3)]) == [((), ()), ((0,), ()), ((), (0, 1))]


@pytest.mark.parametrize(
    ("length", "slide", "members"),
    [
        (2, 1, [(), (0,), (0, 1), (1, 2), (2, 3), (3, 4)]),
        # index from ceil(c / 2) * 2 - 4 on
        (4, 2, [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (2, 3, 4)]),
        (2, 2, [(), (0,), (0, 1), (2,), (2, 3), (4,)]),
    ],
)
def test_count_window_moves_in_steps_of_the_slide(length, slide, members):
    rows = [row(i, 0) for i in range(6)]
    found = partners(join(compare(Op.EQ), window=RowWindow(length, slide)), rows)
    assert [left for left, _ in found] == members


def test_time_window_starts_at_the_rounded_up_slide_less_the_length():
    # probe at 11, slide 5, length 10: from 15 - 10 = 5 on
    rows = [row(i, 0, time_us=t) for i, t in enumerate((4, 5, 9, 10, 11))]
    found = partners(join(compare(Op.EQ), window=TimeWindow(10, 5)), rows)
    assert found[-1][0] == (1, 2, 3)
    # probe at 10: 10 is a multiple of 5 already, so from 0 on
    assert found[-2][0] == (0, 1, 2)


@pytest.mark.parametrize(
    ("op", "truth"),
    [
        (Op.LT, (True, False, False)),
        (Op.LE, (True, True, False)),
        (Op.GT, (False, False, True)),
        (Op.GE, (False, True, True)),
        (Op.EQ, (False, True, False)),
        (Op.NE, (True, False, True)),
    ],
)
def test_operators_below_at_and_above(op, truth):
    assert tuple(holds(op, left, 5, NO_WIDTH, False) for left in (4, 5, 6)) == truth


def test_bands_over_doubles_are_those_of_ieee_arithmetic():
    tenth = Fraction("0.1")
    assert abs(0.3 - 0.2) < 0.1  # the sum rounds; in exact arithmetic it would be equal
    assert holds(Op.BAND_LT, 0.3, 0.2, tenth, True)
    assert not holds(Op.BAND_LT, Decimal("0.3"), Decimal("0.2"), tenth, False)
    assert holds(Op.BAND_LE, Decimal("0.3"), Decimal("0.2"), tenth, False)
    assert not holds(Op.BAND_LE, float("inf"), float("inf"), tenth, True)


def test_bands_over_integers_never_pass_through_a_double():
    assert not holds(Op.BAND_LT, 2**53 + 1, 2**53, Fraction(1), False)
    assert holds(Op.BAND_LE, 2**63 - 1, -(2**63), Fraction(2**64 - 1), False)
    assert not holds(Op.BAND_LT, 2**63 - 1, -(2**63), Fraction(2**64 - 1), False)


def test_doubles_compute_as_written_and_decimals_exactly():
    total = Arithmetic("+", A, Constant(Fraction("0.2")))
    assert evaluate(total, {"a": 0.1}, True) == 0.1 + 0.2
    assert evaluate(total, {"a": Decimal("0.1")}, False) == Decimal("0.3")
    assert evaluate(total, {"a": None}, False) is None
    big = Decimal("123456789012345678901234567890.12")
    assert evaluate(Arithmetic("-", A, Constant(Fraction(1))), {"a": big}, False) == Decimal(
        "123456789012345678901234567889.12"
    )


def test_rows_without_an_order_or_a_time_take_no_part():
    ieee = join(compare(Op.LT, ieee=True))
    assert is_valid(ieee, row(0, 1.0), False)
    assert not is_valid(ieee, row(0, float("nan")), False)
    assert not is_valid(ieee, row(0, None), False)
    assert not is_valid(ieee, row(0, 1.0), True)
    difference = Comparison(Arithmetic("-", A, A), Op.LT, A, NO_WIDTH, True)
    assert not is_valid(join(difference), row(0, float("inf")), False)


def test_a_row_is_late_when_it_is_behind_its_own_partition_by_more_than_the_lateness():
    rows = [row(i, 0, time_us=t) for i, t in enumerate((10, 7, 8, 6))] + [row(9, 0, time_us=1, partition=1)]
    in_time, late = split_late(rows, 3)
    assert [r.time_us for r in in_time] == [10, 7, 8, 1]
    assert [r.time_us for r in late] == [6]


def test_time_order_breaks_ties_by_stream_partition_and_position():
    rows = [
        row(1, 0, stream=1, time_us=5),
        row(2, 0, stream=0, time_us=5, partition=1),
        row(4, 0, stream=0, time_us=5),
        row(3, 0, stream=0, time_us=5),
        row(0, 0, stream=1, time_us=4),
    ]
    assert [r.position for r in merge_by_time(rows)] == [
        (1, 0, 0, 0),
        (0, 0, 3, 0),
        (0, 0, 4, 0),
        (0, 1, 2, 0),
        (1, 0, 1, 0),
    ]


# --- statements -------------------------------------------------------------------------------------------------------

T = Column("t")
ONE, L_A, R_A = Literal(1), SideColumn(0, "a"), SideColumn(1, "a")


def statement(*comparisons, **more):
    return OracleJoin(True, comparisons or (compare(Op.LE),), EVERYTHING, Output.COUNT, None, keeps_nulls=True, **more)


def test_three_truth_values():
    nothing, two = {"a": None}, {"a": 2}
    assert Compared(L_A, "<", ONE).truth((nothing, two)) is None
    assert Negation(Compared(L_A, "<", ONE)).truth((nothing, two)) is None
    assert Either((Compared(L_A, "<", ONE), Compared(R_A, ">", ONE))).truth((nothing, two)) is True
    assert Either((Compared(L_A, "<", ONE), Compared(R_A, "<", ONE))).truth((nothing, two)) is None
    assert Among(L_A, (ONE, Literal(2))).truth((two, two)) is True
    assert Among(L_A, (ONE,)).truth((nothing, two)) is None
    assert [IsNull(L_A, negated).truth((nothing, two)) for negated in (False, True)] == [True, False]


def test_nan_equals_itself_and_is_above_every_number():
    nan, inf = {"a": float("nan")}, {"a": float("inf")}
    assert [Compared(L_A, sign, R_A).truth((nan, nan)) for sign in ("=", "<>", "<=")] == [True, False, True]
    assert Compared(L_A, ">", R_A).truth((nan, inf)) is True
    assert not holds(Op.BAND_LE, float("nan"), float("nan"), Fraction(1), True)


def test_a_row_with_null_takes_part_and_joins_nothing():
    rows = [row(0, 1), row(1, None), row(2, 1)]
    assert all(is_valid(statement(), each, False) for each in rows)
    assert partners(statement(), rows) == [((), ()), ((), ()), ((0,), (0,))]


def test_only_rows_that_pass_a_sides_filter_count_in_its_window():
    # left: above 1; right: all. The left side's window of two holds the rows with 2 and 3, not the 1 between them.
    above = (Compared(L_A, ">", ONE),)
    one = replace(statement(compare(Op.NE), filters=(above, ())), window=RowWindow(2, 1))
    rows = [row(i, a) for i, a in enumerate((2, 1, 3, 5))]
    assert [p.as_right for p in nested_loop(one, rows)] == [(), (0,), (0,), (0, 2)]
    assert [p.as_left for p in nested_loop(one, rows)] == [(), (), (0, 1), (1, 2)]


def test_residual_conditions_filter_pairs_by_values_and_numbers():
    rows = [row(0, 1), row(1, 1), row(2, 1)]
    one = statement(residuals=(Compared(SideColumn(0, "seq"), "<", SideColumn(1, "seq")),))
    assert partners(one, rows) == [((), ()), ((), (0,)), ((), (0, 1))]


def test_texts_are_equal_with_or_without_regard_to_case():
    rows = [SourceRow(0, 0, n, 0, None, n, {"t": text}) for n, text in enumerate(("JFK", "jfk", "JFK", ""))]
    exact = Comparison(T, Op.EQ, T, NO_WIDTH, False)
    assert [p.as_left for p in nested_loop(statement(exact), rows)] == [(), (), (0,), ()]
    caseless = statement(replace(exact, ignores_case=True))
    assert [p.as_left for p in nested_loop(caseless, rows)] == [(), (0,), (0, 1), ()]
