"""Pieces of PromQL, and the metrics that an expression names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from spojoin.protocol.packing import TOGETHER
from spojoin.protocol.topology import PACKABLE

#: Labels that restrict every expression of a dashboard. Outside Kubernetes the first two are missing, and match "".
SCOPE = {"namespace": '=~"$namespace"', "release": '=~"$release"', "query": '="$query"'}
#: The labels that distinguish alerts.
TENANT = "namespace, release, query"

_NAME = re.compile(r"\b(?:spojoin|process|python)_[a-z0-9_]+")
#: A metric, with the brace that begins its labels if it has any.
_SELECTOR = re.compile(r"\b(spojoin_[a-z0-9_]+)(\{)?")
_VARIABLE = re.compile(r"\$\{?([a-zA-Z_]+)\}?")


def pick(name: str, **labels: str) -> str:
    """The series of a metric that the dashboard's variables select.

    A role selects all processes that have it; `~` and several roles with `|` between them select processes that have
    one of these roles. The value of another label is a pattern if it begins with `~`.
    """
    wanted = {**SCOPE, **{label: _matcher(label, value) for label, value in labels.items()}}
    return f"{name}{{{', '.join(label + matcher for label, matcher in wanted.items())}}}"


def rate(name: str, **labels: str) -> str:
    """Each series' increase per second."""
    return f"rate({pick(name, **labels)}[$__rate_interval])"


def total(expression: str, by: str = "") -> str:
    """The sum of all series, or one sum for each value of the labels `by`."""
    return f"sum by ({by}) ({expression})" if by else f"sum({expression})"


def quantile(share: float, histogram: str, by: str = "", **labels: str) -> str:
    """A quantile of a histogram's recent values."""
    buckets = total(rate(f"{histogram}_bucket", **labels), f"le, {by}" if by else "le")
    return f"histogram_quantile({share:g}, {buckets})"


def names(expression: str) -> set[str]:
    """The metrics that an expression reads."""
    return set(_NAME.findall(expression))


def scoped(expression: str, labels: str) -> str:
    """The expression, restricted to series with these labels."""
    return _SELECTOR.sub(lambda found: f"{found[1]}{{{labels}{', ' if found[2] else '}'}", expression)


def filled(expression: str, values: Mapping[str, str]) -> str:
    """The expression with Grafana's variables replaced. Raises KeyError if one has no value."""
    return _VARIABLE.sub(lambda found: values[found.group(1)], expression)


def serving(roles: Iterable[str]) -> str:
    """A matcher of the label `role` that selects processes with one of these roles, alone or with others."""
    named = "|".join(roles)
    packable = "|".join(role for role in named.split("|") if role in PACKABLE)
    if not packable:
        return f'=~"{named}"' if "|" in named else f'="{named}"'
    shared = f"(.+[+])?({packable})([+].+)?|{TOGETHER}"
    alone = [role for role in named.split("|") if role not in PACKABLE]
    return f'=~"{"|".join([*alone, shared])}"'


def _matcher(label: str, value: str) -> str:
    if label == "role" and "$" not in value:
        return serving([value.removeprefix("~")])
    return f'=~"{value[1:]}"' if value.startswith("~") else f'="{value}"'
