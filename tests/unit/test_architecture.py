"""The rooms' imports run one way, docstrings agree with signatures, and files stay small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "services" / "spojoin"
SERVICES = {"router", "predictor", "mutable", "permutation", "pojoin", "logical_and", "sink"}
#: Modules of plain data and of the error tree, which every room may name.
DATA = {"errors", "query.model", "wire.records"}
#: What each room may import besides itself and DATA; "x.y" opens one module of a room only.
ALLOWED: dict[str, set[str]] = {
    "kernels": set(),
    "index": {"kernels"},
    "query": {"kernels.codes", "protocol.topology", "router.config"},
    "wire": set(),
    "protocol": {"kernels", "wire"},
    "router": {"kernels", "protocol", "query", "wire"},
    "predictor": {"kernels", "protocol", "query", "wire", "runtime"},
    "mutable": {"kernels", "protocol", "wire.keys"},
    "permutation": {"kernels", "protocol"},
    "pojoin": {"kernels", "index", "protocol"},
    "logical_and": {"kernels", "protocol"},
    "methods": {"kernels", "protocol", "published"},
    "published": {"kernels", "runtime.memory", "runtime.ports", "runtime.redis_store"},
    "layouts": {"kernels", "methods", "protocol", "query.methods"},
    "sink": {"kernels", "protocol"},
    "runtime": {"protocol", "query", "wire"},
    "observe": {
        "protocol.access",
        "protocol.topology",
        "protocol.services",
        "runtime.absences",
        "runtime.metrics",
        "runtime.shared_state",
    },
    "page": {"protocol", "query", "wire", "runtime"},
    "controller": {"protocol", "query", "wire", "runtime"},
    "embedded": {"kernels", "index", "layouts", "methods", "protocol", "query", "wire", *SERVICES},
    "simulate": {"kernels", "index", "layouts", "methods", "protocol", "query", "wire", "runtime", *SERVICES},
    "cli": {"protocol", "query", "wire", "runtime", "embedded", "simulate", "page"},
}


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "_generated" not in path.parts]


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix("spojoin.") for name in names if name.startswith("spojoin.")}


def is_main(path: Path) -> bool:
    """A service's __main__ wires its state machine, or a layout's in its place, to the runtime: it may name all."""
    return path.name == "__main__.py"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    room = room_of(path)
    if not room:
        return
    allowed = ALLOWED[room] | {room} | ({"runtime", "layouts"} if is_main(path) else set())
    for name in imported(ast.parse(path.read_text())):
        if any(name == data or name.startswith(data + ".") for data in DATA):
            continue
        parts = name.split(".")
        if parts[0] not in ALLOWED:
            continue
        opened = {".".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
        if len(parts) == 1 and any(a.startswith(parts[0] + ".") for a in allowed):
            continue
        assert opened & allowed, f"{path.relative_to(PACKAGE)} imports {name}; {room} may import {sorted(allowed)}"


def test_services_never_import_each_other() -> None:
    for path in modules():
        room = room_of(path)
        if room in SERVICES:
            others = {name.split(".")[0] for name in imported(ast.parse(path.read_text()))} & SERVICES
            assert others <= {room}, f"{path} imports {others}"


def public_functions() -> list[tuple[Path, ast.FunctionDef]]:
    found = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node):
                found.append((path, node))
    return found


@pytest.mark.parametrize(
    ("path", "function"), public_functions(), ids=lambda v: v.name if isinstance(v, ast.FunctionDef) else v.stem
)
def test_docstrings_name_only_arguments_that_exist(path: Path, function: ast.FunctionDef) -> None:
    """A line of a docstring that starts `name: ...` or `a, b: ...` describes arguments or returned names."""
    arguments = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    text = ast.get_docstring(function) or ""
    source = ast.unparse(function)
    for line in text.splitlines()[1:]:
        match = re.match(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): ", line)
        for name in match.group(1).split(", ") if match else ():
            assert name in arguments or re.search(rf"\b{name}\b", source.replace(text, "")), (
                f"{path.name}: {function.name} documents {name!r}, which it doesn't have"
            )


def test_every_public_class_and_function_is_documented() -> None:
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.relative_to(PACKAGE)}: {node.name} has no docstring"
