"""Imports run one way, between rooms and between files, and every allowed import is used."""

from __future__ import annotations

import pytest

from tests.support.source_tree import circle, imports, modules, room_of, rooms

#: Plain data, types of arrays, kinds of windows, search plans and the tree of errors, which every room may import.
DATA = {"spojoin.arrays", "spojoin.model", "spojoin.search_plan", "spojoin.errors", "spojoin.windows"}


def _table(text: str) -> dict[str, set[str]]:
    """Rooms by room, one or more lines each; a name without its package is one of spojoin's."""
    found: dict[str, set[str]] = {}
    for line in text.replace("\n        ", " ").strip().splitlines():
        room, _, others = line.strip().partition(": ")
        found[_full(room)] = {_full(other) for other in others.split()}
    return found


def _full(name: str) -> str:
    return name if name.split(".", maxsplit=1)[0] in ("helm", "loadgen", "spojoin") else f"spojoin.{name}"


#: What each room imports besides DATA, the lowest rooms first. Those that import nothing else aren't listed.
#: A role's machines know the protocol and what lies below it; only its main knows the runtime. The runtime's main finds
#: the roles' mains by the table of roles.
ALLOWED = _table("""
    windows: suggest
    protocol: kernels suggest wire
    ports: protocol suggest wire
    telemetry: ports protocol suggest version wire
    expressions: suggest
    columns: expressions kernels suggest
    query: aggregates columns evaluation expressions suggest
    reading: columns kernels protocol wire
    measures: expressions kernels wire
    aggregates: expressions kernels measures wire
    roles.intake: protocol wire
    roles.logical_and: kernels measures protocol wire
    roles.mutable: kernels protocol wire
    roles.permutation: kernels protocol wire
    index: kernels wire
    roles.pojoin: index kernels measures protocol wire
    evaluation: kernels protocol roles.logical_and roles.mutable roles.permutation roles.pojoin suggest wire
    runtime: blocked_imports kernels ports protocol query suggest telemetry threads wire
    helm.tables: ports protocol runtime telemetry
    roles.predictor: kernels ports protocol query runtime wire
    roles.router: columns evaluation kernels protocol reading suggest wire
    roles.sink: aggregates expressions kernels measures protocol wire
    embedded: columns evaluation explain expressions kernels protocol query reading roles.predictor roles.router
        roles.sink suggest threads wire
    explain: columns evaluation index kernels protocol suggest
    client: ports protocol runtime wire
    page: ports protocol query runtime telemetry wire
    local: page ports protocol runtime
    cli: blocked_imports columns embedded evaluation explain local page ports protocol query reading
        roles.router.__main__ runtime runtime.__main__ spark suggest telemetry version wire
    loadgen.extras: cli
    loadgen.errors: loadgen.extras cli
    loadgen.bench: loadgen.machine local
    loadgen.load: loadgen.errors loadgen.machine cli local ports protocol query wire
    loadgen.simulate: aggregates cli columns index kernels loadgen.errors loadgen.load loadgen.papers loadgen.window
        ports protocol query roles.intake roles.logical_and roles.mutable roles.permutation roles.pojoin roles.router
        roles.sink runtime wire
    loadgen.check: cli columns loadgen.errors loadgen.load loadgen.window ports protocol query runtime spark wire
    loadgen.chaos: loadgen.check loadgen.errors loadgen.load loadgen.machine loadgen.window cli local ports protocol
        query telemetry wire
    loadgen.demo: loadgen.bench loadgen.check loadgen.errors loadgen.load loadgen.window cli client columns embedded
        local ports protocol query spark wire
    loadgen.engines: loadgen.bench loadgen.errors loadgen.papers cli embedded evaluation local query version
    loadgen.promises: loadgen.bench loadgen.errors loadgen.load loadgen.window cli client embedded evaluation index
        kernels local ports protocol query reading roles.predictor roles.router runtime spark threads wire
    loadgen.papers: loadgen.bench loadgen.errors loadgen.load loadgen.promises loadgen.window cli embedded evaluation
        kernels local ports protocol query roles.router suggest wire
    loadgen.__main__: loadgen loadgen.chaos loadgen.check loadgen.demo loadgen.engines loadgen.errors loadgen.load
        loadgen.papers loadgen.promises loadgen.simulate cli
    spark: columns embedded evaluation explain local ports protocol runtime suggest wire
    spojoin: client embedded version
    spojoin.__main__: cli
    roles.controller: ports protocol runtime telemetry wire
    roles.controller.__main__: ports protocol roles.controller runtime telemetry
    roles.intake.__main__: protocol reading roles.intake runtime
    roles.logical_and.__main__: protocol roles.logical_and runtime
    roles.mutable.__main__: protocol roles.mutable runtime
    roles.permutation.__main__: protocol roles.permutation runtime
    roles.pojoin.__main__: evaluation protocol roles.pojoin runtime
    roles.predictor.__main__: protocol roles.predictor runtime telemetry
    roles.router.__main__: embedded protocol query reading roles.router runtime
    roles.sink.__main__: protocol roles.sink runtime
    runtime.__main__: protocol runtime telemetry
""")


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_imports_what_it_is_allowed_to(room: str) -> None:
    assert rooms()[room] - DATA <= ALLOWED.get(room, set())


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_every_allowed_import_is_used(room: str) -> None:
    assert ALLOWED[room] - rooms()[room] == set()


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
