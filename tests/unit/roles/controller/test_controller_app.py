"""The controller over a log and a store in memory, and a cluster that follows every request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import LogPartition, StoreUnavailable
from spojoin.ports.shared_state import key
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.topology import Role, Topic
from spojoin.roles.controller.__main__ import ControlledQuery, limits_of, supervise
from spojoin.roles.controller.app import STEP_KINDS, Controller
from spojoin.roles.controller.cluster import LeavingPod
from spojoin.roles.controller.control_topic import ControlTopic
from spojoin.roles.controller.policy import ScalingLimits, Step
from spojoin.runtime import process
from spojoin.runtime.__main__ import start
from spojoin.runtime.settings import Settings, load_settings
from spojoin.telemetry.metrics import SCALE_STEPS, value_of
from spojoin.wire.codec import decode
from spojoin.wire.records import WorkerCount
from tests.support.controller_world import FakeCluster, StopWhen
from tests.support.runtime_world import TOPICS, Bench

CONTROL = LogPartition(TOPICS.name(Topic.CONTROL), 0)


class Stage:
    """One controller and its surroundings; `turn` lets a second pass."""

    def __init__(self, limits: ScalingLimits, replicas: int = 2, needs: Sequence[str] = ()) -> None:
        self.bench = Bench(Role.CONTROLLER)
        self.bench.shared.log_id = self.bench.log.topic_id("q.frames")
        self.cluster = FakeCluster(replicas)
        control = ControlTopic(self.bench.log, CONTROL, self.bench.clock)
        self.controller = Controller(self.cluster, control, self.bench.world, limits, workers=2, needs=needs)
        self.cpu_s = 0.0

    def turn(self, cores: float | None = None, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.bench.clock.sleep(1)
            if cores is not None:
                self.cpu_s += cores
                self.say_loads()
            self.controller.turn()

    def say_loads(self) -> None:
        for worker in range(self.cluster.replicas):
            fields = {"wall_ms": self.bench.clock.wall_ms(), "cpu_s": self.cpu_s, "lag": 0, "pid": 7}
            self.bench.shared.put({key("q", "status", f"pojoin-{worker}"): fields})

    def counts(self) -> list[WorkerCount]:
        return [decode(record.value) for record in self.bench.log.records(CONTROL)]

    def answer(self, workers: int) -> None:
        self.bench.shared.put({key("q", "head"): {"workers": workers, "layout_frame": 7}})
        self.bench.shared.put_result_position(ResultPosition(7, 0))


def test_the_count_follows_kubectl_scale_up_and_down():
    stage = Stage(ScalingLimits(workers_max=4))
    stage.turn()
    assert stage.counts() == [WorkerCount(1, 2)]
    stage.cluster.replicas = 4
    stage.turn(seconds=3)
    assert stage.counts() == [WorkerCount(1, 2)]
    stage.cluster.ready = 4
    stage.turn(seconds=2)
    stage.cluster.replicas = 1
    stage.turn(seconds=2)
    assert stage.counts() == [WorkerCount(2, 4), WorkerCount(3, 1)]
    assert [event.reason for event in stage.cluster.events] == ["WaitingForWorkers", "LayoutGrown", "LayoutShrunk"]
    assert value_of(stage.bench.world.metrics.scale_requested) == 1


def test_load_adds_a_worker_and_calm_removes_it_in_order():
    stage = Stage(
        ScalingLimits(4, is_autoscaling=True, scale_min=2, scale_max=3, up_after_s=5, down_after_s=20, wait_s_max=60)
    )
    stage.turn(cores=1.0, seconds=10)
    assert stage.cluster.replicas == 3
    assert stage.counts() == [WorkerCount(1, 2)]
    stage.cluster.ready = 3
    stage.turn(cores=1.0)
    assert stage.counts()[-1] == WorkerCount(2, 3)
    stage.turn(cores=0.0, seconds=40)
    assert stage.counts()[-1] == WorkerCount(3, 2)
    assert stage.cluster.replicas == 3
    stage.answer(2)
    stage.turn(cores=0.0)
    assert stage.cluster.replicas == 2
    reasons = [event.reason for event in stage.cluster.events]
    assert reasons == ["ScaledUp", "WaitingForWorkers", "LayoutGrown", "LayoutShrunk", "ScaledDown"]


def test_a_new_controller_goes_on_from_the_topic():
    stage = Stage(ScalingLimits(workers_max=4), replicas=3)
    stage.turn(seconds=3)
    assert stage.counts() == [WorkerCount(1, 2), WorkerCount(2, 3)]
    control = ControlTopic(stage.bench.log, CONTROL, stage.bench.clock)
    again = Controller(stage.cluster, control, stage.bench.world, ScalingLimits(workers_max=4), workers=2)
    again.turn()
    assert stage.counts() == [WorkerCount(1, 2), WorkerCount(2, 3)]


def test_a_failing_cluster_is_retried_and_readiness_shows_it(monkeypatch):
    bench = Bench(Role.CONTROLLER)
    cluster = FakeCluster(3)
    cluster.failures = 3
    said = []
    settings = Settings(query_file="q", workers=2, workers_max=4)

    def done() -> bool:
        said.append(bench.health.ready()[1])
        return bench.log.bounds(CONTROL).end > 1 and bench.health.ready()[0]

    controlled = ControlledQuery(cluster, TOPICS, settings, limits_of(settings))
    supervise(controlled, bench.world, StopWhen(done, bench.clock))
    assert "waiting: broken on purpose" in said
    assert value_of(bench.metrics.retries) == 3
    assert [decode(r.value) for r in bench.log.records(CONTROL)] == [WorkerCount(1, 2), WorkerCount(2, 3)]


def test_a_controller_without_a_statefulset_says_what_to_set(tmp_path, capsys):
    query = tmp_path / "q.yaml"
    query.write_text(
        "name: q\nstreams:\n  s: {schema: {a: int}}\n"
        "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '10')\n"
    )
    assert start((Role.CONTROLLER,), Settings(query_file=query)) == process.EXIT_CONFIGURATION
    assert "SPOJOIN_STATEFULSET" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"workers": 2, "workers_max": 1}, "workers_max is 1; expected at least workers"),
        ({"workers_max": 4, "columns": 5}, "columns is 5; expected at most workers_max, which is 4"),
        ({"workers_max": 4, "scale_max": 5}, "scale_min is 1 and scale_max is 5; expected"),
        ({"workers_max": 4, "scale_min": 3, "scale_max": 2}, "scale_min is 3 and scale_max is 2; expected"),
        ({"scale_cpu_low": 0.9}, "scale_cpu_low is 0.9; expected less than"),
        ({"autoscale": True}, "autoscale needs redis_url"),
    ],
)
def test_settings_that_contradict_each_other(given, expected):
    with pytest.raises(ConfigurationError, match=r"^[^\n]+$") as caught:
        load_settings(query_file="q", **given)
    assert str(caught.value).startswith(expected)


def test_defaults_of_limits():
    limits = limits_of(load_settings(query_file="q", workers=2, workers_max=6))
    assert (limits.workers_max, limits.scale_min, limits.scale_max, limits.is_autoscaling) == (6, 1, 6, False)
    assert load_settings(query_file="q", workers=3).workers_max == 3


def test_a_long_absence_of_a_service_is_an_event():
    stage = Stage(ScalingLimits(workers_max=4), needs=("sink",))
    stage.cluster.replicas = 1

    def turn(seconds: int, *, has_sink: bool) -> list[str]:
        stage.cluster.events.clear()
        for _ in range(seconds):
            fields = {"wall_ms": stage.bench.clock.wall_ms()}
            stage.bench.shared.put({key("q", "status", "pojoin-0"): fields})
            if has_sink:
                stage.bench.shared.put({key("q", "status", "sink"): fields})
            stage.turn()
        return [event.reason for event in stage.cluster.events if event.reason.startswith("Service")]

    assert turn(10, has_sink=True) == []
    assert turn(29, has_sink=False) == []
    assert turn(30, has_sink=False) == ["ServiceGone"]
    assert turn(30, has_sink=True) == ["ServiceBack"]


def test_a_service_whose_standby_speaks_is_not_absent():
    stage = Stage(ScalingLimits(workers_max=4), needs=("sink",))
    for _ in range(100):
        fields = {"wall_ms": stage.bench.clock.wall_ms()}
        stage.bench.shared.put({key("q", "status", name): fields for name in ("pojoin-0", "pojoin-1", "sink.b")})
        stage.turn()
    assert [event for event in stage.cluster.events if event.reason == "ServiceGone"] == []


def test_without_the_store_no_service_is_reported_absent():
    stage = Stage(ScalingLimits(workers_max=4), needs=("sink",))
    stage.turn(seconds=100)
    stage.bench.store.scan = lambda _: (_ for _ in ()).throw(StoreUnavailable("gone"))
    stage.cluster.events.clear()
    stage.turn(seconds=100)
    assert [event for event in stage.cluster.events if event.reason.startswith("Service")] == []


# --- pods that a lost node holds


def held(service="pojoin-1", due_s=1_000.0, *, is_evicted=True):
    return LeavingPod(f"work-{service}", "uid", service, int(1000 * due_s), is_evicted)


def watched(*services, seconds=1, **settings):
    """A stage whose services report until now, and those of `services` no more."""
    stage = Stage(ScalingLimits(workers_max=4, **settings), needs=("sink",))
    stage.due_s = stage.bench.clock.wall_ms() / 1000
    stage.report = lambda: stage.bench.shared.put(
        {
            key("q", "status", name): {"wall_ms": stage.bench.clock.wall_ms()}
            for name in ("sink", "pojoin-0", "pojoin-1")
            if name not in services
        }
    )
    for _ in range(seconds):
        stage.report()
        stage.turn()
    return stage


def replaced(stage):
    return [event.message for event in stage.cluster.events if event.reason == "PodReplaced"]


def test_a_pod_driven_out_of_a_lost_node_is_replaced_at_once():
    stage = watched("pojoin-1", seconds=2)
    stage.cluster.held = [held(due_s=stage.due_s + 30)]
    stage.turn()
    assert stage.cluster.held == []
    assert replaced(stage) == ["work-pojoin-1, which a lost node holds, is deleted: another pod takes its number"]
    steps = stage.bench.world.metrics.scale_steps
    assert value_of(steps.labels("replace")) == 1


def test_a_pod_that_still_reports_ends_in_its_own_time():
    stage = watched("sink", seconds=2)
    stage.cluster.held = [held(due_s=stage.due_s + 30)]
    stage.turn()
    assert replaced(stage) == []
    stage.turn(seconds=30)
    assert replaced(stage) == []
    stage.turn(seconds=5)
    assert len(replaced(stage)) == 1


def test_a_pod_that_is_deleted_on_purpose_has_its_time():
    stage = watched("pojoin-1", seconds=2)
    stage.cluster.held = [held(due_s=stage.due_s + 10, is_evicted=False)]
    stage.turn(seconds=10)
    assert replaced(stage) == []
    stage.turn(seconds=5)
    assert len(replaced(stage)) == 1


def test_without_the_store_only_the_time_to_end_counts():
    stage = Stage(ScalingLimits(workers_max=4))
    stage.bench.store.scan = lambda _: (_ for _ in ()).throw(StoreUnavailable("gone"))
    stage.cluster.held = [held(due_s=stage.bench.clock.wall_ms() / 1000 + 30)]
    stage.turn(seconds=35)
    assert replaced(stage) == []
    stage.turn(seconds=10)
    assert len(replaced(stage)) == 1


def test_while_all_report_it_rarely_looks():
    stage = watched(seconds=20)
    assert stage.cluster.looks == 2
    stage = watched("sink", seconds=20)
    assert stage.cluster.looks == 20


def test_workers_inside_a_shared_process_are_not_expected_as_services():
    stage = watched("pojoin-0", seconds=40, inside=1)
    assert [event for event in stage.cluster.events if event.reason == "ServiceGone"] == []
    assert stage.cluster.looks == 4


def test_the_load_of_a_shared_process_is_that_of_the_workers_inside():
    stage = Stage(ScalingLimits(4, is_autoscaling=True, scale_max=3, up_after_s=5, inside=1), replicas=1)
    for second in range(20):
        fields = {"wall_ms": stage.bench.clock.wall_ms(), "cpu_s": second, "lag": 0, "pid": 7}
        stage.bench.shared.put({key("q", "status", "together"): fields})
        stage.turn()
    assert stage.cluster.replicas == 2


def test_workers_inside_stay_however_idle_they_are():
    limits = ScalingLimits(4, is_autoscaling=True, scale_max=3, down_after_s=5, inside=2)
    stage = Stage(limits, replicas=2)
    for _ in range(30):
        fields = {"wall_ms": stage.bench.clock.wall_ms(), "cpu_s": 0, "lag": 0, "pid": 7}
        stage.bench.shared.put({key("q", "status", "pojoin+sink"): fields})
        stage.turn()
    assert stage.cluster.replicas == 2
    assert stage.cluster.events == []


def test_the_metric_of_steps_knows_each_kind_from_the_start():
    assert {STEP_KINDS[kind] for kind in get_args(Step)} == set(SCALE_STEPS)
