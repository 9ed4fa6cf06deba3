"""A release whose roles share a process: moved to other packings while rows flow, and struck, it answers as ever.

Rows are numbered and come from one partition, so every result is compared with a nested loop over all that was sent.
"""

import numpy as np
import pytest

from spojoin.runtime.settings import Settings
from tests.cluster.flow import PROBE, Flow, answers, follow
from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run
from tests.support.readings import query_text

NAME = "packed"
WINDOW, SLIDE = 500, 50
SMALL = {"settings.frame_tuples": "64", "settings.batch_tuples": "200", "mutable.replicas": 1}
#: The services of a release, beside its page and its servers.
TOGETHER = {"together"}
GROUPED = {"router-sink", "mutable-logical-and", "permutation", "pojoin", "controller"}
APART = {"router", "mutable", "permutation", "pojoin", "logical-and", "sink", "controller"}


class Stage:
    """A release with rows flowing through it."""

    def __init__(self, cluster, query_file, **values):
        self.cluster, self.flow = cluster, Flow(cluster, NAME)
        self._values = {**SMALL, **values}
        self._query = ["--set-file", f"query.text={query_file}"]

    def helm(self, verb, **values):
        given = [*self.cluster.values(**self._values, **values), *self._query]
        self.cluster.helm(verb, NAME, CHART, *given, "--timeout", "120s")

    def begin(self):
        self.cluster.apply(PROBE)
        self.cluster.make_topics("together")
        self.cluster.wait_ready()
        run("kubectl", "wait", "--namespace", NAMESPACE, "pod/probe", "--for", "condition=Ready", "--timeout", "60s")
        self.flow.start()
        self.goes_on(WINDOW)

    def goes_on(self, rows=WINDOW):
        """Wait until so many more rows are answered."""
        answered = self.flow.answered(1)
        eventually(lambda: self.flow.answered(1) >= answered + rows, 180, lambda: self.flow.messages()[-1:])

    def components(self):
        """Of its pods, without the page and the servers."""
        found = {pod.metadata.labels["app.kubernetes.io/component"] for pod in self.cluster.pods()}
        return found - {"page", "kafka", "redis", "check-query"}

    def move(self, services, **values):
        """Upgrade; Helm removes the old processes, and results go on."""
        self.helm("upgrade", **values)
        eventually(lambda: self.components() == services, 300, lambda: (services, self.components()))
        self.cluster.wait_ready(300)
        assert self.components() == services
        self.goes_on()

    def strike(self, component, *how):
        chosen = f"{self.cluster.selector},app.kubernetes.io/component={component}"
        run("kubectl", "delete", "pod", "--namespace", NAMESPACE, "--selector", chosen, "--wait=false", *how)

    def end(self):
        """Check every result against the definition."""
        sent = self.flow.stop()
        eventually(lambda: self.flow.answered(1) >= sent, 180, lambda: (sent, self.flow.messages()[-1:]))
        messages = self.flow.messages()
        follow(messages)
        found = [row for *_, rows in messages for row in rows]
        assert found == list(answers(range(sent), WINDOW, SLIDE, np.greater_equal))


@pytest.fixture
def stage(namespace, tmp_path, request):
    """A release that is installed together."""
    cluster = Cluster(NAME)
    (tmp_path / "query.yaml").write_text(query_text(NAME, WINDOW, SLIDE))
    stage = Stage(cluster, tmp_path / "query.yaml", **getattr(request, "param", {}))
    stage.helm("install", packing="together")
    stage.begin()
    yield stage
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod", "probe")
    cluster.helm("uninstall", NAME, "--wait", "--timeout", "120s")
    eventually(lambda: not cluster.left(), 120, cluster.left)


FORCED = ("--force", "--grace-period=0")


def test_moves_between_packings_and_deleted_pods_change_no_result(stage):
    assert stage.components() == TOGETHER
    stage.strike("together")
    stage.goes_on()
    stage.move(APART, packing="apart")
    stage.strike("router", *FORCED)
    stage.move(GROUPED, packing="router+sink mutable+logical-and")
    stage.move(TOGETHER, packing="together")
    stage.strike("together", *FORCED)
    stage.goes_on()
    stage.end()


def test_workers_come_and_go_beside_a_shared_process(stage):
    stage.move(
        TOGETHER | {"pojoin", "controller"}, packing="together", **{"pojoin.replicas": 2, "pojoin.maxReplicas": 4}
    )
    for beside in (3, 0, 1):  # one worker is inside
        stage.cluster.scale_workers(beside)
        stage.cluster.wait_ready()
        stage.goes_on()
    assert {"LayoutGrown", "LayoutShrunk"} <= set(stage.cluster.events())
    stage.strike("pojoin", *FORCED)
    stage.goes_on()
    stage.move(TOGETHER, packing="together")
    stage.end()


@pytest.mark.skipif("standbys" not in Settings.model_fields, reason="this version has no standbys")
@pytest.mark.parametrize("stage", [{"standbys": 1}], indirect=True)
def test_standbys_take_over(stage):
    both = {"together", "together-b"}
    assert stage.components() == both
    for struck in ("together", "together-b", "together"):
        stage.strike(struck, *FORCED)
        stage.goes_on()
        stage.cluster.wait_ready()
    # A drain moves one of the two at a time.
    stage.cluster.drain(services="together,together-b")
    stage.goes_on()
    stage.cluster.wait_ready()
    stage.end()
