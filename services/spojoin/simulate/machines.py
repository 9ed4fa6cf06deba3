"""The product's machines, as production wires them."""

from __future__ import annotations

from spojoin.logical_and.machine import LogicalAndMachine
from spojoin.mutable.machine import MutableMachine
from spojoin.permutation.machine import PermutationMachine
from spojoin.pojoin.worker import PoJoinWorker
from spojoin.router.machine import RouterMachine
from spojoin.simulate.world import Wiring
from spojoin.sink.machine import SinkMachine

WIRING = Wiring(
    router=RouterMachine,
    mutable=MutableMachine,
    permutation=PermutationMachine,
    pojoin=PoJoinWorker,
    logical_and=LogicalAndMachine,
    sink=SinkMachine,
)
