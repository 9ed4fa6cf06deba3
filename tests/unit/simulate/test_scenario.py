"""The scenario of a seed: deterministic, valid, and varied enough."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from spojoin.model import Computed, Domain, Order, Output
from spojoin.simulate.oracle import is_valid
from spojoin.simulate.run import draw_statement
from spojoin.simulate.scenario import codes_of, draw, fold, parse

SEEDS = range(150)


@pytest.fixture(scope="module")
def scenarios():
    return [draw(seed) for seed in SEEDS]


def test_a_seed_always_draws_the_same(scenarios):
    for scenario in scenarios[:20]:
        again = draw(scenario.seed)
        assert (again.query, again.config, again.faults) == (scenario.query, scenario.config, scenario.faults)
        assert [r.position for r in again.rows()] == [r.position for r in scenario.rows()]
        assert again.query.text == scenario.query.text


def test_all_kinds_of_queries_are_drawn(scenarios):
    assert {p.op for s in scenarios for p in s.query.predicates} == set(range(8))
    assert {s.query.output for s in scenarios} == {Output.COUNT, Output.PAIRS, Output.BITMAP}
    assert {s.query.shares_input for s in scenarios if s.join.is_self} == {True, False}
    assert {s.query.order for s in scenarios} == set(Order)
    assert {len(s.query.predicates) for s in scenarios} == {1, 2, 3}
    assert {s.query.is_self for s in scenarios} == {True, False}
    assert {s.query.window.is_time for s in scenarios} == {True, False}
    assert len({c.name for s in scenarios for st in s.query.streams for c in st.schema.values()}) == 7
    assert all(s.query.window.length % s.query.window.slide == 0 for s in scenarios)


def test_ties_are_dense(scenarios):
    for scenario in scenarios:
        columns = [
            Counter(codes)
            for codes in zip(*(codes_of(scenario, 0, r) for r in scenario.valid_rows() if r.stream == 0), strict=True)
        ]
        assert all(len(column) < sum(column.values()) for column in columns if sum(column.values()) > 20)


def test_the_router_gets_the_valid_rows_in_order(scenarios):
    for scenario in scenarios[:60]:
        for source, messages in scenario.inputs.items():
            if not messages:
                continue
            rows = parse(scenario, source, messages, 0)
            valid = [r for m in messages for r in m.rows if is_valid(scenario.join, r, scenario.query.needs_time)]
            assert rows.keys.to_pylist() == [r.key for r in valid]
            assert list(zip(rows.offsets.tolist(), rows.rows.tolist(), strict=True)) == [
                (r.offset, r.row) for r in valid
            ]
            assert len(rows.dead) + len(valid) == sum(len(m.rows) for m in messages)
            assert rows.next_offset == len(messages)


def test_resuming_within_a_message_skips_its_first_rows(scenarios):
    scenario, source, message = next(
        (s, p, m) for s in scenarios for p, ms in s.inputs.items() for m in ms if len(m.rows) > 2
    )
    rows = parse(scenario, source, (message,), 2)
    assert len(rows) + len(rows.dead) == len(message.rows) - 2


def test_folded_doubles_order_like_doubles():
    values = [float("-inf"), -1.5, -5e-324, 0.0, 5e-324, 1.0, float("inf")]
    assert sorted(values, key=fold) == values
    assert fold(-0.0) == fold(0.0)
    assert fold(1.0) == np.float64(1.0).view(np.int64)


@pytest.mark.parametrize("seed", range(40))
def test_the_yaml_in_an_account_states_the_same_query(seed):
    loading = pytest.importorskip("spojoin.query.load")
    scenario = draw(seed)
    query = loading.parse_query(scenario.query.text)
    assert [stream.name for stream in query.streams] == [stream.name for stream in scenario.query.streams]
    assert (query.window, query.interval is None) == (scenario.query.window, scenario.query.interval is None)
    assert [query.window_over(s) for s in range(len(query.streams))] == [
        scenario.query.window_over(s) for s in range(len(query.streams))
    ]
    assert (query.order, query.output, query.limit) == (
        scenario.query.order,
        scenario.query.output,
        scenario.query.limit,
    )
    assert query.lateness_us == scenario.query.lateness_us
    assert [p.op for p in query.predicates] == [p.op for p in scenario.query.predicates]
    assert [p.domain for p in query.predicates] == [p.domain for p in scenario.query.predicates]


# --- statements -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def statements():
    return [draw_statement(seed) for seed in SEEDS]


def test_a_seed_always_draws_the_same_statement(statements):
    for scenario in statements[:10]:
        assert draw_statement(scenario.seed).query == scenario.query


def test_all_kinds_of_statements_are_drawn(statements):
    queries = [s.query for s in statements]
    assert {q.output for q in queries} == set(Output)
    assert {q.shares_input for q in queries if q.is_of_one_input} == {True, False}
    for side in (0, 1):
        assert {bool(s.join.filters[side]) for s in statements} == {True, False}
    assert {bool(q.residuals) for q in queries} == {True, False}
    assert {key.domain for q in queries for stream in q.streams for key in stream.keys} == set(Domain)
    assert any(isinstance(key.expression, Computed) for q in queries for stream in q.streams for key in stream.keys)
    values = {str(value) for s in statements for row in s.rows() for value in row.values.values()}
    assert values >= {"None", "nan", "", "jfk"}


def test_rows_are_read_the_same_whole_or_message_by_message(statements):
    for scenario in statements[:40]:
        for source, messages in scenario.inputs.items():
            if not messages:
                continue
            whole = parse(scenario, source, messages, 0)
            parts = [parse(scenario, source, (message,), 0) for message in messages]
            assert whole.keys.to_pylist() == [key for part in parts for key in part.keys.to_pylist()]
            assert len(whole.dead) == sum(len(part.dead) for part in parts)
