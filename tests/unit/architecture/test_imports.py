"""Imports run one way, between rooms and between files, and nothing is allowed that nobody needs."""

from __future__ import annotations

import pytest

from tests.support.source_tree import circle, imports, modules, room_of, rooms

#: Plain data and the tree of errors, which every room may name.
DATA = {"spojoin.model", "spojoin.errors"}
#: What each room imports besides DATA. A role's machines know the protocol and below; only its main knows the runtime.
ALLOWED: dict[str, set[str]] = {}
#: Rooms that a role's main joins to its machine.
MAIN = {"model", "ports", "protocol", "query", "runtime", "telemetry", "wire"}


def allowed(room: str) -> set[str]:
    return {f"spojoin.{name}" if not name.startswith(("loadgen", "spojoin")) else name for name in ALLOWED[room]}


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_imports_what_it_is_allowed_to(room: str) -> None:
    assert rooms()[room] - DATA <= allowed(room), room


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_no_allowance_is_unused(room: str) -> None:
    assert allowed(room) - rooms()[room] == set()


def test_no_rooms_import_each_other() -> None:
    assert circle(rooms()) == []


def test_no_files_import_each_other() -> None:
    assert circle(imports()) == []


def test_the_product_never_imports_the_load_generator() -> None:
    product = [module for module in modules() if module.startswith("spojoin")]
    assert {m: o for m in product if (o := {x for x in imports()[m] if not x.startswith("spojoin")})} == {}


def test_roles_never_import_each_other() -> None:
    role = lambda module: room_of(module).removesuffix(".__main__")  # noqa: E731
    for module in modules():
        if module.startswith("spojoin.roles."):
            roles = {role(other) for other in imports()[module] if other.startswith("spojoin.roles.")}
            assert roles <= {role(module)}, module


def test_a_circle_is_found() -> None:
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"], "d": []}) == ["b", "c", "b"]
    assert circle({"a": ["b", "c"], "b": ["c"], "c": []}) == []
