"""The scenario of a seed: deterministic, valid, and varied enough."""

from __future__ import annotations

import pytest

from loadgen.simulate.oracle import is_valid
from loadgen.simulate.run import draw_statement
from loadgen.simulate.scenario import draw, parse
from spojoin.model import Computed, Domain, Order, Output

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
    assert {s.query.results.output for s in scenarios} == {Output.COUNT, Output.PAIRS, Output.BITMAP}
    assert {s.query.shares_input for s in scenarios if s.join.is_self} == {True, False}
    assert {s.query.order.by for s in scenarios} == set(Order)
    assert {len(s.query.predicates) for s in scenarios} == {1, 2, 3}
    assert {s.query.is_self for s in scenarios} == {True, False}
    assert {s.query.window.needs_time for s in scenarios} == {True, False}
    assert len({c.name for s in scenarios for st in s.query.streams for c in st.schema.values()}) == 7
    assert all(s.query.window.length % s.query.window.slide == 0 for s in scenarios)


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


@pytest.mark.parametrize("seed", range(40))
def test_the_yaml_in_an_account_states_the_same_query(seed):
    loading = pytest.importorskip("spojoin.query.load")
    scenario = draw(seed)
    query = loading.parse_query(scenario.query.text)
    assert [stream.name for stream in query.streams] == [stream.name for stream in scenario.query.streams]
    assert (type(query.window), query.window.length) == (type(scenario.query.window), scenario.query.window.length)
    assert [query.window_over(s) for s in range(len(query.streams))] == [
        scenario.query.window_over(s) for s in range(len(query.streams))
    ]
    assert (query.order.by, query.results.output, query.results.limit) == (
        scenario.query.order.by,
        scenario.query.results.output,
        scenario.query.results.limit,
    )
    assert query.order.lateness_us == scenario.query.order.lateness_us
    assert [p.op for p in query.predicates] == [p.op for p in scenario.query.predicates]
    assert [p.domain for p in query.predicates] == [p.domain for p in scenario.query.predicates]


# --- statements -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def statements():
    return [draw_statement(seed) for seed in SEEDS]


def test_all_kinds_of_statements_are_drawn(statements):
    queries = [s.query for s in statements]
    assert {q.results.output for q in queries} == set(Output)
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
