"""Small functions, one class a name, machines without clocks, and one door to the published methods."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.source_tree import modules, tree

LINES_MAX, PARAMETERS_MAX = 40, 6
#: Names of the kernel compiler: kernels take arrays one by one, since numba has no records.
KERNEL = re.compile(r"(?<![a-z])(kernel|inlined|compiled|n?jit|vectorize)\w*\b")
#: What users call: arguments by their names, which all have a default, and a docstring that explains each.
DOORS = {"spojoin.embedded.sql.sql", "spojoin.embedded.library.__init__"}
#: Classes that share a name across two rooms on purpose.
HOMONYMS: dict[str, str] = {}
#: What a machine must not use: its records and the times passed to it are all that it knows.
CLOCKS = {"time", "datetime", "random", "os", "secrets", "socket", "uuid"}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield module, node


def is_kernel(module: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ".kernels." in module or any(KERNEL.search(ast.unparse(each)) for each in function.decorator_list)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_function_is_long() -> None:
    lengths = {f"{module}.{f.name}": lines_of(f) for module, f in functions()}
    explained = {
        f"{module}.{f.name}": lines_of(f.body[0]) for module, f in functions() if f"{module}.{f.name}" in DOORS
    }
    lengths = {name: lines - explained.get(name, 0) for name, lines in lengths.items()}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


def test_only_kernels_and_doors_take_many_parameters() -> None:
    counts = {f"{module}.{f.name}": len(parameters(f)) for module, f in functions() if not is_kernel(module, f)}
    counts = {name: count for name, count in counts.items() if name not in DOORS}
    assert {name: count for name, count in counts.items() if count > PARAMETERS_MAX} == {}


def test_no_two_classes_share_a_name() -> None:
    homes = defaultdict(set)
    for module in modules():
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    shared = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in HOMONYMS} == {}
    assert HOMONYMS.keys() <= shared.keys(), "an exception that nobody needs"


def machines() -> list[str]:
    """The modules of the state machines and of everything that they consist of."""
    rooms = ("kernels", "index", "wire", "protocol", "model")
    below = [module for module in modules() if module.split(".")[1:2] and module.split(".")[1] in rooms]
    return [module for module in modules() if module.startswith("spojoin.roles.") and "machine" in module] + below


@pytest.mark.parametrize("module", machines())
def test_a_machine_holds_no_clock(module: str) -> None:
    found = {alias.name for node in ast.walk(tree(module)) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in found} & CLOCKS == set()


@pytest.mark.parametrize("module", [m for m in modules() if m.startswith("spojoin.")])
def test_only_the_door_asks_whether_a_method_is_the_products_own(module: str) -> None:
    if module.startswith("spojoin.published") or module == "spojoin.model":  # which defines its name
        return
    names = {node.id for node in ast.walk(tree(module)) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree(module)) if isinstance(node, ast.Attribute)}
    assert names & {"is_own", "DEFAULT_METHOD", "OWN_METHOD", "OWN_LAYOUT"} == set()


@pytest.mark.parametrize("module", modules())
def test_every_public_class_and_function_is_documented(module: str) -> None:
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{module}.{node.name} has no docstring"


@pytest.mark.parametrize("module", modules())
def test_docstrings_name_only_arguments_that_exist(module: str) -> None:
    """A line of a docstring that starts `name: ...` or `a, b: ...` describes arguments or returned names."""
    for function in [node for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef)]:
        text = ast.get_docstring(function) or ""
        code = ast.unparse(function).replace(text, "")
        for line in text.splitlines()[1:]:
            match = re.match(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): ", line)
            for name in match.group(1).split(", ") if match else ():
                known = name in parameters(function) or re.search(rf"\b{name}\b", code)
                assert known, f"{module}: {function.name} documents {name!r}, which it doesn't have"
