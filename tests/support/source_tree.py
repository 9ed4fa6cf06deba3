"""The project's own source as data: modules, rooms and their imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The packages, by the folder that holds each.
PACKAGES = {"spojoin": ROOT / "services", "loadgen": ROOT, "helm.tables": ROOT}

Graph = Mapping[str, frozenset[str]]


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the packages by its dotted name; generated ones are left out."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package.replace(".", "/")).rglob("*.py")):
            if "_generated" not in path.parts:
                found[_dotted(path.relative_to(folder))] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """A module, parsed."""
    return ast.parse(modules()[module].read_text())


@cache
def imports() -> Graph:
    """The modules of the packages that each module imports, anywhere in it and for type checking too."""
    return {name: frozenset(_imported(tree(name)) - {name}) for name in modules()}


def room_of(module: str) -> str:
    """The room of a module: `spojoin.query`, `spojoin.roles.sink`, `loadgen.check`.

    The mains of roles and of the runtime, which wire the others, are separate rooms.
    """
    parts = module.split(".")
    if module == "spojoin.runtime.__main__":
        return module
    if parts[1:2] == ["roles"] and len(parts) > 2:
        return ".".join(parts[:3]) + (".__main__" if parts[-1] == "__main__" else "")
    return ".".join(parts[:2])


def rooms() -> Graph:
    """Which rooms each room imports."""
    found: dict[str, set[str]] = {room_of(module): set() for module in modules()}
    for module, others in imports().items():
        found[room_of(module)] |= {room_of(other) for other in others} - {room_of(module)}
    return {room: frozenset(others) for room, others in found.items()}


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of one import circle; empty if there is none."""
    done: set[str] = set()
    for start in graph:
        if found := _circle_from(start, graph, done, []):
            return found
    return []


def _circle_from(node: str, graph: Mapping[str, Iterable[str]], done: set[str], path: list[str]) -> list[str]:
    if node in path:
        return [*path[path.index(node) :], node]
    if node in done:
        return []
    for other in graph.get(node, ()):
        if found := _circle_from(other, graph, done, [*path, node]):
            return found
    done.add(node)
    return []


def _dotted(path: Path) -> str:
    return ".".join(part for part in path.with_suffix("").parts if part != "__init__")


def _imported(module: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {_module_of(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & modules().keys()


def _module_of(module: str, name: str) -> str:
    return f"{module}.{name}" if f"{module}.{name}" in modules() else module
