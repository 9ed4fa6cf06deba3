"""A stream that is the results of another query: its columns and its event time come from that query."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import yaml

from spojoin.errors import QueryError
from spojoin.model import ColumnType, Output, Query, TypeName

#: The query of a name, from its file beside that of the query that names it; None without one. Raises QueryError.
QueryOf = Callable[[str], Query | None]


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """What a query's results are to a query that takes them in; time: their event-time column, if they have one."""

    columns: dict[str, ColumnType]
    time: str | None


def results_of(query: Query, line: int) -> ResultColumns:
    """The columns and the event time of a query's results; `line`: of who asks. Raises QueryError."""
    if query.output is not Output.ROWS:
        raise QueryError(
            f"query {query.name} gives {query.output.value}: expected one with a select list, whose columns others can "
            "take in",
            line,
        )
    columns = {each.name: _declared(each.expression.type, each.name, query, line) for each in query.select}
    return ResultColumns(columns, _event_time(query))


def _declared(kind: ColumnType, name: str, query: Query, line: int) -> ColumnType:
    if kind.name is TypeName.CARRIED:
        raise QueryError(
            f"column '{name}' of query {query.name} is {kind}, and no stream's column can have this type; "
            f"expected CAST({name} AS ...) there, or here a schema with the other columns alone",
            line,
        )
    return replace(kind, unit=None, arrow=None)  # numbers of whatever unit have become timestamps


def _event_time(query: Query) -> str | None:
    """The column that is the event time of the left rows, or else of the right ones; a FULL JOIN has neither."""
    if query.both_ask:
        return None
    times = [stream.time_column for stream in (query.streams[0], query.streams[-1])]
    named = {(each.plain.side, each.plain.name): each.name for each in query.select if each.plain is not None}
    return next((named[side, time] for side, time in enumerate(times) if time and (side, time) in named), None)


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What a stream's options don't say themselves, and where they stand: the mapping, and the end of its `query`."""

    mapping: yaml.MappingNode
    end: int
    results: ResultColumns

    @property
    def written(self) -> str:
        """The missing options as YAML, behind `query`."""
        between = ", " if self.mapping.flow_style else "\n" + " " * self.mapping.start_mark.column
        options = {"schema": {name: str(kind) for name, kind in self.results.columns.items()}}
        time = {} if self.results.time is None else {"time": self.results.time}
        return "".join(
            f"{between}{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in {**options, **time}.items()
        )


def with_schemas(text: str, found: Sequence[TakenIn]) -> str:
    """A query's text that says by itself what stands in others: services read it where no other file is."""
    for one in sorted(found, key=lambda each: each.end, reverse=True):
        text = text[: one.end] + one.written + text[one.end :]
    return text
