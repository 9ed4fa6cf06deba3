"""How a simulated world makes the machine of each role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spojoin.model import Query
from spojoin.protocol.machine import InputMachine, Machine, ResultPosition
from spojoin.roles.router.config import RouterConfig


@dataclass(frozen=True, slots=True)
class MachineMakers:
    """How to make each role's machine; mutants replace some."""

    router: Callable[[Query, ResultPosition, RouterConfig], InputMachine]
    mutable: Callable[[Query, int, ResultPosition], Machine]
    permutation: Callable[[Query, ResultPosition], Machine]
    pojoin: Callable[[Query, int, ResultPosition], Machine]
    logical_and: Callable[[Query, ResultPosition], Machine]
    sink: Callable[[Query, ResultPosition], Machine]
