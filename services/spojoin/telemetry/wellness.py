"""Whether a query is well, in a word and a sentence, for a test after an install, a probe and a condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spojoin.protocol.packing import roles_of
from spojoin.protocol.services import in_order, service_of
from spojoin.protocol.topology import Role
from spojoin.telemetry.durations import unanswered_text
from spojoin.telemetry.expected_services import ExpectedServices
from spojoin.telemetry.status import FINE, ServiceStatus, holder_of, refusal_of, unanswered_ms

ACCEPTED, REFUSED = "Accepted", "NotAccepted"
RUNNING, NOT_READY, GONE, SILENT = "Running", "NotReady", "ServiceGone", "NothingReports"


class Wellness(NamedTuple):
    """Whether all services that results need serve the given query; with the reason in one word and in a sentence."""

    is_well: bool
    reason: str
    sentence: str


def wellness_of(services: Iterable[ServiceStatus], expected: ExpectedServices) -> Wellness:
    """A query's wellness, by its services that aren't silent; one of two instances is enough."""
    rows = list(services)
    running, accepted = running_of(rows, expected), accepted_of(refusal_of(rows))
    return accepted if running.is_well and not accepted.is_well else running


def accepted_of(refusal: str) -> Wellness:
    """Whether the given query is the one that is served; `refusal` is the reason if not, otherwise empty."""
    if refusal:
        return Wellness(False, REFUSED, f"another query is served than the one that was given: {refusal}")
    return Wellness(True, ACCEPTED, "the query that was given is the one that is served")


def running_of(rows: Sequence[ServiceStatus], expected: ExpectedServices) -> Wellness:
    """Whether a query is answered, either the given one or another."""
    if not expected.needed:
        return Wellness(False, SILENT, "no service reports")
    speaking = {service_of(row.service) for row in rows}
    if gone := in_order(expected.needed - speaking):
        return Wellness(False, GONE, f"{_listed(gone)} {_is(gone)} gone: results wait for {_it(gone)}")
    fine = {service_of(row.service) for row in rows if row.state in FINE}
    if waiting := in_order(expected.needed - fine):
        first = next(row.state for row in rows if service_of(row.service) == waiting[0])
        return Wellness(False, NOT_READY, f"{_listed(waiting)} {_is(waiting)} not ready; {waiting[0]} says: {first}")
    return Wellness(True, RUNNING, _running(rows, len(expected.needed)))


def _running(rows: Sequence[ServiceStatus], count: int) -> str:
    lag = sum(row.lag for row in rows if Role.ROUTER in roles_of(row.role))
    said = f"all services run that results need ({count})" if count > 1 else "the service runs that results need"
    held = holder_of(rows)
    waits = f"{lag:,} records of the inputs wait; oldest unanswered row: {unanswered_text(unanswered_ms(rows))}"
    return "; ".join([said, waits, *([] if held is None else [str(held)])])


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _it(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
