"""A release with numbered rows that flow through it, which is moved and struck; at the end every result is checked."""

from contextlib import contextmanager

import numpy as np

from tests.cluster.flow import PROBE, Flow, answers, follow
from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run
from tests.support.readings import query_text

WINDOW, SLIDE = 500, 50
SMALL = {"settings.frame_tuples": "64", "settings.batch_tuples": "200", "mutable.replicas": 1}
#: Not a service of the query.
BESIDE = {"page", "kafka", "redis", "check-query"}
FORCED = ("--force", "--grace-period=0")


class Stage:
    """A release with rows flowing through it."""

    def __init__(self, cluster, query_file, **values):
        self.cluster, self.flow = cluster, Flow(cluster, cluster.name)
        self._values = {**SMALL, **values}
        self._query = ["--set-file", f"query.text={query_file}"]

    def helm(self, verb, **values):
        given = [*self.cluster.values(**{**self._values, **values}), *self._query]
        self.cluster.helm(verb, self.cluster.name, CHART, *given, "--timeout", "120s")

    def begin(self, topics_by):
        self.cluster.apply(PROBE)
        self.cluster.make_topics(topics_by)
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
        return found - BESIDE

    def move(self, services, **values):
        """Upgrade; Helm removes the old processes, and results go on."""
        self.helm("upgrade", **values)
        eventually(lambda: self.components() == services, 300, lambda: (services, self.components()))
        self.cluster.wait_ready(300)
        assert self.components() == services
        self.goes_on()

    def strike(self, component, *how):
        """Delete all pods of a component."""
        chosen = f"{self.cluster.selector},app.kubernetes.io/component={component}"
        run("kubectl", "delete", "pod", "--namespace", NAMESPACE, "--selector", chosen, "--wait=false", *how)

    def strike_one(self, component):
        """Delete the first pod of a component at once."""
        pod, *_ = sorted(pod.metadata.name for pod in self.cluster.pods(f"app.kubernetes.io/component={component}"))
        run("kubectl", "delete", "pod", pod, "--namespace", NAMESPACE, "--wait=false", *FORCED)

    def end(self):
        """Check every result against the definition."""
        sent = self.flow.stop()
        eventually(lambda: self.flow.answered(1) >= sent, 180, lambda: (sent, self.flow.messages()[-1:]))
        messages = self.flow.messages()
        follow(messages)
        found = [row for *_, rows in messages for row in rows]
        assert found == list(answers(range(sent), WINDOW, SLIDE, np.greater_equal))


@contextmanager
def staged(name, folder, topics_by, **values):
    """A release that is installed with these values, its topics made in the pod of the component `topics_by`."""
    cluster = Cluster(name)
    (folder / "query.yaml").write_text(query_text(name, WINDOW, SLIDE))
    stage = Stage(cluster, folder / "query.yaml", **values)
    stage.helm("install")
    stage.begin(topics_by)
    yield stage
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod", "probe")
    cluster.helm("uninstall", name, "--wait", "--timeout", "120s")
    eventually(lambda: not cluster.left(), 120, cluster.left)
