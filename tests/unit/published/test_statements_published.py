"""Published methods and layouts answer statements: filters, residual conditions, texts, NULL, asymmetric self joins."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.published.layouts.catalog import LAYOUTS, layout
from spojoin.published.methods.catalog import method
from spojoin.published.methods.registry import SIDES
from spojoin.simulate.layout import run_layout
from spojoin.simulate.method import run_method
from spojoin.simulate.run import draw_statement

SEEDS = 4


def seeds_for(accepts, start):
    return [seed for seed in range(start, start + 200) if accepts(draw_statement(seed).query)][:SEEDS]


@pytest.mark.parametrize("name", SIDES)
def test_a_method_answers_statements(name):
    refused = 0
    for seed in range(100, 100 + SEEDS):
        failure = run_method(seed, method(name, {}), draw_statement)
        if failure is not None and ConfigurationError.__name__ in failure.reason:
            refused += 1  # a hash searches by an equality
            continue
        assert failure is None, failure.account
    assert refused < SEEDS


@pytest.mark.parametrize("name", [name for name, about in LAYOUTS.items() if name != "batch"])
def test_a_layout_answers_statements(name):
    def fits(query):
        return query.key_slots is not None or not LAYOUTS[name].needs_key

    for seed in seeds_for(fits, 0):
        failure = run_layout(seed, layout(name, {}), draw_one=draw_statement)
        assert failure is None, failure.account
