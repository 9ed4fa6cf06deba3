"""The layouts that spread work over workers: their names, options and sources."""

from __future__ import annotations

from collections.abc import Mapping

from spojoin.evaluation.choices import OWN_LAYOUT, WORKERS_MAX
from spojoin.evaluation.options import ChoiceOption, LayoutAbout

_PPOIJ = "PPOIJ (Mencagli, Rymarchuk, Griebler, DEBS 2025)"

_ALL = (
    OWN_LAYOUT,
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
            ChoiceOption("hot_workers", 2, "workers that store hot keys, if the worker count is larger", 1, 64),
            ChoiceOption("choices", 2, "workers drawn for a cold tuple; the less loaded one takes it", 1, 2),
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
            ChoiceOption("calibration", 10_000, "tuples counted to find the keys' frequencies", 1, 10**9),
            ChoiceOption("theta", 1.03, "the largest load, as a multiple of the mean, that counts as balanced", 1, 100),
            ChoiceOption("max_splitting", 1_024, "the largest number of workers that share a key", 1, WORKERS_MAX),
            ChoiceOption("balance", "both", "what to balance: tuples, or comparisons too", choices=("tuples", "both")),
        ),
        is_served=True,
        needs_key=True,
    ),
)
#: All compared layouts, the product's own first.
LAYOUTS: Mapping[str, LayoutAbout] = {about.name: about for about in _ALL}
