"""Shares of a history together answer what the whole does, whatever their sizes: against DuckDB over numbered rows."""

import os
from collections import Counter
from dataclasses import replace
from random import Random, SystemRandom

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.statements import StatementOptions, bare_statement
from spojoin.errors import SpoJoinError
from tests.support.asked import query_of, rows_of
from tests.support.asking_statements import draw, table_of
from tests.support.divided import divided
from tests.support.full_statements import draw_full
from tests.support.long import first_of
from tests.support.statement_draw import draw_statement
from tests.support.statement_oracle import StatementOracle
from tests.support.statement_text import Refusable, Undecided
from tests.support.statement_verdict import expected_rows
from tests.support.statement_verdict import rows_of as table_rows


def asked(statement, seed, answering=None):
    """The rows that shares of an asking statement's history give, one share behind another.

    answering: how many rows answer, if not all do
    """
    own = [[row for of, row in statement.rows if of == stream] for stream in range(len(statement.names))]
    seen, order = Counter(), []
    for stream, _ in sorted(statement.rows, key=lambda each: (each[1]["at"], each[0])):
        order.append((stream, seen[stream]))
        seen[stream] += 1
    tables = [pa.Table.from_batches([table_of(rows)]) for rows in own]
    return rows_of(divided(query_of(statement), tables, order, Random(f"shares {seed}"), answering))


@pytest.mark.parametrize("seed", first_of(30, range(2_000, 2_100)))
@pytest.mark.parametrize("draw_one", [draw, draw_full])
def test_rows_get_their_answer_once(draw_one, seed):
    statement = draw_one(seed)
    assert asked(statement, seed) == statement.answer(), statement.sql()


@pytest.mark.parametrize("seed", first_of(15, range(2_100, 2_130)))
def test_rows_of_a_full_join_before_a_place_alone_answer(seed):
    """The rows behind it are found; by the numbers that each result has first."""
    statement = draw_full(seed)
    own = Random(f"own {seed}").randint(0, len(statement.rows))
    expected = [row for row in statement.answer() if statement.answering(*row[:2])[1] < own]
    assert asked(statement, seed, own) == expected, statement.sql()


def in_order(statement):
    """The same statement over tables in the order of event time, without rows that have none."""
    tables = []
    for each in statement.tables:
        table, time = each.table, statement.time.get(each.name)
        if time is not None:
            table = table.filter(pc.is_valid(table[time]))
            table = table.take(pc.sort_indices(table, [(time, "ascending")]))
        tables.append(replace(each, table=table))
    return replace(statement, tables=tuple(tables))


def order_of(statement, tables):
    """The places of all rows, by time and ties by stream where there is a time."""
    places = [(n, position) for n, table in enumerate(tables) for position in range(table.num_rows)]
    if not statement.time:
        return places
    times = [table[statement.time[each.name]].to_pylist() for each, table in zip(statement.tables, tables, strict=True)]
    return sorted(places, key=lambda place: (times[place[0]][place[1]], place))


def verdict(seed):
    """`right`, `refused` by the product, or `undecided` by the oracle; raises AssertionError for a wrong answer."""
    statement = in_order(draw_statement(Random(seed)))
    by_name = {each.name: each.table for each in statement.tables}
    try:
        expected = StatementOracle(by_name, statement.time).expected(statement.text)
        found = bare_statement(statement.text, by_name, StatementOptions(statement.time))
    except (Refusable, Undecided):
        return "undecided"
    except SpoJoinError:
        return "refused"
    query = found.query
    tables = [found.sources[stream.name] for stream in query.inputs]
    read = [t.select(arrow_schema(s, query.needs_time).names) for t, s in zip(tables, query.inputs, strict=True)]
    names = {stream.name: each for stream, each in zip(query.inputs, statement.tables, strict=False)}
    ordered = replace(statement, tables=tuple(names.values())) if len(names) == len(read) else statement
    batches = divided(query, read, order_of(ordered, tables), Random(seed))
    rows = [row for batch in batches for row in table_rows(pa.Table.from_batches([batch]))]
    assert repr(rows) == repr(expected_rows(expected)), statement.text
    return "right"


def test_pairs_of_fresh_statements():
    start = int(os.environ.get("SHARES_SEED") or SystemRandom().randrange(10**9))
    print(f"the same again: SHARES_SEED={start}")
    counts = Counter(verdict(seed) for seed in range(start, start + 30))
    assert counts["right"], counts
