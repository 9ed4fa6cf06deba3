"""A long absence of a service is reported once, and its return once."""

from __future__ import annotations

from spojoin.telemetry.absences import AWAY_MS, Absences, marks_of


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
