"""An upgrade of everything, and a replaced query, while rows flow: how long results are silent, and that all is right.

The silences are figures of the report: how long they are depends on what else runs on the cluster.
"""

import time

import numpy as np
import pytest

from tests.cluster.flow import PROBE, Flow, answers, follow
from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run
from tests.support.readings import query_text

WINDOW, SLIDE = 500, 50
NEW_WINDOW, NEW_SLIDE = 400, 100
SMALL = {
    "page.enabled": "false",
    "settings.frame_tuples": "64",
    "settings.batch_tuples": "200",
}
PACKINGS = {"apart": {}, "together": {}, "spare": {"packing": "apart", "standbys": 1}}


class Upgraded:
    """A release with rows flowing through it, whose query is replaced once."""

    def __init__(self, name, folder, values):
        self.name, self.cluster, self.flow = name, Cluster(name), Flow(Cluster(name), name)
        self._values, self._file = {**SMALL, "packing": name, **values}, folder / "query.yaml"
        self._file.write_text(query_text(name, WINDOW, SLIDE))

    def helm(self, verb, **values):
        self._values |= values
        given = [*self.cluster.values(**self._values), "--set-file", f"query.text={self._file}"]
        self.cluster.helm(verb, self.name, CHART, *given, "--timeout", "120s")

    def begin(self):
        self.helm("install")
        self.cluster.apply(PROBE)
        self.cluster.make_topics("together" if self.name == "together" else "sink")
        self.cluster.wait_ready()
        run("kubectl", "wait", "--namespace", NAMESPACE, "pod/probe", "--for", "condition=Ready", "--timeout", "60s")
        self.flow.start()
        self.goes_on(1, 2 * WINDOW)

    def goes_on(self, generation, rows=WINDOW):
        answered = self.flow.answered(generation)
        eventually(lambda: self.flow.answered(generation) >= answered + rows, 240, lambda: self.flow.messages()[-1:])

    def upgrade(self):
        """Every process gets another setting."""
        before = {pod.metadata.uid for pod in self.services()}
        self.helm("upgrade", **{"settings.log_level": "warning"})
        eventually(lambda: not before & {pod.metadata.uid for pod in self.services()}, 300, self.services)
        self.cluster.wait_ready(300)
        self.goes_on(1)

    def services(self):
        others = {"kafka", "redis", "check-query"}
        return [pod for pod in self.cluster.pods() if pod.metadata.labels["app.kubernetes.io/component"] not in others]

    def replace(self):
        text = self._file.read_text().replace("l.cooling >= r.cooling", "l.cooling < r.cooling")
        old, new = f"INTERVAL '{SLIDE}' ON '{WINDOW}'", f"INTERVAL '{NEW_SLIDE}' ON '{NEW_WINDOW}'"
        self._file.write_text(text.replace(old, new))
        self.helm("upgrade", **{"query.replace": "true"})
        self.goes_on(2)
        self.cluster.wait_ready(300)

    def end(self):
        """Check every result against the definition."""
        sent = self.flow.stop()
        eventually(lambda: self.flow.answered(1) + self.flow.answered(2) >= sent, 240, lambda: sent)
        messages = self.flow.messages()
        follow(messages)
        found = {number: [row for at, *_, rows in messages if at == number for row in rows] for number in (1, 2)}
        stopped = len(found[1])
        assert found[1] == list(answers(range(stopped), WINDOW, SLIDE, np.greater_equal))
        assert found[2] == list(answers(range(stopped, sent), NEW_WINDOW, NEW_SLIDE, np.less))


@pytest.fixture(params=PACKINGS)
def upgraded(namespace, tmp_path, request):
    release = Upgraded(request.param, tmp_path, PACKINGS[request.param])
    release.begin()
    yield release
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod", "probe")
    release.cluster.helm("uninstall", release.name, "--wait", "--timeout", "120s")
    eventually(lambda: not release.cluster.left(), 120, release.cluster.left)


def test_upgrades_and_replacements_lose_nothing_and_their_silence_is_measured(upgraded, measured):
    for act in (upgraded.upgrade, upgraded.replace):
        began = time.monotonic()
        with upgraded.flow.silence() as longest:
            act()
        took = round(time.monotonic() - began, 1)
        what = f"{upgraded.name}, {act.__name__}"
        measured[f"{what}: seconds of silence, and until all was well"] = [round(longest[0], 2), took]
    upgraded.end()
