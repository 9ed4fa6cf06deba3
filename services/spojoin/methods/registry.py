"""From a method's name to what makes its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spojoin.methods.bplus_side import BPlusBits, BPlusSets
from spojoin.methods.chain import ChainB, ChainIB
from spojoin.methods.css_side import CssBits, CssSets
from spojoin.methods.hash_side import Hash
from spojoin.methods.merge_tree import ImTree, PimTree
from spojoin.methods.scan import Scan
from spojoin.methods.side import Side, SideSpec
from spojoin.methods.spo_paper_unsafe import spo_paper
from spojoin.methods.sta import Sta

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
    "spo_paper": spo_paper,
    "sta": Sta,
}
