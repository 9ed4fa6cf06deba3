"""From a method's name to what makes its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spojoin.methods.chain import ChainB, ChainIB
from spojoin.methods.merge_tree import ImTree, PimTree
from spojoin.methods.scan import Scan
from spojoin.methods.side import Side, SideSpec

#: All but the product's own, which is the services' machines themselves.
SIDES: Mapping[str, Callable[[SideSpec], Side]] = {
    "scan": Scan,
    "chain_b": ChainB,
    "chain_ib": ChainIB,
    "im_tree": ImTree,
    "pim_tree": PimTree,
}
