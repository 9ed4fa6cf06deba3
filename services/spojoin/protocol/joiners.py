"""Which predicates each mutable joiner evaluates; the number of joiners is free, and changes no result."""

from __future__ import annotations


def joiner_count(predicates: int, joiners: int | None) -> int:
    """The number of mutable joiners: one for each predicate unless a setting says otherwise."""
    return predicates if joiners is None else joiners


def predicates_of(joiner: int, joiners: int, predicates: int) -> range:
    """The predicates that joiner number `joiner` of `joiners` evaluates: none where it is one too many."""
    return range(joiner, predicates, joiners)
