"""One class a name, machines without clocks, one room that knows of other evaluations, and docstrings that are true."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.support.source_tree import modules, tree

#: Classes that share a name across two rooms on purpose.
HOMONYMS: dict[str, str] = {}
#: What a machine must not use: its records and the times passed to it are all that it knows.
CLOCKS = {"time", "datetime", "random", "os", "secrets", "socket", "uuid"}


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


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


def test_a_machine_holds_no_clock() -> None:
    found = {}
    for module in machines():
        nodes = list(ast.walk(tree(module)))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        found[module] = {name.partition(".")[0] for name in names} & CLOCKS
    assert {module: clocks for module, clocks in found.items() if clocks} == {}


def test_only_one_room_asks_whether_an_evaluation_is_the_products_own() -> None:
    found = {}
    for module in modules():
        is_door = module.startswith("spojoin.evaluation") or module == "spojoin.model"  # which defines its name
        if module.startswith("spojoin.") and not is_door:
            nodes = list(ast.walk(tree(module)))
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            found[module] = names & {"DEFAULT_METHOD", "DEFAULT_LAYOUT", "OWN_METHOD", "OWN_LAYOUT"}
    assert {module: names for module, names in found.items() if names} == {}


def test_docstrings_name_only_arguments_that_exist() -> None:
    """A line of a docstring that starts `name: ...` or `a, b: ...` describes arguments or returned names."""
    unknown = []
    each = [
        (module, node) for module in modules() for node in ast.walk(tree(module)) if isinstance(node, ast.FunctionDef)
    ]
    for module, function in each:
        text = ast.get_docstring(function) or ""
        matches = [re.match(r"^([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): ", line) for line in text.splitlines()[1:]]
        names = {name for match in matches if match for name in match.group(1).split(", ")} - set(parameters(function))
        code = ast.unparse(function).replace(text, "") if names else ""
        unknown += [f"{module}.{function.name}: {name}" for name in names if not re.search(rf"\b{name}\b", code)]
    assert unknown == []
