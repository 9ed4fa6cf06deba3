"""Drawn statements as query files, whose tables are pushed piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import yaml

import spojoin
from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.engine import Engine
from spojoin.embedded.writers import result_schema
from spojoin.query.load import parse_query
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.wire.codec import decode, encode
from tests.support.statement_draw import DrawnStatement
from tests.support.statement_oracle import Expected
from tests.support.statement_text import clauses


@dataclass(frozen=True, slots=True)
class Outputs:
    """A query file's answers in the older outputs: (probe, left, right) per pair, (row, matches) per row."""

    pairs: list[tuple[int, int, int]]
    counts: list[tuple[int, int]]


def outputs_of(expected: Expected, rows: int) -> Outputs:
    """The oracle's answer in the older outputs, over `rows` rows that took a number."""
    counts = [0] * rows
    for probe, _, _ in expected.pairs:
        counts[probe] += 1
    return Outputs(list(expected.pairs), list(enumerate(counts)))


def all_columns(statement: DrawnStatement) -> DrawnStatement:
    """The statement with `*` as its select list."""
    parts = clauses(statement.text)
    begin = statement.text.index(parts.items[0])
    last = parts.items[-1]
    end = statement.text.index(last, begin + sum(map(len, parts.items[:-1]))) + len(last)
    return replace(statement, text=f"{statement.text[:begin]}*{statement.text[end:]}")


def query_file(statement: DrawnStatement, output: str | None) -> str:
    """The equivalent query file."""
    streams: dict[str, Any] = {}
    for each in statement.tables:
        streams[each.name] = {"schema": {field.name: field.type for field in each.fields}}
        if each.name in statement.time:
            streams[each.name]["time"] = each.time
    document = {"name": "drawn", "streams": streams, "sql": statement.text}
    document |= {} if output is None else {"output": output}
    document |= {"order": "event_time"} if statement.time else {}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def by_join(statement: DrawnStatement) -> pa.Table:
    """The answer of `spojoin.Join` to the whole tables."""
    with spojoin.Join(query_file(statement, "rows"), max_rejects="100%") as join:
        found = [join.push(each.table, each.name) for each in statement.tables]
        return pa.concat_tables([*found, join.flush()])


def by_roles(statement: DrawnStatement) -> pa.Table:
    """The answer of the services' machines, with tiny frames and batches drawn from the statement's text.

    Every record between them is written as bytes and read again.
    """
    rng = Random(statement.text)
    query = parse_query(query_file(statement, "rows"))
    sizes = {"frame_tuples": rng.choice([1, 3, 8]), "batch_tuples": rng.choice([2, 5, 12])}
    config = RouterConfig("drawn", rng.choice([1, 2, 3]), **sizes, credits_frames=UNLIMITED)
    engine = Engine(query, config, transport=lambda record: decode(encode(record)))
    found = []
    for number, stream in enumerate(query.inputs):
        table = next(each.table for each in statement.tables if each.name == stream.name)
        for batch in table.select(arrow_schema(stream, query.needs_time).names).to_batches(max_chunksize=7):
            found += engine.feed(number, batch)
    found += engine.flush()
    return pa.Table.from_batches(found) if found else result_schema(query, []).empty_table()


def pushed(statement: DrawnStatement, output: str | None, rng: Random) -> pa.Table:
    """The answer of `spojoin.Join` to the tables in pieces of any size, with alternating streams."""
    found = []
    with spojoin.Join(query_file(statement, output)) as join:
        waiting = {each.name: each.table for each in statement.tables}
        while waiting:
            name = rng.choice(list(waiting))
            size = rng.choice([1, 2, 7, 100])
            found.append(join.push(waiting[name].slice(0, size), name))
            waiting[name] = waiting[name].slice(size)
            if not waiting[name].num_rows:
                del waiting[name]
        found.append(join.flush())
    return pa.concat_tables(found)
