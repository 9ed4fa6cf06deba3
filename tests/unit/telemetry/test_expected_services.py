"""Which services should exist, by the reports in the store."""

from __future__ import annotations

from spojoin.protocol.grid import Grid
from spojoin.protocol.services import in_order, role_of, without_workers
from spojoin.query.load import parse_query
from spojoin.telemetry.expected_services import (
    AWAY_MS,
    NOBODY,
    OPTIONAL_MS,
    OVER_MS,
    Absences,
    ServiceReport,
    expected_of,
    marks_of,
    report_of,
)

QUERY = """
name: q
streams: {s: {schema: {a: long, b: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND l.b < r.b WINDOW AS (SLIDE INTERVAL '1' ON '2')
LAYOUT
"""
NEEDS = ("router", "mutable-0", "mutable-1", "sink")


def report(wall_ms=0, needs=NEEDS, workers=2) -> ServiceReport:
    return ServiceReport(wall_ms, needs, workers)


def test_results_need_every_role_but_the_predictor_and_the_controller():
    own = parse_query(QUERY.replace("LAYOUT", ""))
    assert without_workers(own) == ("router", "mutable-0", "mutable-1", "permutation", "logical-and", "sink")
    assert without_workers(own, packing="answerer") == ("router", "permutation", "sink")
    other = parse_query(QUERY.replace("LAYOUT", "layout: scale_join"))
    assert without_workers(other) == ("router", "sink")


def test_one_report_names_all_expected_services():
    found = expected_of({"sink": report(7)}, 10)
    assert list(found.seen_ms) == ["router", "mutable-0", "mutable-1", "pojoin-0", "pojoin-1", "sink"]
    assert found.seen_ms["sink"] == 7
    assert found.seen_ms["pojoin-1"] is None
    assert found.needed == set(found.seen_ms)


def test_the_grid_is_that_of_the_log():
    def grid(workers, columns):
        return expected_of({"sink": ServiceReport(0, NEEDS, workers, columns=columns)}, 0).grid

    assert grid(4, 2) == Grid(2, 2)
    assert grid(5, 2) == Grid(2, 2)
    assert grid(3, 0) == Grid(1, 3)
    assert grid(2, None) is None


def test_workers_and_joiners_no_longer_needed_are_not_expected():
    reports = {f"pojoin-{n}": report(1, workers=4) for n in range(4)} | {"mutable-1": report(1, workers=4)}
    assert "pojoin-3" in expected_of({**reports, "router": report(1, workers=4)}, 2).seen_ms
    fewer = {"router": report(1, workers=2), "mutable-0": report(2, needs=("router", "mutable-0", "sink"))}
    smaller = expected_of(reports | fewer, 2)
    assert list(smaller.seen_ms) == ["router", "mutable-0", "pojoin-0", "pojoin-1", "sink"]


def test_joiners_themselves_know_how_many_they_are():
    router = report(9, needs=("router", "mutable-0", "sink"))
    assert "mutable-1" not in expected_of({"router": router}, 9).needed
    assert {"mutable-0", "mutable-1"} <= expected_of({"router": router, "mutable-1.b": report(1)}, 9).needed
    together = report(9, needs=("together",))
    assert expected_of({"together": together, "mutable-1": report(1)}, 9).needed == {"together", "pojoin-0", "pojoin-1"}


def test_the_writer_of_worker_counts_comes_before_their_readers():
    reports = {"predictor": report(9, workers=9), "permutation": report(9, workers=8), "pojoin-0": report(5, workers=3)}
    assert "pojoin-2" in expected_of(reports, 9).seen_ms
    assert "pojoin-3" not in expected_of(reports, 9).seen_ms
    assert "pojoin-1" not in expected_of({**reports, "router": report(1, workers=1)}, 9).seen_ms


def test_services_that_nothing_waits_for_are_forgotten_after_a_while():
    reports = {"router": report(OPTIONAL_MS + 1), "predictor": report(0), "controller": report(1)}
    found = expected_of(reports, OPTIONAL_MS + 1)
    assert "controller" in found.seen_ms
    assert "predictor" not in found.seen_ms
    assert "controller" not in found.needed


def test_the_services_of_an_earlier_packing_are_not_expected():
    apart = {name: report(1) for name in ("router", "mutable-0", "permutation", "sink", "pojoin-0", "predictor")}
    together = {"together": report(2, needs=("together",)), "together.b": report(2, needs=("together",))}
    found = expected_of(apart | together, 3)
    assert list(found.seen_ms) == ["together", "together.b", "predictor", "pojoin-0", "pojoin-1"]
    assert found.needed == {"together", "pojoin-0", "pojoin-1"}
    back = expected_of(together | {name: report(4) for name in apart}, 5)
    assert back.needed == {*NEEDS, "pojoin-0", "pojoin-1"}
    assert "together" not in back.seen_ms


def test_a_query_without_reports_is_over():
    assert expected_of({}, 0) == NOBODY
    assert expected_of({"router": report(0)}, OVER_MS) != NOBODY
    assert expected_of({"router": report(0)}, OVER_MS + 1) == NOBODY


def test_a_report_comes_back_from_the_store():
    fields = {name: str(value) for name, value in report(3).fields().items()}
    assert report_of(fields) == report(3)
    assert report_of({"wall_ms": "3"}) is None


def test_services_are_ordered_by_data_flow_and_number():
    names = ["sink", "pojoin-10", "controller", "pojoin-9", "logical-and", "router", "other"]
    ordered = ["router", "pojoin-9", "pojoin-10", "logical-and", "sink", "controller", "other"]
    assert in_order(names) == ordered
    assert [role_of(name) for name in ordered[1:4]] == ["pojoin", "pojoin", "logical-and"]


def test_a_silent_service_is_reported_once_and_its_return_once():
    absences, changes = Absences(), []
    for second in range(100):
        marks = {"sink": second, "pojoin-1": min(second, 10) if second < 60 else second}
        for change in absences.take(["sink", "pojoin-1"], marks, 1000.0 * second):
            changes.append((second, change.service, change.is_back))
    assert changes == [(10 + int(AWAY_MS / 1000), "pojoin-1", False), (60, "pojoin-1", True)]


def test_a_service_that_never_reports_is_absent_too():
    absences = Absences()
    assert absences.take(["sink"], {}, 0) == []
    (change,) = absences.take(["sink"], {}, AWAY_MS)
    assert change.sentence == "sink has been away for 30 s: results wait for it"
    assert absences.take(["sink"], {}, 2 * AWAY_MS) == []
    (change,) = absences.take(["sink"], {"sink": 1}, 2 * AWAY_MS)
    assert change.sentence == "sink is back after 60 s"


def test_a_restart_in_place_is_no_event():
    absences = Absences()
    absences.take(["sink"], {"sink": 1}, 0)
    assert absences.take(["sink"], {}, AWAY_MS - 1) == []
    assert absences.take(["sink"], {"sink": 2}, AWAY_MS) == []


def test_a_service_is_away_only_when_all_its_instances_are():
    absences, changes = Absences(), []
    for second in range(120):
        reports = [("sink", min(second, 10)), ("sink.b", min(second, 60))]
        for change in absences.take(["sink"], marks_of(reports), 1000.0 * second):
            changes.append((second, change.service, change.is_back))
    assert changes == [(60 + int(AWAY_MS / 1000), "sink", False)]


def test_while_no_report_arrives_no_service_is_absent():
    absences = Absences()
    absences.take(["sink", "router"], {"sink": 1, "router": 1}, 0)
    absences.excuse(10 * AWAY_MS)
    assert absences.take(["sink", "router"], {"sink": 1}, 10 * AWAY_MS + 1000) == []


def test_a_service_no_longer_expected_is_forgotten():
    absences = Absences()
    absences.take(["pojoin-1"], {"pojoin-1": 1}, 0)
    assert absences.take([], {}, 2 * AWAY_MS) == []
    assert absences.take(["pojoin-1"], {}, 2 * AWAY_MS + 1) == []
    assert absences.away == frozenset()
