"""The query's health as conditions that `kubectl wait`, Argo CD and Flux read: Accepted and Running.

Accepted: the query that the release was given is the served one. Running: a query is answered, which may be another.
"""

from __future__ import annotations

from typing import NamedTuple

import structlog

from spojoin.roles.controller.cluster import Cluster, ClusterUnavailable, StatusCondition
from spojoin.runtime.loop_spec import Surroundings
from spojoin.telemetry.status import refusal_of, statuses_of, without_credentials
from spojoin.telemetry.wellness import REFUSED, Wellness, accepted_of, running_of

ACCEPTED, RUNNING = "Accepted", "Running"
#: How often to report a change of the message alone, since the lag of results changes every second.
TELL_MS = 30_000
#: A true condition becomes false after this many failed looks, as a probe must fail three times.
LOOKS = 3

_log = structlog.get_logger(__name__)


class _Kept(NamedTuple):
    condition: StatusCondition
    at_ms: float


class Conditions:
    """Reports changed conditions to the cluster, and repeats a report later if the cluster doesn't take it."""

    def __init__(self, cluster: Cluster, world: Surroundings) -> None:
        self._cluster = cluster
        self._world = world
        self._told: dict[str, _Kept] = {}
        self._doubts: dict[str, int] = {}
        self._wait_until_ms = 0.0

    def look(self) -> None:
        """Report the conditions that follow from the services' reports."""
        self._tell(self._found())

    def refuse(self, refusal: str) -> None:
        """Report that no query of this release is served."""
        self._tell(refused(refusal))

    def end(self) -> None:
        """Report that the conditions are no longer observed."""
        if self._told:
            said = "the controller has ended: nobody looks at the query"
            self._send([StatusCondition(kind, None, "ControllerEnded", said) for kind in self._told])

    def _found(self) -> tuple[StatusCondition, ...]:
        wall_ms, entries = self._world.clock.wall_ms(), self._world.shared.reports()
        status = next(iter(statuses_of(entries, wall_ms)), None)
        # If the previous router still speaks, the controller's own check of the query is newer.
        refusal = (refusal_of(status.services) if status else "") or self._world.health.refusal
        accepted = _condition(ACCEPTED, accepted_of(without_credentials(refusal)))
        if status is None:
            said = "Redis doesn't answer, or none is set: nobody knows whether the services run"
            return accepted, StatusCondition(RUNNING, None, "StoreAway", said)
        return accepted, _condition(RUNNING, running_of(status.services, status.expected))

    def _tell(self, found: tuple[StatusCondition, ...]) -> None:
        now_ms = self._world.clock.monotonic_ms()
        changed = [each for each in found if self._is_news(each, now_ms)]
        if changed and now_ms >= self._wait_until_ms:
            self._send(changed)

    def _is_news(self, found: StatusCondition, now_ms: float) -> bool:
        told = self._told.get(found.kind)
        if told is None:
            return True
        was = told.condition
        is_doubt = was.is_true is True and found.is_true is not True
        self._doubts[found.kind] = self._doubts.get(found.kind, 0) + 1 if is_doubt else 0
        if is_doubt:
            return self._doubts[found.kind] >= LOOKS
        is_other = found.is_true is not was.is_true or found.reason != was.reason
        return is_other or (found != was and now_ms >= told.at_ms + TELL_MS)

    def _send(self, conditions: list[StatusCondition]) -> None:
        now_ms = self._world.clock.monotonic_ms()
        try:
            self._cluster.tell(conditions)
        except ClusterUnavailable as error:
            self._wait_until_ms = now_ms + TELL_MS
            _log.warning("conditions were not told", error=str(error))
            return
        self._told |= {each.kind: _Kept(each, now_ms) for each in conditions}


def refused(refusal: str) -> tuple[StatusCondition, ...]:
    """The conditions of a release that serves no query, because its query was refused."""
    said = without_credentials(refusal)
    running = f"no service of this release serves a query: {said}"
    return StatusCondition(ACCEPTED, False, REFUSED, said), StatusCondition(RUNNING, False, REFUSED, running)


def refused_at_start(cluster: Cluster, error: Exception) -> None:
    """Report why the controller ends before its first look."""
    try:
        cluster.tell(refused(str(error)))
    except ClusterUnavailable as away:
        _log.warning("conditions were not told", error=str(away))


def _condition(kind: str, found: Wellness) -> StatusCondition:
    return StatusCondition(kind, found.is_well, found.reason, found.sentence)
