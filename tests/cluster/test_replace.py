"""A release's query is changed while rows flow: refused before anything is disturbed, or taken over with no row lost.

Rows are numbered and come from one partition, so each is answered at its number: by the old query up to the one where
it stopped, by the new one from there on, both as a nested loop over all that was sent.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from spojoin.protocol.topology import SHARED, Topic, topic_name
from tests.cluster import rows_in_cluster
from tests.cluster.release import CHART, IMAGE, NAMESPACE, Cluster, eventually, run
from tests.support.readings import query_text

NAME = "changing"
ROWS_A_SECOND = 150
WINDOW, SLIDE = 500, 50
NEW_WINDOW, NEW_SLIDE = 400, 100
OLD = query_text(NAME, WINDOW, SLIDE)
NEW = OLD.replace("l.cooling >= r.cooling", "l.cooling < r.cooling").replace(
    f"INTERVAL '{SLIDE}' ON '{WINDOW}'", f"INTERVAL '{NEW_SLIDE}' ON '{NEW_WINDOW}'"
)
FEW_PODS = {
    "pojoin.replicas": 1,
    "predictor.enabled": "false",
    "page.enabled": "false",
    "settings.frame_tuples": "64",
    "settings.batch_tuples": "200",
}
PROBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "labels": {"app.kubernetes.io/component": "chaos"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "probe",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sleep", "infinity"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    },
}
SCRIPT = Path(rows_in_cluster.__file__).read_text()


class Flow:
    """Feeds rows and reads results through a pod beside the release."""

    def __init__(self, cluster):
        self._bootstrap = f"{cluster.full}-kafka:9092"
        self._feed = None

    def command(self, *arguments):
        """A command that reads its program from standard input."""
        python = ["/opt/spojoin/bin/python", "-", *arguments]
        return ["kubectl", "exec", "--stdin", "--namespace", NAMESPACE, "probe", "--", *map(str, python)]

    def start(self):
        command = self.command("feed", self._bootstrap, "in.readings", ROWS_A_SECOND)
        self._feed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._feed.stdin.write(SCRIPT)
        self._feed.stdin.close()

    def stop(self):
        """Stop sending; returns the number of rows sent."""
        run("kubectl", "exec", "--namespace", NAMESPACE, "probe", "--", "touch", "/tmp/stop")
        said = self._feed.stdout.read()
        assert self._feed.wait() == 0
        return int(said)

    def messages(self):
        """All results: generation, frame, begin, end, whether it is the frame's last, rows."""
        said = run(*self.command("results", self._bootstrap, f"{NAME}.results"), said=SCRIPT).stdout
        return [json.loads(line) for line in said.splitlines()]

    def answered(self, generation):
        return sum(len(rows) for number, *_, rows in self.messages() if number == generation)

    def topics(self):
        return set(json.loads(run(*self.command("topics", self._bootstrap), said=SCRIPT).stdout))


@pytest.fixture(scope="module")
def changing(namespace, tmp_path_factory):
    """A release given its query as text alone, with rows flowing through it."""
    cluster, folder = Cluster(NAME), tmp_path_factory.mktemp("queries")
    (folder / "old.yaml").write_text(OLD)
    given = [*cluster.values(**FEW_PODS), "--set-file", f"query={folder / 'old.yaml'}"]
    cluster.helm("install", NAME, CHART, *given, "--timeout", "120s")
    cluster.apply(PROBE)
    cluster.make_topics()
    cluster.wait_ready()
    run("kubectl", "wait", "--namespace", NAMESPACE, "pod/probe", "--for", "condition=Ready", "--timeout", "60s")
    flow = Flow(cluster)
    flow.start()
    eventually(lambda: flow.answered(1) > WINDOW, 120, lambda: flow.messages()[-1:])
    yield cluster, flow
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod", "probe")
    cluster.helm("uninstall", NAME, "--wait", "--timeout", "120s")
    eventually(lambda: not cluster.left(), 120, cluster.left)


def upgrade(cluster, folder, *more, **options):
    (folder / "new.yaml").write_text(NEW)
    query = ["--reuse-values", "--set-file", f"query.text={folder / 'new.yaml'}", *more]
    return cluster.helm("upgrade", NAME, CHART, *query, "--timeout", "120s", **options)


def pods_of(cluster):
    """Each pod's name and how often its container was restarted."""
    return {pod.metadata.name: pod.status.container_statuses[0].restart_count for pod in cluster.pods()}


def test_a_changed_query_is_refused_and_the_release_goes_on(changing, tmp_path):
    cluster, flow = changing
    before, answered = pods_of(cluster), flow.answered(1)
    done = upgrade(cluster, tmp_path, check=False)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert f"query '{NAME}' is not the one that is served under this name, generation 1: " in said
    assert "--set query.replace=true" in said
    assert pods_of(cluster) == before
    eventually(lambda: flow.answered(1) > answered + WINDOW, 60, flow.messages)


def test_a_changed_query_takes_over_while_rows_flow_and_pods_are_deleted(changing, tmp_path):
    cluster, flow = changing
    upgrade(cluster, tmp_path, "--set", "query.replace=true")
    delete(cluster, "router")
    eventually(lambda: "changing.generation.frames.2" in flow.topics(), 180, flow.topics)
    delete(cluster, "sink")
    delete(cluster, "router")
    eventually(lambda: flow.answered(2) > NEW_WINDOW, 180, lambda: flow.messages()[-1:])
    sent = flow.stop()
    eventually(lambda: flow.answered(1) + flow.answered(2) >= sent, 120, lambda: (sent, flow.messages()[-1:]))
    check(flow.messages(), sent)
    earlier = {topic_name(NAME, topic) for topic in Topic if topic not in SHARED}
    eventually(lambda: not flow.topics() & earlier, 60, flow.topics)
    delete(cluster, "controller")  # the controller follows the generation that answers
    cluster.wait_ready()
    assert not flow.topics() & earlier


def delete(cluster, component):
    chosen = f"{cluster.selector},app.kubernetes.io/component={component}"
    run("kubectl", "delete", "pod", "--namespace", NAMESPACE, "--selector", chosen, "--force", "--grace-period=0")


def check(messages, sent):
    """Check that each row is answered once, in order, as a nested loop of its generation's query answers it."""
    follow(messages)
    found = {number: [row for at, *_, rows in messages if at == number for row in rows] for number in (1, 2)}
    stopped = len(found[1])
    assert WINDOW < stopped < sent - NEW_WINDOW
    assert found[1] == list(answers(range(stopped), WINDOW, SLIDE, np.greater_equal))
    assert found[2] == list(answers(range(stopped, sent), NEW_WINDOW, NEW_SLIDE, np.less))


def follow(messages):
    """Check that each message continues where the last one ended; generation two begins with its own frame."""
    expected = (1, 0, 0)
    for generation, frame, begin, end, is_last, rows in messages:
        if generation == 2 and expected[0] == 1:
            assert expected[2] == 0, "the old generation ended within a frame"
            expected = (2, 0, 0)
        assert (generation, frame, begin) == expected
        assert len(rows) <= end - begin
        expected = (generation, frame + 1, 0) if is_last else (generation, frame, end)


def answers(numbers, width, slide, compare):
    """[seq, key, as_left, as_right] of each row, by the definition."""
    every = [rows_in_cluster.row(number) for number in range(numbers.stop)]
    draw, cooling = (np.array([row[name] for row in every]) for name in ("draw", "cooling"))
    for seq in numbers:
        window = slice(max(0, -(-seq // slide) * slide - width), seq)
        as_left = (draw[seq] < draw[window]) & compare(cooling[seq], cooling[window])
        as_right = (draw[window] < draw[seq]) & compare(cooling[window], cooling[seq])
        yield [seq, seq, int(as_left.sum()), int(as_right.sum())]
