"""Which services of a query there should be, by what the store remembers: what is lost must be seen as missing.

Each service leaves a word that does not expire (`expected:<service>`): when it was last there, which services results
need by its settings, and how many PO-Join workers the log's layout has. So any one of them that lives, or lived when
the store was last whole, names all. Only routers write layouts: theirs is the word that counts, else that of the next
who reads them. A worker beyond the layout, or a joiner beyond the settings, is expected no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spojoin.ports.interfaces import Fields
from spojoin.protocol.services import in_order, names, role_of
from spojoin.protocol.topology import Role

#: a query of which nobody has reported for so long is over
OVER_MS = 24 * 3_600_000
#: a service that nothing waits for, and that has been away for so long, was taken away on purpose
OPTIONAL_MS = 3_600_000

#: who follows the log, and so its layout, in the order in which they are believed
_FOLLOWERS = (Role.ROUTER, Role.SINK, Role.MUTABLE, Role.POJOIN, Role.LOGICAL_AND)
#: roles whose services are as many as somebody else says
_COUNTED = (Role.MUTABLE.value, Role.POJOIN.value)


class Word(NamedTuple):
    """What a service said of all services, and when, ms since 1970."""

    wall_ms: int
    needs: tuple[str, ...]
    workers: int

    def fields(self) -> Fields:
        """As the store holds it."""
        return {"wall_ms": self.wall_ms, "needs": " ".join(self.needs), "workers": self.workers}


class ExpectedServices(NamedTuple):
    """The services that there should be, in the data's way; `seen_ms` when each was last there, None for never known.

    needed: those of them that results wait for
    """

    seen_ms: Mapping[str, int | None]
    needed: frozenset[str]


NOBODY = ExpectedServices({}, frozenset())


def word_of(fields: Mapping[str, str]) -> Word | None:
    """A word as the store holds it; None where it is none."""
    if not {"wall_ms", "needs", "workers"} <= fields.keys():
        return None
    return Word(int(fields["wall_ms"]), tuple(fields["needs"].split()), int(fields["workers"]))


def expected_of(words: Mapping[str, Word], wall_ms: int) -> ExpectedServices:
    """Who there should be at a time, by what was said by each service of one query; nobody where the query is over."""
    if not words or wall_ms - max(word.wall_ms for word in words.values()) > OVER_MS:
        return NOBODY
    first = words[min(words, key=_rank)]
    needed = frozenset((*first.needs, *names(Role.POJOIN, first.workers)))
    optional = {
        service
        for service, word in words.items()
        if role_of(service) not in _COUNTED and wall_ms - word.wall_ms <= OPTIONAL_MS
    }
    seen = {service: words[service].wall_ms if service in words else None for service in in_order(needed | optional)}
    return ExpectedServices(seen, needed)


def _rank(service: str) -> tuple[int, str]:
    followers = [role.value for role in _FOLLOWERS]
    role = role_of(service)
    return followers.index(role) if role in followers else len(followers), service
