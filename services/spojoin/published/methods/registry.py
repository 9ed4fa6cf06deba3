"""From a method's name to the factory of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spojoin.published.methods.bplus_side import BPlusBits, BPlusSets
from spojoin.published.methods.chain import ChainB, ChainIB
from spojoin.published.methods.css_side import CssBits, CssSets
from spojoin.published.methods.hash_side import Hash
from spojoin.published.methods.merge_tree import ImTree, PimTree
from spojoin.published.methods.scan import Scan
from spojoin.published.methods.side import Side, SideSpec
from spojoin.published.methods.spo_paper import SpoPaper
from spojoin.published.methods.sta import Sta

#: All but the product's own, which is the services' machines themselves.
SIDES: Mapping[str, Callable[[SideSpec], Side]] = {
    "scan": Scan,
    "chain_b": ChainB,
    "chain_ib": ChainIB,
    "im_tree": ImTree,
    "pim_tree": PimTree,
    "bplus_bits": BPlusBits,
    "bplus_sets": BPlusSets,
    "css_bits": CssBits,
    "css_sets": CssSets,
    "hash": Hash,
    "spo_paper": SpoPaper,
    "sta": Sta,
}
