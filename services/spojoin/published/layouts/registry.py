"""From a layout's name to the layout."""

from __future__ import annotations

from collections.abc import Mapping

from spojoin.model import Query
from spojoin.published.layouts.bchj import Bchj
from spojoin.published.layouts.in_turn import ScaleJoin, SplitJoin
from spojoin.published.layouts.layout import Layout
from spojoin.published.layouts.ppoij import DataParallel, Hybrid, KeyPartitioning
from spojoin.published.layouts.sta import StaLayout

#: All but two: the product's own, which is the services' machines themselves, and the handshake join, whose workers
#: don't read the log.
LAYOUTS: Mapping[str, type[Layout]] = {
    "split_join": SplitJoin,
    "bchj": Bchj,
    "scale_join": ScaleJoin,
    "sta": StaLayout,
    "kp": KeyPartitioning,
    "dp": DataParallel,
    "hp": Hybrid,
}


def layout_of(query: Query) -> Layout:
    """The layout that a query names, which must be in LAYOUTS."""
    return LAYOUTS[query.layout.name](query)
