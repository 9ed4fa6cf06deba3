"""YAML with the line of every name, for messages about a query file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import yaml

from spojoin.errors import QueryError
from spojoin.suggest import unknown

_DECIMAL_HEAD = re.compile(r"(decimal|numeric|number|dec|decimal(32|64|128|256))\s*\(\s*\d+\s*", re.IGNORECASE)
_DECIMAL_TAIL = re.compile(r"\s*\d+\s*\)")


@dataclass(frozen=True, slots=True)
class Item:
    """A named value of a YAML mapping and the 1-based line of its name."""

    name: str
    line: int
    node: yaml.Node


def compose(text: str) -> yaml.Node:
    """The document's root node. Raises QueryError with the line if the YAML is broken."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise QueryError(f"not valid YAML: {error.problem}", mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise QueryError(f"not valid YAML: {error}", 1) from error
    if root is None:
        raise QueryError("the query is empty: expected name, streams and sql", 1)
    return root


def items(node: yaml.Node, what: str, expected: str, known: Iterable[str] = ()) -> dict[str, Item]:
    """The mapping's items by name, in order; `known`, if given, limits the names."""
    if not isinstance(node, yaml.MappingNode):
        raise QueryError(f"{what}: expected {expected}", line_of(node))
    found: dict[str, Item] = {}
    for key, value in _rejoined(node.value):
        if not isinstance(key, yaml.ScalarNode):
            raise QueryError(f"{what}: a name must be plain text", line_of(key))
        if key.value in found:
            raise QueryError(
                f"{what}: '{key.value}' is given twice, first in line {found[key.value].line}", line_of(key)
            )
        found[key.value] = Item(key.value, line_of(key), value)
    names = tuple(known)
    for item in found.values():
        if names and item.name not in names:
            raise QueryError(unknown(f"option of {what}", item.name, names), item.line)
    return found


def scalar_text(item: Item, expected: str) -> str:
    """The item's scalar text; a mapping, a list or nothing at all is an error that says what was expected."""
    node = item.node
    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null") or not node.value.strip():
        raise QueryError(f"{item.name}: expected {expected}", item.line)
    return str(node.value)


def line_of(node: yaml.Node) -> int:
    """The 1-based line at which a node starts."""
    return int(node.start_mark.line) + 1


def _rejoined(pairs: list[tuple[yaml.Node, yaml.Node]]) -> list[tuple[yaml.Node, yaml.Node]]:
    """Pairs with `decimal(10,2)` whole again: inside {braces} YAML splits it at its comma."""
    whole: list[tuple[yaml.Node, yaml.Node]] = []
    for key, value in pairs:
        if whole and _is(whole[-1][1], _DECIMAL_HEAD) and _is(key, _DECIMAL_TAIL) and value.value == "":
            whole[-1][1].value += f",{key.value}"
        else:
            whole.append((key, value))
    return whole


def _is(node: yaml.Node, pattern: re.Pattern[str]) -> bool:
    return isinstance(node, yaml.ScalarNode) and pattern.fullmatch(node.value) is not None
