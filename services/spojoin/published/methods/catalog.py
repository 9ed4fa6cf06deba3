"""The methods of searching a window: names, options and sources as plain data, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spojoin.errors import QueryError
from spojoin.model import DEFAULT_METHOD, Method, OptionValue, Query
from spojoin.suggest import listed, unknown


@dataclass(frozen=True, slots=True)
class MethodOption:
    """An option: a number from `least` to `most`, whole if its default is, or one of `choices`, or any text."""

    name: str
    default: OptionValue
    about: str
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The values allowed, in words."""
        if self.choices:
            return listed(self.choices)
        if isinstance(self.default, str):
            return "text"
        if isinstance(self.default, int):
            return f"a whole number from {self.least:,.0f} to {self.most:,.0f}"
        return f"a number from {self.least:g} to {self.most:g}"

    def parse(self, text: str) -> OptionValue | None:
        """The value of a text; None if it isn't allowed."""
        if self.choices:
            return text if text in self.choices else None
        if isinstance(self.default, str):
            return text
        try:
            value = int(text) if isinstance(self.default, int) else float(text)
        except ValueError:
            return None
        return value if self.least <= value <= self.most else None


@dataclass(frozen=True, slots=True)
class MethodAbout:
    """A method; `cites` names its paper and section.

    simulated: options of a simulation of the method that may answer wrongly, which runs elsewhere
    """

    name: str
    about: str
    cites: str
    options: tuple[MethodOption, ...] = ()
    simulated: tuple[str, ...] = ()


_FANOUT = MethodOption("fanout", 256, "entries per tree node", 4, 1_024)
_PREDICATE = MethodOption("predicate", 1, "the predicate that the tree answers; the others are verified", 1, 64)
_CHAIN = (MethodOption("length", 2, "members that cover a window", 1, 1_024), _PREDICATE)
_MERGING = (
    MethodOption("merge_ratio", 0.25, "the ratio of new tuples to a window's at which they are merged", 0.001, 1),
    MethodOption("merge", "blocking", "whether probes wait for a merge", choices=("blocking", "non_blocking")),
    MethodOption("threads", 1, "threads that share the probes", 1, 64),
    _PREDICATE,
)
#: Options of SPO-Join's own distributed schemes, which can answer wrongly and are simulated in loadgen.papers.
_SIMULATED = ("state", "logical_and", "workers", "rate", "hop_ms", "service_ms", "interval_ms", "cache")
_PIM_TREE = "PIM-Tree (Shahvarani, Jacobsen, SIGMOD 2020), section"

_CSS = (
    MethodOption("batch", 8_192, "tuples of an immutable batch; at most a quarter of the window", 16, 1 << 24),
    MethodOption("node", 16, "keys per tree node", 2, 256),
)
_ALL = (
    MethodAbout(
        DEFAULT_METHOD,
        "the product's own: mutable ranks, immutable batches searched through wavelet matrices and sampled bitmaps",
        "SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), sections 4.1-4.4, with wavelet matrices for its bit arrays",
    ),
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
        (MethodOption("depth", 2, "depth of the nodes that have a B+-tree; the root's is 0", 0, 16), *_MERGING),
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
        (MethodOption("delta", 0, "tuples of a batch; 0: the slide, within bounds", 0, 1 << 20),),
        _SIMULATED,
    ),
    MethodAbout(
        "sta",
        "stream-aware: keys that a sketch finds hot have two B+-trees of their own; the others share a chain",
        "STA (Aslam, Simonini, Gagliardelli, Zecchini, Bergamaschi), sections 4.1-4.4, algorithms 1 and 2",
        (
            MethodOption("partitions", 4, "workers, two of which take hot keys", 3, 1024),
            MethodOption("hot_share", 0.01, "the share of all tuples above which a key is hot", 0, 1),
            MethodOption("chain", 8, "sub-indexes into which a count window is cut", 1, 1024),
            MethodOption("choices", 2, "workers drawn for a cold tuple; the less loaded one takes it", 1, 2),
        ),
    ),
)
METHODS: Mapping[str, MethodAbout] = {about.name: about for about in _ALL}


def method(name: str, given: Mapping[str, str], line: int | None = None) -> Method:
    """A method with its options as text; omitted ones get their defaults. Raises QueryError."""
    if name not in METHODS:
        raise QueryError(unknown("method", name, METHODS), line)
    for option in given:
        if option in METHODS[name].simulated:
            raise QueryError(
                f"method {name}: {option} belongs to a simulation that answers wrongly, which "
                "runs in `loadgen papers` alone: remove it",
                line,
            )
    return Method(name, complete(f"method {name}", METHODS[name].options, given, line))


def complete(
    owner: str, options: Sequence[MethodOption], given: Mapping[str, str], line: int | None = None
) -> tuple[tuple[str, OptionValue], ...]:
    """All options with their values or defaults; `owner` names whose they are in errors. Raises QueryError."""
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            raise QueryError(unknown(f"option of {owner}", name, known) if known else _none(owner, name), line)
    return tuple((option.name, _value(owner, option, given, line)) for option in options)


def chosen(query: Query, name: str | None, given: Sequence[str]) -> Query:
    """The query with this method and its options `name=value`, or as it is if none is named. Raises QueryError."""
    if name is None:
        if given:
            raise QueryError("--method-option has no effect without --method: name the method")
        return query
    return replace(query, method=method(name, as_options("--method-option", given)))


def as_options(flag: str, given: Sequence[str]) -> dict[str, str]:
    """Values by name, from texts `name=value` of a command-line flag. Raises QueryError."""
    options = [text.partition("=") for text in given]
    for option, sign, _ in options:
        if not sign:
            raise QueryError(f"{flag} {option!r}: expected name=value")
    return {option: value for option, _, value in options}


def _value(owner: str, option: MethodOption, given: Mapping[str, str], line: int | None) -> OptionValue:
    if option.name not in given:
        return option.default
    value = option.parse(given[option.name])
    if value is None:
        raise QueryError(f"{owner}: {option.name} is {given[option.name]!r}; expected {option.expected}", line)
    return value


def _none(owner: str, option: str) -> str:
    return f"{owner} has no options, so {option!r} has no effect: remove it"
