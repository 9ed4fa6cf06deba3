"""The layouts that spread work over workers: their names, options and sources; plain data, and its validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spojoin.errors import QueryError
from spojoin.model import DEFAULT_LAYOUT, LayoutChoice, Query
from spojoin.published.methods.catalog import MethodOption, as_options, complete
from spojoin.suggest import unknown

WORKERS_MAX = 1_024
_PPOIJ = "PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025)"
_WORKERS = MethodOption("workers", 0, "how many workers; 0: as many as the run or the deployment has", 0, WORKERS_MAX)


@dataclass(frozen=True, slots=True)
class LayoutAbout:
    """A layout; `cites` names paper and section.

    is_served: whether the services run it; needs_key: whether it goes by the equality of a key
    has_mutable_part: whether new tuples wait in a mutable part until they are batched
    """

    name: str
    about: str
    cites: str
    options: tuple[MethodOption, ...] = ()
    is_served: bool = False
    needs_key: bool = False
    has_mutable_part: bool = False


_ALL = (
    LayoutAbout(
        DEFAULT_LAYOUT,
        "the product's own: new tuples in the mutable part, then batches of consecutive ones to workers in turn",
        "SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), sections 4.2 and 4.4",
        is_served=True,
        has_mutable_part=True,
    ),
    LayoutAbout(
        "split_join",
        "every worker searches for every tuple; each stream's tuples are stored by one worker in turn",
        "SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016), sections 3 and 4; STA, section 5.2",
    ),
    LayoutAbout(
        "bchj",
        "broadcast hash join: every worker stores every tuple; a tuple's key tells which one searches for it",
        "STA (Aslam et al.), section 5.1, algorithm 3; SPO-Join (EDBT 2025), section 5, figure 11b",
    ),
    LayoutAbout(
        "scale_join",
        "every worker takes every ready tuple of the one order; one counter over all streams tells who stores it",
        "ScaleJoin (Gulisano, Nikolakopoulos, Papatriantafilou, Tsigas, IEEE Big Data 2015), section III.B",
        is_served=True,
    ),
    LayoutAbout(
        "handshake",
        "a chain of workers that left tuples pass one way and right tuples the other, each resting at one of them",
        "Low-latency handshake join (Roy, Teubner, Gemulla, PVLDB 7(9), 2014), sections 3 and 4",
    ),
    LayoutAbout(
        "sta",
        "stream-aware: two workers store hot keys in turn, the others cold tuples by power of two choices",
        "STA (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), section 4.2, algorithm 2",
        (
            MethodOption("hot_workers", 2, "workers that store hot keys, if there are more than these", 1, 64),
            MethodOption("choices", 2, "workers drawn for a cold tuple, the less loaded of which takes it", 1, 2),
        ),
        is_served=True,
    ),
    LayoutAbout(
        "kp",
        "key partitioning: all tuples of a key come to one worker",
        f"{_PPOIJ}, section 3.1",
        is_served=True,
        needs_key=True,
    ),
    LayoutAbout(
        "dp",
        "data parallel: every worker searches for every tuple; each key's tuples are stored by one worker in turn",
        f"{_PPOIJ}, section 3.2",
        is_served=True,
    ),
    LayoutAbout(
        "hp",
        "hybrid: after a calibration a key has as many workers as its frequency asks for, one for most",
        f"{_PPOIJ}, sections 3.3 and 4.3, algorithm 1",
        (
            MethodOption("calibration", 10_000, "tuples from which the keys' frequencies are taken", 1, 10**9),
            MethodOption("theta", 1.03, "the most load of a worker to the mean of all that counts as balanced", 1, 100),
            MethodOption("max_splitting", 1_024, "the most workers that share a key", 1, WORKERS_MAX),
            MethodOption("balance", "both", "what is balanced: tuples, or comparisons too", choices=("tuples", "both")),
        ),
        is_served=True,
        needs_key=True,
    ),
)
LAYOUTS: Mapping[str, LayoutAbout] = {about.name: about for about in _ALL}


def layout(name: str, given: Mapping[str, str], line: int | None = None) -> LayoutChoice:
    """A layout, its options as text, `workers` among them; those not given have their defaults. Raises QueryError."""
    if name not in LAYOUTS:
        raise QueryError(unknown("layout", name, LAYOUTS), line)
    about = LAYOUTS[name]
    options = complete(f"layout {name}", (_WORKERS, *about.options), given, line)
    return LayoutChoice(name, int(options[0][1]), options[1:], has_mutable_part=about.has_mutable_part)


def chosen_layout(query: Query, name: str | None, workers: int | None, given: Sequence[str]) -> Query:
    """The query by the layout of this name, its options given as `name=value`; else by its own. Raises QueryError."""
    if name is None and given:
        raise QueryError("--layout-option says nothing without --layout: name the layout")
    choice = query.layout if name is None else layout(name, as_options("--layout-option", given))
    check_key(query, choice)
    return replace(query, layout=choice if workers is None else replace(choice, workers=workers))


def check_key(query: Query, choice: LayoutChoice, line: int | None = None) -> None:
    """Raises QueryError where a layout goes by a key and the query has none."""
    if LAYOUTS[choice.name].needs_key and query.key_slots is None:
        raise QueryError(
            f"layout {choice.name!r} spreads tuples by a key, and no condition is an equality of one: add one such as "
            "l.key = r.key (in a self join of the same column on both sides), or choose another layout, such as 'dp'",
            line,
        )
