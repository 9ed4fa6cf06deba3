"""What the controller tells of a query, and when."""

from __future__ import annotations

import pytest

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.shared_state import key
from spojoin.protocol.services import role_of
from spojoin.protocol.topology import Role
from spojoin.roles.controller import __main__ as process
from spojoin.roles.controller.__main__ import ControlledQuery, limits_of, supervise
from spojoin.roles.controller.cluster import StatusCondition
from spojoin.roles.controller.conditions import TELL_MS, Conditions
from spojoin.runtime.settings import Settings, load_settings
from spojoin.telemetry.expected_services import ServiceReport
from tests.support.controller_world import FakeCluster, StopWhen
from tests.support.runtime_world import TOPICS, Bench

SERVICES = ("router", "pojoin-0", "sink")
TELL_S = TELL_MS // 1000


class Stage:
    """A query's services report each second, and the controller looks."""

    def __init__(self) -> None:
        self.bench = Bench(Role.CONTROLLER)
        self.cluster = FakeCluster(1)
        self.conditions = Conditions(self.cluster, self.bench.world)
        self.states = dict.fromkeys(SERVICES, "ready")
        self.fields: dict[str, object] = {}

    def look(self, seconds: int = 1) -> list[tuple[str, bool | None, str]]:
        """What is told within this time, without the messages."""
        self.cluster.told.clear()
        for _ in range(seconds):
            self.bench.clock.sleep(1)
            self.report()
            self.conditions.look()
        return [(each.kind, each.is_true, each.reason) for each in self.cluster.told]

    def report(self) -> None:
        now_ms = self.bench.clock.wall_ms()
        wanted = ServiceReport(now_ms, ("router", "sink"), 1).fields()
        for name, state in self.states.items():
            told = {"role": role_of(name), "state": state, "wall_ms": now_ms, "started_ms": 0, **self.fields}
            self.bench.shared.put({key("q", "status", name): told}, 1.5)
            self.bench.shared.put({key("q", "expected", name): wanted})

    def message(self, kind: str) -> str:
        return next(each.message for each in reversed(self.cluster.told) if each.kind == kind)


WELL = [("Accepted", True, "Accepted"), ("Running", True, "Running")]


def test_a_query_that_is_well_is_told_once_with_how_far_results_lag():
    stage = Stage()
    stage.fields = {"lag": 1_234, "unanswered_ms": 2_500.0}
    assert stage.look() == WELL
    said = "all services run that results need (3); 1,234 records of the inputs wait; oldest unanswered row: 2,500 ms"
    assert stage.message("Running") == said
    assert stage.look(3 * TELL_S) == []


def test_how_far_results_lag_is_told_now_and_then():
    stage = Stage()
    stage.look()
    told = 0
    for lag in range(5 * TELL_S):
        stage.fields = {"lag": lag}
        told += len(stage.look())
    assert told == 5


def test_a_service_that_is_gone_is_told_when_it_stays_away_and_its_return_at_once():
    stage = Stage()
    stage.look()
    del stage.states["sink"]
    assert stage.look(3) == []  # the last report of the sink lasts a moment
    assert stage.look(1) == [("Running", False, "ServiceGone")]
    assert stage.message("Running") == "sink is gone: results wait for it"
    stage.states["sink"] = "waiting: start"
    assert stage.look(1) == [("Running", False, "NotReady")]
    stage.states["sink"] = "ready"
    assert stage.look(1) == [("Running", True, "Running")]
    del stage.states["sink"]
    assert stage.look(2) == []
    stage.states["sink"] = "ready"
    assert stage.look(10) == []


def test_a_refused_query_is_not_accepted_while_the_other_one_runs():
    stage = Stage()
    stage.fields = {"refusal": "it has another window: set query.replace=true"}
    assert stage.look() == [("Accepted", False, "NotAccepted"), ("Running", True, "Running")]
    assert stage.message("Accepted").endswith("it has another window: set query.replace=true")


def test_a_refused_query_is_not_accepted_before_its_router_says_so():
    stage = Stage()
    stage.bench.health.refusal = "it has another window"
    assert stage.look() == [("Accepted", False, "NotAccepted"), ("Running", True, "Running")]


def test_a_name_that_is_anothers_is_refused_in_both():
    stage = Stage()
    stage.conditions.refuse("'q' belongs to joins/first")
    assert [(each.kind, each.is_true) for each in stage.cluster.told] == [("Accepted", False), ("Running", False)]
    assert stage.message("Running") == "no service of this release serves a query: 'q' belongs to joins/first"


def test_without_the_store_nobody_knows():
    stage = Stage()
    stage.look()
    stage.bench.store.scan = lambda _: (_ for _ in ()).throw(StoreUnavailable("gone"))
    assert stage.look(3) == [("Running", None, "StoreAway")]
    stage.bench.health.refusal = "it joins another column"
    assert stage.look(3) == [("Accepted", False, "NotAccepted")]


def test_a_new_controller_tells_what_it_sees_at_once():
    stage = Stage()
    del stage.states["router"]
    assert stage.look() == [("Accepted", True, "Accepted"), ("Running", False, "ServiceGone")]


def test_what_the_cluster_does_not_take_is_told_later():
    stage = Stage()
    stage.cluster.failures = 1
    assert stage.look(5) == []
    stage.cluster.failures = 0
    assert stage.look(TELL_S) == WELL


def test_the_process_tells_what_it_finds_and_that_it_ends():
    bench, cluster = Bench(Role.CONTROLLER), FakeCluster(2)
    settings = Settings(query_file="q", workers=2, workers_max=2)
    controlled = ControlledQuery(cluster, TOPICS, settings, limits_of(settings), needs=("sink",))
    supervise(controlled, bench.world, StopWhen(lambda: bench.health.ready()[0], bench.clock))
    found = [(each.kind, each.is_true, each.reason) for each in cluster.told]
    assert found[:2] == [("Accepted", True, "Accepted"), ("Running", False, "ServiceGone")]
    assert found[2:] == [("Accepted", None, "ControllerEnded"), ("Running", None, "ControllerEnded")]


def test_a_query_that_cannot_be_read_is_told_before_the_process_ends(tmp_path, monkeypatch):
    cluster = FakeCluster(1)
    monkeypatch.setattr(process, "_cluster", lambda _: cluster)
    query = tmp_path / "q.yaml"
    query.write_text("name: q\nstreams: 7\n")
    with pytest.raises(ConfigurationError) as caught:
        process._serve(load_settings(query_file=query))
    assert cluster.told == [
        StatusCondition("Accepted", False, "NotAccepted", str(caught.value)),
        StatusCondition("Running", False, "NotAccepted", f"no service of this release serves a query: {caught.value}"),
    ]
