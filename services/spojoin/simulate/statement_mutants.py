"""Planted bugs in what statements add: filters, residual conditions, texts, NULL, payload; each must be found."""

from __future__ import annotations

from collections.abc import Callable

from spojoin.simulate.mutants import Mutant, Plant

STATEMENT_MUTANTS: dict[str, Mutant] = {}


def _mutant(name: str, what: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        STATEMENT_MUTANTS[name] = Mutant(what, plant)
        return plant

    return register
