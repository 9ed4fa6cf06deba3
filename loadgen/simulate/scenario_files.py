"""Scenarios as JSON files, so that a world that found a fault remains when draws change.

A dataclass is an object with its class's name under `is`, without fields that have their default. A query is kept as
the text of its query file, and read again; a reader of rows is recreated. A row of a message is a list: time in
microseconds, key, values.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

from loadgen.simulate import asking, conditions, oracle
from loadgen.simulate.broker import BrokerFaults
from loadgen.simulate.drawn_query import as_model
from loadgen.simulate.drawn_table import TableScenario
from loadgen.simulate.feed import ScenarioMessage, Source
from loadgen.simulate.generations import Replacement
from loadgen.simulate.oracle import SourceRow
from loadgen.simulate.process import DrawnPacking
from loadgen.simulate.scenario import Faults, Loss, Scenario, with_reader
from spojoin.errors import ConfigurationError
from spojoin.model import Arithmetic, Column, Constant, Op, Output, Query
from spojoin.protocol.backfill import Backfill
from spojoin.protocol.packing import parse_packing
from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.windows import IntervalWindow, RowWindow, TimeWindow

#: One seed's run: one query, successive queries, or a query with a table.
Drawn = Scenario | Replacement | TableScenario

_CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(Scenario, Replacement, Faults, Loss, BrokerFaults, DrawnPacking, RouterConfig, Backfill, Role),
        *(oracle.OracleJoin, oracle.Comparison, asking.LeftQuestion, asking.Reduced, asking.BestOf),
        *(conditions.SideColumn, conditions.Literal, conditions.Computation, conditions.Compared),
        *(conditions.IsNull, conditions.Among, conditions.Negation, conditions.Either),
        *(Column, Constant, Arithmetic, Op, Output, RowWindow, TimeWindow, IntervalWindow),
    )
}


def write_scenario(path: Path, options: str, drawn: Drawn) -> None:
    """Write a seed's drawn scenario, with the options of `loadgen simulate` that select its kind."""
    kept = {"options": options.split(), "drawn": _encoded(drawn)}
    path.write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def options_of(path: Path) -> str:
    """The options that select a kept scenario's kind. Raises ConfigurationError if the file holds no scenario."""
    return " ".join(_read(path)["options"])


def read_scenario(path: Path) -> Drawn:
    """A kept scenario; the product reads its query again. Raises ConfigurationError if the file holds none."""
    drawn: Drawn = _decoded(_read(path)["drawn"])
    return drawn


def _read(path: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} can't be read as a scenario of the simulator: {error}") from error
    if not isinstance(kept, dict) or kept.keys() != {"options", "drawn"}:
        raise ConfigurationError(f"{path} holds no scenario of the simulator: expected `options` and `drawn`")
    return kept


def _encoded(value: Any) -> Any:  # noqa: ANN401  (any field of a scenario)
    if isinstance(value, TableScenario):
        tables = [[_encoded_row(row) for row in table] for table in value.tables]
        return {"is": "TableScenario", "whole": _encoded(value.whole), "tables": tables, "turns": value.turns}
    if isinstance(value, DrawnPacking):
        return {"is": "DrawnPacking", "packing": str(value.packing), "workers_inside": value.workers_inside}
    if isinstance(value, Query):
        return value.text
    if isinstance(value, Enum):
        return {"is": type(value).__name__, "value": value.value}
    if isinstance(value, Decimal | Fraction):
        return {"is": type(value).__name__, "value": str(value)}
    if isinstance(value, frozenset):
        return {"is": "frozenset", "values": [_encoded(each) for each in sorted(value)]}
    if isinstance(value, dict):
        return {key: _encoded(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_encoded(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        found = {
            field.name: getattr(value, field.name)
            for field in fields(value)
            if field.init and getattr(value, field.name) != field.default
        }
        encoded = {name: _encoded(each) for name, each in found.items() if name not in ("inputs", "reader")}
        if isinstance(value, Scenario):
            encoded["inputs"] = [[*source, _encoded_messages(messages)] for source, messages in value.inputs.items()]
        return {"is": type(value).__name__, **encoded}
    return value


def _encoded_messages(messages: tuple[ScenarioMessage, ...]) -> list[object]:
    """Each message as the list of its rows, or as the promised time."""
    return [
        [_encoded_row(row)[4:] for row in message.rows] if message.heartbeat_us is None else message.heartbeat_us
        for message in messages
    ]


def _encoded_row(row: SourceRow) -> list[object]:
    values = {name: _encoded(each) for name, each in row.values.items()}
    return [*row.position, row.time_us, row.key, values]


def _decoded(value: Any) -> Any:  # noqa: ANN401  (any field of a scenario)
    if isinstance(value, list):
        return tuple(_decoded(each) for each in value)
    if not isinstance(value, dict):
        return value
    name = value.pop("is", None)
    if name is None:
        return {key: _decoded(each) for key, each in value.items()}
    if name in ("Decimal", "Fraction"):
        return {"Decimal": Decimal, "Fraction": Fraction}[name](value["value"])
    if name == "frozenset":
        return frozenset(_decoded(value["values"]))
    if name == "DrawnPacking":
        return DrawnPacking(parse_packing(value["packing"]), value["workers_inside"])
    if name == "TableScenario":
        tables = tuple(tuple(_decoded_row(row) for row in table) for table in value["tables"])
        return TableScenario(_decoded(value["whole"]), tables, tuple(value["turns"]))
    cls = _CLASSES[name]
    if issubclass(cls, Enum):
        return cls(value["value"])
    if cls is Scenario:
        inputs = {(stream, partition): given for stream, partition, given in value.pop("inputs")}
        read = {source: _decoded_messages(source, messages) for source, messages in inputs.items()}
        decoded = {key: _decoded(each) for key, each in value.items()}
        query = _read_query(decoded.pop("query"), decoded["join"])
        return with_reader(Scenario(inputs=read, query=query, **decoded))
    return cls(**{key: _decoded(each) for key, each in value.items()})


def _read_query(text: str, join: oracle.OracleJoin) -> Query:
    """The query as it was drawn: by the product's reader if NULL takes part, and otherwise as the model of the join."""
    query = parse_query(text)
    if join.keeps_nulls:
        return query
    schemas = [
        {name: kind for name, kind in each.schema.items() if name not in (each.time, each.key)} for each in query.inputs
    ]
    return as_model(join, schemas, query.order)


def _decoded_messages(source: Source, messages: list[Any]) -> tuple[ScenarioMessage, ...]:
    return tuple(
        ScenarioMessage(offset, tuple(_decoded_row([*source, offset, n, *row]) for n, row in enumerate(given)), None)
        if isinstance(given, list)
        else ScenarioMessage(offset, (), given)
        for offset, given in enumerate(messages)
    )


def _decoded_row(row: list[Any]) -> SourceRow:
    stream, partition, offset, number, time_us, key, values = row
    read = {name: _decoded(each) for name, each in values.items()}
    return SourceRow(stream, partition, offset, number, time_us, key, read)
