import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.load.arrivals import Arrivals

ANY = st.builds(Arrivals, rate=st.floats(1.0, 1e6), on_share=st.floats(0.05, 1.0), period_s=st.floats(0.5, 10.0))


@given(ANY, st.integers(0, 1_000_000))
def test_a_row_is_due_after_those_before_it(arrivals, row):
    assert arrivals.rows_due(arrivals.due_s(row)) == pytest.approx(row, rel=1e-6, abs=1e-3)


@given(ANY, st.lists(st.integers(0, 100_000), min_size=2, max_size=50))
def test_rows_are_due_in_order(arrivals, rows):
    due = [arrivals.due_s(row) for row in sorted(rows)]
    assert due == sorted(due)


@given(ANY, st.integers(1, 50))
def test_the_rate_is_kept_over_whole_periods(arrivals, periods):
    assert arrivals.rows_due(periods * arrivals.period_s) == pytest.approx(periods * arrivals.period_s * arrivals.rate)


def test_nothing_is_due_in_the_rest_of_a_period():
    bursts = Arrivals(rate=100.0, on_share=0.25, period_s=2.0)
    assert bursts.peak == 400.0
    assert bursts.rows_due(0.25) == pytest.approx(100)
    assert bursts.rows_due(0.5) == bursts.rows_due(1.9) == pytest.approx(200)
    assert bursts.due_s(200) == pytest.approx(2.0)


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"rate": 1, "on_share": 0}, {"rate": 1, "on_share": 1.5}])
def test_invalid_paces_are_refused(wrong):
    with pytest.raises(ValueError, match="above 0"):
        Arrivals(**wrong)
