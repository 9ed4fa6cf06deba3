"""Whether a query is well, by what its services report."""

from __future__ import annotations

import math

import pytest

from spojoin.protocol.services import role_of
from spojoin.telemetry.expected_services import NOBODY, ExpectedServices
from spojoin.telemetry.status import ServiceStatus, status_rows
from spojoin.telemetry.wellness import Wellness, wellness_of

APART = ("router", "pojoin-0", "pojoin-1", "sink")


def row(name: str, state: str = "ready", **fields: object) -> ServiceStatus:
    told = {
        "role": role_of(name),
        "state": state,
        "wall_ms": "0",
        "started_ms": "0",
        **{k: str(v) for k, v in fields.items()},
    }
    (found,) = status_rows({f"spojoin:v1:q:status:{name}": told}, 0)
    return found


def wellness(*rows: ServiceStatus, needed: tuple[str, ...] = APART) -> Wellness:
    return wellness_of(rows, ExpectedServices(dict.fromkeys(needed), frozenset(needed)))


def rows_of(*names: str) -> list[ServiceStatus]:
    return [row(name) for name in names]


def test_a_query_whose_services_run_is_well_and_says_what_waits() -> None:
    router = row("router", lag=1_234, unanswered_ms=250.0)
    found = wellness(router, *rows_of("pojoin-0", "pojoin-1", "sink"))
    assert found == Wellness(
        True,
        "Running",
        "all services run that results need (4); 1,234 records of the inputs wait; oldest unanswered row: 250 ms",
    )


@pytest.mark.parametrize("missing", APART)
def test_each_missing_service_is_named(missing: str) -> None:
    found = wellness(*rows_of(*(name for name in APART if name != missing)))
    assert found == Wellness(False, "ServiceGone", f"{missing} is gone: results wait for it")


def test_several_are_named_in_the_datas_way() -> None:
    found = wellness(row("pojoin-0"))
    assert found.sentence == "router, pojoin-1 and sink are gone: results wait for them"


def test_what_waits_says_why() -> None:
    rows = [row("router", "waiting: topic 'in.trips', which doesn't exist"), *rows_of("pojoin-0", "pojoin-1", "sink")]
    said = "router is not ready; router says: waiting: topic 'in.trips', which doesn't exist"
    assert wellness(*rows) == Wellness(False, "NotReady", said)


def test_one_instance_of_two_is_enough() -> None:
    rest = rows_of("pojoin-0", "pojoin-1", "sink")
    assert wellness(row("router.b"), *rest).is_well
    assert wellness(row("router.b", "standby"), row("router", "waiting: start"), *rest).is_well
    assert not wellness(row("router.b", "waiting: start"), *rest).is_well


def test_one_process_is_enough_where_it_has_all_roles() -> None:
    assert wellness(row("together", unanswered_ms=math.nan), needed=("together",)).sentence == (
        "the service runs that results need; 0 records of the inputs wait; oldest unanswered row: none"
    )
    assert wellness(needed=("together",)).reason == "ServiceGone"


def test_where_nobody_has_ever_reported_nothing_runs() -> None:
    assert wellness_of([], NOBODY) == Wellness(False, "NothingReports", "no service reports")


def test_a_query_that_was_refused_is_not_well_though_another_one_runs() -> None:
    found = wellness(row("router", refusal="it has another window"), *rows_of("pojoin-0", "pojoin-1", "sink"))
    said = "another query is served than the one that was given: it has another window"
    assert found == Wellness(False, "NotAccepted", said)
