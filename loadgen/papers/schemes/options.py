"""The options of a simulation of SPO-Join over many workers, by name, like those of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loadgen.papers.schemes.cache import MEMORY
from loadgen.papers.schemes.logical_and import Meeting
from loadgen.papers.schemes.state import Scheme
from spojoin.model import Method
from spojoin.published.methods.catalog import METHODS, MethodOption, complete

_NAME: Final = "spo_paper"
_STATES = tuple(scheme.value for scheme in Scheme)
_MEETINGS = tuple(meeting.value for meeting in Meeting)
OPTIONS = (
    *METHODS[_NAME].options,
    MethodOption("state", Scheme.EXACT.value, "how workers know what has expired", choices=_STATES),
    MethodOption("logical_and", Meeting.BY_ID.value, "whether the AND has a hash table", choices=_MEETINGS),
    MethodOption("workers", 4, "simulated workers", 1, 1_024),
    MethodOption("rate", 10_000.0, "tuples per second", 1, 1e9),
    MethodOption("hop_ms", 1.0, "mean delay of a message", 1e-9, 1e6),
    MethodOption("service_ms", 0.05, "of logical_and: mean time of a predicate's operator per tuple", 1e-9, 1e6),
    MethodOption("interval_ms", 10.0, "of the distributed cache: between two writes, and reads", 1e-3, 1e6),
    MethodOption("cache", MEMORY, "of the distributed cache: the URL of a Redis, or memory"),
)


def simulated(given: Mapping[str, str]) -> Method:
    """SPO-Join with these options, given as text; omitted ones get defaults. Raises QueryError."""
    return Method(_NAME, complete("the simulation of SPO-Join", OPTIONS, given))
