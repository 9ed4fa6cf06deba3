"""The methods of searching a window: their names, options and sources."""

from __future__ import annotations

from collections.abc import Mapping

from spojoin.evaluation.choices import OWN_METHOD
from spojoin.evaluation.options import ChoiceOption, MethodAbout

_FANOUT = ChoiceOption("fanout", 256, "entries per tree node", 4, 1_024)
_PREDICATE = ChoiceOption("predicate", 1, "the predicate that the tree answers; the others are verified", 1, 64)
_CHAIN = (ChoiceOption("length", 2, "members that cover a window", 1, 1_024), _PREDICATE)
_MERGING = (
    ChoiceOption("merge_ratio", 0.25, "the ratio of new tuples to a window's at which they are merged", 0.001, 1),
    ChoiceOption("merge", "blocking", "whether probes wait for a merge", choices=("blocking", "non_blocking")),
    ChoiceOption("threads", 1, "threads that share the probes", 1, 64),
    _PREDICATE,
)
#: Options of SPO-Join's own distributed schemes, which can answer wrongly and are simulated in loadgen.papers.
_SIMULATED = dict.fromkeys(
    ("state", "logical_and", "workers", "rate", "hop_ms", "service_ms", "interval_ms", "cache"),
    "belongs to a simulation that answers wrongly, which runs in `loadgen papers` alone",
)
_PIM_TREE = "PIM-Tree (Shahvarani, Jacobsen, SIGMOD 2020), section"

_CSS = (
    ChoiceOption("batch", 8_192, "tuples of an immutable batch; at most a quarter of the window", 16, 1 << 24),
    ChoiceOption("node", 16, "keys per tree node", 2, 256),
)
_ALL = (
    OWN_METHOD,
    MethodAbout("scan", "every probe against every tuple in its window, vectorised", "the nested loop; the baseline"),
    MethodAbout(
        "chain_b",
        "a B+-tree for each piece of the window, dropped whole",
        f"BiStream (Lin et al., SIGMOD 2015), the chained index; {_PIM_TREE}s 2.2.2 and 5.1 (B-chain)",
        _CHAIN,
    ),
    MethodAbout(
        "chain_ib",
        "a B+-tree for the newest piece of the window, immutable trees for the others",
        f"BiStream (Lin et al., SIGMOD 2015), the chained index; {_PIM_TREE}s 2.2.2 and 5.1 (IB-chain)",
        _CHAIN,
    ),
    MethodAbout(
        "im_tree",
        "a B+-tree for new tuples, merged at intervals into an immutable tree",
        f"{_PIM_TREE}s 3.2 and 4.2",
        _MERGING,
    ),
    MethodAbout(
        "pim_tree",
        "like im_tree, with a B+-tree for each node of the immutable tree at a given depth",
        f"{_PIM_TREE}s 3.3 and 4.2",
        (ChoiceOption("depth", 2, "depth of the nodes that have a B+-tree; the root's is 0", 0, 16), *_MERGING),
    ),
    MethodAbout(
        "hash",
        "for queries with an equality: a hash table of its column's codes, the other conditions verified",
        "the hash join of stream engines; compared in SPO-Join (EDBT 2025), section 5.4, figures 22 and 23",
    ),
    MethodAbout(
        "bplus_bits",
        "a B+-tree per column over the window; the range scans of a probe meet as bit arrays",
        "SPO-Join (EDBT 2025), sections 3.2 and 5.4; PIM-Tree (Shahvarani, Jacobsen), section 2.2.1",
        (_FANOUT,),
    ),
    MethodAbout(
        "bplus_sets",
        "a B+-tree per column over the window; the range scans of a probe meet as hash sets",
        "SPO-Join (EDBT 2025), sections 2.4 and 5.4; PIM-Tree (Shahvarani, Jacobsen), section 2.2.1",
        (_FANOUT,),
    ),
    MethodAbout(
        "css_bits",
        "immutable batches with a CSS-tree per column, and a tail that is scanned; checks meet as bit arrays",
        "SPO-Join (EDBT 2025), sections 1 and 5.4; PIM-Tree (Shahvarani, Jacobsen), appendix A.3",
        _CSS,
    ),
    MethodAbout(
        "css_sets",
        "immutable batches with a CSS-tree per column, and a tail that is scanned; checks meet as hash sets",
        "SPO-Join (EDBT 2025), sections 1 and 5.4; PIM-Tree (Shahvarani, Jacobsen), appendix A.3",
        _CSS,
    ),
    MethodAbout(
        "spo_paper",
        "as published: B+-trees with bit arrays for what is new, sorted lists with permutations for the rest",
        "SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), sections 3.2-3.4, algorithms 1, 2 and 4",
        (ChoiceOption("delta", 0, "tuples of a batch; 0: the slide, within bounds", 0, 1 << 20),),
        _SIMULATED,
    ),
    MethodAbout(
        "sta",
        "stream-aware: keys that a sketch finds hot have two B+-trees of their own; the others share a chain",
        "STA (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), sections 4.1-4.4, algorithms 1 and 2",
        (
            ChoiceOption("partitions", 4, "workers, two of which take hot keys", 3, 1024),
            ChoiceOption("hot_share", 0.01, "the share of all tuples above which a key is hot", 0, 1),
            ChoiceOption("chain", 8, "sub-indexes into which a count window is cut", 1, 1024),
            ChoiceOption("choices", 2, "workers drawn for a cold tuple; the less loaded one takes it", 1, 2),
        ),
    ),
)
#: All compared methods, the product's own first.
METHODS: Mapping[str, MethodAbout] = {about.name: about for about in _ALL}
