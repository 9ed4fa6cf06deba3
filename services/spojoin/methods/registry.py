"""From a method's name to what makes its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spojoin.methods.scan import Scan
from spojoin.methods.side import Side, SideSpec

#: All but the product's own, which is the services' machines themselves.
SIDES: Mapping[str, Callable[[SideSpec], Side]] = {
    "scan": Scan,
}
