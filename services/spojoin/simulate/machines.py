"""The product's machines, as production wires them."""

from __future__ import annotations

from spojoin.roles.logical_and.machine import LogicalAndMachine
from spojoin.roles.mutable.machine import MutableMachine
from spojoin.roles.permutation.machine import PermutationMachine
from spojoin.roles.pojoin.worker import PoJoinWorker
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.simulate.makers import MachineMakers

WIRING = MachineMakers(
    router=RouterMachine,
    mutable=MutableMachine,
    permutation=PermutationMachine,
    pojoin=PoJoinWorker,
    logical_and=LogicalAndMachine,
    sink=SinkMachine,
)
