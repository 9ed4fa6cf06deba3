"""Where frames' time went lately: the hops that a query's services report, as rows to show."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from spojoin.telemetry.hop import IN_TURN, Hop, HopTime
from spojoin.telemetry.status import ServiceStatus


class HopRow(NamedTuple):
    """A hop as the slowest of the services that time it reports it, and how many those are.

    share: of the time that all hops in turn take, by their means; None for what happens meanwhile
    """

    hop: Hop
    service: str
    services: int
    took: HopTime
    share: float | None


def hop_rows(services: Iterable[ServiceStatus]) -> list[HopRow]:
    """The hops that frames made within the last minute, in the order of `Hop`."""
    found: dict[Hop, list[tuple[HopTime, str]]] = {}
    for each in services:
        for hop, took in each.hops.items():
            if not math.isnan(took.mean_ms):
                found.setdefault(hop, []).append((took, each.service))
    slowest = {hop: max(found[hop]) for hop in Hop if hop in found}
    whole_ms = sum(took.mean_ms for hop, (took, _) in slowest.items() if hop in IN_TURN)
    return [
        HopRow(hop, service, len(found[hop]), took, _share(hop, took, whole_ms))
        for hop, (took, service) in slowest.items()
    ]


def _share(hop: Hop, took: HopTime, whole_ms: float) -> float | None:
    if hop not in IN_TURN:
        return None
    return took.mean_ms / whole_ms if whole_ms else 0.0
