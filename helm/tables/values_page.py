"""The tables of the chart's README: values, from the comments in values.yaml, and the restarts that changes cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from helm.tables.marked import with_table
from helm.tables.restarts_page import restarts


class Value(NamedTuple):
    """A documented value: its path, its default, and its comment."""

    path: str
    default: Any
    about: str


def with_values(page: str, values: str) -> str:
    """The chart's page with its tables: values with a comment `# --` in front, and the restarts that changes cause."""
    rows = (f"| `{v.path}` | `{json.dumps(v.default)}` | {v.about} |" for v in documented(values))
    table = ["| value | default | meaning |", "| --- | --- | --- |", *rows]
    return with_table(with_table(page, "restarts", restarts()), "values", table)


def documented(text: str) -> Iterator[Value]:
    """The values that have a comment of one line or several."""
    defaults, path, about = yaml.safe_load(text), list[str](), list[str]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- ") or (about and stripped.startswith("# ")):
            about.append(stripped.removeprefix("# ").removeprefix("-- "))
        elif stripped:
            name, depth = stripped.split(":")[0], (len(line) - len(line.lstrip())) // 2
            path[depth:] = [name]
            if about:
                yield Value(".".join(path), _at(defaults, path), " ".join(about))
            about = []


def _at(values: Any, path: list[str]) -> Any:  # noqa: ANN401  (any value)
    for name in path:
        values = values[name]
    return values
