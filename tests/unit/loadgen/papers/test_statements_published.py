"""Published methods and layouts answer statements: filters, residual conditions, texts, NULL, asymmetric self joins."""

from __future__ import annotations

import pytest

from loadgen.papers.layouts.catalog import LAYOUTS
from loadgen.papers.methods.machine import SIDES
from loadgen.simulate.papers import run_layout, run_method
from loadgen.simulate.run import draw_statement
from spojoin.evaluation.choices import layout, method
from spojoin.model import Op
from spojoin.search_plan import SearchPlan
from tests.support.long import first_of

SEEDS = 4


def seeds_for(accepts, start):
    return [seed for seed in range(start, start + 200) if accepts(draw_statement(seed).query)][:SEEDS]


@pytest.mark.parametrize("name", first_of(4, SIDES))
def test_a_method_answers_statements(name):
    def fits(query):  # a hash searches by an equality
        return not query.asks and (name != "hash" or any(each.op is Op.EQ for each in query.predicates))

    for seed in seeds_for(fits, 100):
        failure = run_method(seed, method(name, {}), draw_statement)
        assert failure is None, failure.account


@pytest.mark.parametrize("name", first_of(3, [name for name in LAYOUTS if name != "batch"]))
def test_a_layout_answers_statements(name):
    def fits(query):
        return not query.asks and (SearchPlan(query).key_slots is not None or not LAYOUTS[name].needs_key)

    for seed in seeds_for(fits, 0):
        failure = run_layout(seed, layout(name, {}), draw_one=draw_statement)
        assert failure is None, failure.account
