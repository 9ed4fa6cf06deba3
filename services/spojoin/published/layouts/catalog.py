"""The layouts that spread work over workers: names, options and sources as plain data, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spojoin.errors import QueryError
from spojoin.model import DEFAULT_LAYOUT, LayoutChoice, Query
from spojoin.published.methods.catalog import MethodOption, as_options, complete
from spojoin.suggest import unknown

WORKERS_MAX = 1_024
_PPOIJ = "PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025)"
_WORKERS = MethodOption("workers", 0, "the worker count; 0: that of the run or the deployment", 0, WORKERS_MAX)


@dataclass(frozen=True, slots=True)
class LayoutAbout:
    """A layout; `cites` names its paper and section.

    is_served: whether the services run it; needs_key: whether it needs an equality on a key
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
        "every worker searches for every tuple; the workers take turns at storing each stream's tuples",
        "SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016), sections 3 and 4; STA, section 5.2",
    ),
    LayoutAbout(
        "bchj",
        "broadcast hash join: every worker stores every tuple; a tuple's key selects the one that searches for it",
        "STA (Aslam et al.), section 5.1, algorithm 3; SPO-Join (EDBT 2025), section 5, figure 11b",
    ),
    LayoutAbout(
        "scale_join",
        "every worker takes every ready tuple in one order; a counter over all streams decides who stores it",
        "ScaleJoin (Gulisano, Nikolakopoulos, Papatriantafilou, Tsigas, IEEE Big Data 2015), section III.B",
        is_served=True,
    ),
    LayoutAbout(
        "handshake",
        "a chain of workers: left tuples pass one way, right tuples the other, and each rests at one worker",
        "Low-latency handshake join (Roy, Teubner, Gemulla, PVLDB 7(9), 2014), sections 3 and 4",
    ),
    LayoutAbout(
        "sta",
        "stream-aware: two workers store hot keys in turn; the others share cold tuples by power of two choices",
        "STA (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), section 4.2, algorithm 2",
        (
            MethodOption("hot_workers", 2, "workers that store hot keys, if the worker count is larger", 1, 64),
            MethodOption("choices", 2, "workers drawn for a cold tuple; the less loaded one takes it", 1, 2),
        ),
        is_served=True,
    ),
    LayoutAbout(
        "kp",
        "key partitioning: all tuples of a key go to one worker",
        f"{_PPOIJ}, section 3.1",
        is_served=True,
        needs_key=True,
    ),
    LayoutAbout(
        "dp",
        "data parallel: every worker searches for every tuple; the workers take turns at storing each key's tuples",
        f"{_PPOIJ}, section 3.2",
        is_served=True,
    ),
    LayoutAbout(
        "hp",
        "hybrid: after a calibration each key gets as many workers as its frequency needs; most keys get one",
        f"{_PPOIJ}, sections 3.3 and 4.3, algorithm 1",
        (
            MethodOption("calibration", 10_000, "tuples counted to find the keys' frequencies", 1, 10**9),
            MethodOption("theta", 1.03, "the largest load, as a multiple of the mean, that counts as balanced", 1, 100),
            MethodOption("max_splitting", 1_024, "the largest number of workers that share a key", 1, WORKERS_MAX),
            MethodOption("balance", "both", "what to balance: tuples, or comparisons too", choices=("tuples", "both")),
        ),
        is_served=True,
        needs_key=True,
    ),
)
LAYOUTS: Mapping[str, LayoutAbout] = {about.name: about for about in _ALL}


def layout(name: str, given: Mapping[str, str], line: int | None = None) -> LayoutChoice:
    """A layout with its options as text, including `workers`; omitted ones get defaults. Raises QueryError."""
    if name not in LAYOUTS:
        raise QueryError(unknown("layout", name, LAYOUTS), line)
    about = LAYOUTS[name]
    options = complete(f"layout {name}", (_WORKERS, *about.options), given, line)
    return LayoutChoice(name, int(options[0][1]), options[1:], has_mutable_part=about.has_mutable_part)


def chosen_layout(query: Query, name: str | None, workers: int | None, given: Sequence[str]) -> Query:
    """The query with this layout and its options `name=value`, or as it is if none is named. Raises QueryError."""
    if name is None and given:
        raise QueryError("--layout-option has no effect without --layout: name the layout")
    choice = query.layout if name is None else layout(name, as_options("--layout-option", given))
    check_key(query, choice)
    return replace(query, layout=choice if workers is None else replace(choice, workers=workers))


def check_key(query: Query, choice: LayoutChoice, line: int | None = None) -> None:
    """Raises QueryError if the layout needs a key and the query has none."""
    if LAYOUTS[choice.name].needs_key and query.key_slots is None:
        raise QueryError(
            f"layout {choice.name!r} spreads tuples by a key, and no condition is an equality on one: add one such as "
            "l.key = r.key (in a self join on the same column on both sides), or choose another layout, such as 'dp'",
            line,
        )
