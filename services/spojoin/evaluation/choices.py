"""Which methods and layouts a query may name: the product's own, and those of other distributions that are installed.

Plain data, for code that reads, checks or explains a query. Other distributions are loaded only if a query doesn't name
the product's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from spojoin.errors import QueryError
from spojoin.evaluation.options import ChoiceOption, LayoutAbout, MethodAbout, as_options, complete
from spojoin.model import DEFAULT_LAYOUT, DEFAULT_METHOD, LayoutChoice, Method, Query
from spojoin.suggest import unknown

if TYPE_CHECKING:
    from spojoin.evaluation.interface import Evaluation

#: Entry points of this group name classes that derive from `Evaluation`.
GROUP = "spojoin.evaluations"

WORKERS_MAX = 1_024
_WORKERS = ChoiceOption("workers", 0, "the worker count; 0: that of the run or the deployment", 0, WORKERS_MAX)

OWN_METHOD = MethodAbout(
    DEFAULT_METHOD,
    "the product's own: mutable ranks, immutable batches searched through wavelet matrices and sampled bitmaps",
    "SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), sections 4.1-4.4, with wavelet matrices for its bit arrays",
)
OWN_LAYOUT = LayoutAbout(
    DEFAULT_LAYOUT,
    "the product's own: new tuples in the mutable part, then batches of consecutive ones to workers in turn",
    "SPO-Join (Aslam, Beedkar, Simonini, EDBT 2025), sections 4.2 and 4.4",
    is_served=True,
    has_mutable_part=True,
)

_About = TypeVar("_About", MethodAbout, LayoutAbout)


@cache
def evaluations() -> tuple[Evaluation, ...]:
    """The alternatives to the product's own way, from all installed distributions."""
    return tuple(point.load()() for point in entry_points(group=GROUP))


def methods() -> dict[str, MethodAbout]:
    """All methods by name, the product's own first."""
    return {OWN_METHOD.name: OWN_METHOD} | {name: a for each in evaluations() for name, a in each.methods.items()}


def layouts() -> dict[str, LayoutAbout]:
    """All layouts by name, the product's own first."""
    return {OWN_LAYOUT.name: OWN_LAYOUT} | {name: a for each in evaluations() for name, a in each.layouts.items()}


def stand_in(query: Query) -> Evaluation | None:
    """What evaluates the query in place of the product's own way; None for that way. A layout applies the method."""
    if query.layout.name != DEFAULT_LAYOUT:
        return next(each for each in evaluations() if query.layout.name in each.layouts)
    if query.method.name != DEFAULT_METHOD:
        return next(each for each in evaluations() if query.method.name in each.methods)
    return None


def check(query: Query, line: int | None = None) -> None:
    """Raise QueryError if the chosen alternative can't evaluate the query; line: the line that chooses it."""
    if (other := stand_in(query)) is not None:
        other.check(query, line)


def method(name: str, given: Mapping[str, str], line: int | None = None) -> Method:
    """A method with its options, given as text; omitted ones get their defaults. Raises QueryError."""
    about = OWN_METHOD if name == DEFAULT_METHOD else _named("method", name, methods(), line)
    for option in given:
        if option in about.refused:
            raise QueryError(f"method {name}: {option} {about.refused[option]}: remove it", line)
    return Method(name, complete(f"method {name}", about.options, given, line))


def layout(name: str, given: Mapping[str, str], line: int | None = None) -> LayoutChoice:
    """A layout with its options, given as text, `workers` included; omitted ones get defaults. Raises QueryError."""
    about = OWN_LAYOUT if name == DEFAULT_LAYOUT else _named("layout", name, layouts(), line)
    options = complete(f"layout {name}", (_WORKERS, *about.options), given, line)
    return LayoutChoice(name, int(options[0][1]), options[1:], has_mutable_part=about.has_mutable_part)


def _named(what: str, name: str, offered: Mapping[str, _About], line: int | None) -> _About:
    if name in offered:
        return offered[name]
    if evaluations():
        raise QueryError(unknown(what, name, offered), line)
    raise QueryError(
        f"{what} {name!r} isn't spojoin's own ({next(iter(offered))}), and the others come with a distribution for "
        f"comparisons that isn't installed: `pip install spojoin-loadgen`, or remove the {what}",
        line,
    )


def chosen_method(query: Query, name: str | None, given: Sequence[str]) -> Query:
    """The query with this method and its options `name=value`; unchanged if none is named. Raises QueryError."""
    if name is None:
        if given:
            raise QueryError("--method-option has no effect without --method: name the method")
        return query
    return replace(query, method=method(name, as_options("--method-option", given)))


def chosen_layout(query: Query, name: str | None, workers: int | None, given: Sequence[str]) -> Query:
    """The query with this layout and its options `name=value`; unchanged if none is named. Raises QueryError."""
    if name is None and given:
        raise QueryError("--layout-option has no effect without --layout: name the layout")
    if name is not None:
        query = replace(query, layout=layout(name, as_options("--layout-option", given)))
    check(query)
    return query if workers is None else replace(query, layout=replace(query.layout, workers=workers))
