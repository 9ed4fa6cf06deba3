"""A release's query is changed while rows flow: refused before anything is disturbed, or taken over with no row lost.

Nor does a row get lost where the change comes by a rollback, by an apply without hooks, or from another release.

Rows are numbered and come from one partition, so each is answered at its number: by the old query up to the one where
it stopped, by the new one from there on, both as a nested loop over all that was sent.
"""

import json
import time

import numpy as np
import pytest

from spojoin.protocol.topology import SHARED, Topic, topic_name
from tests.cluster.flow import PROBE, Flow, answers, follow
from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, is_ready, run
from tests.support.readings import query_text

NAME = "changing"
WINDOW, SLIDE = 500, 50
NEW_WINDOW, NEW_SLIDE = 400, 100
OLD = query_text(NAME, WINDOW, SLIDE)
NEW = OLD.replace("l.cooling >= r.cooling", "l.cooling < r.cooling").replace(
    f"INTERVAL '{SLIDE}' ON '{WINDOW}'", f"INTERVAL '{NEW_SLIDE}' ON '{NEW_WINDOW}'"
)
#: Longer than a fenced router waits to be ended before it ends itself.
SETTLE_S = 30
FEW_PODS = {
    "pojoin.replicas": 1,
    "page.enabled": "false",
    "settings.frame_tuples": "64",
    "settings.batch_tuples": "200",
}


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
    flow = Flow(cluster, NAME)
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


def following(cluster):
    """As pods_of, of the services that serve what the router announces, and that no test deletes."""
    kinds = tuple(f"{cluster.full}-{kind}" for kind in ("mutable", "permutation", "pojoin", "logical-and"))
    return {name: count for name, count in pods_of(cluster).items() if name.startswith(kinds)}


def settled(cluster):
    """As pods_of, once that has been the same for longer than a router waits that another one has fenced (P15)."""
    seen = []

    def is_settled():
        cluster.wait_ready()
        found, now = pods_of(cluster), time.monotonic()
        if not seen or seen[-1][1] != found:
            seen.append((now, found))
        return now - seen[-1][0] > SETTLE_S

    eventually(is_settled, 240, lambda: pods_of(cluster))
    return seen[-1][1]


def test_a_changed_query_is_refused_and_the_release_goes_on(changing, tmp_path):
    cluster, flow = changing
    before, answered = pods_of(cluster), flow.answered(1)
    done = upgrade(cluster, tmp_path, check=False)
    assert done.returncode != 0
    said = " ".join((done.stdout + done.stderr).split())
    assert f"query '{NAME}' is not the one that is served under this name, generation 1: " in said
    assert "--set query.replace=true" in said
    # The hook's pod may outlive its job for a moment; a pod that was replaced or restarted would differ for good.
    eventually(lambda: pods_of(cluster) == before, 60, lambda: pods_of(cluster))
    eventually(lambda: flow.answered(1) > answered + WINDOW, 60, flow.messages)


def test_a_changed_query_takes_over_while_rows_flow_and_pods_are_deleted(changing, tmp_path):
    cluster, flow = changing
    before = following(cluster)
    upgrade(cluster, tmp_path, "--set", "query.replace=true")
    delete(cluster, "router")
    eventually(lambda: "changing.generation.frames.2" in flow.topics(), 180, flow.topics)
    delete(cluster, "sink")
    delete(cluster, "router")
    eventually(lambda: flow.answered(2) > NEW_WINDOW, 180, lambda: flow.messages()[-1:])
    assert following(cluster) == before, "a changed query restarts none of those that follow the router"


def test_a_rollback_across_queries_is_refused_and_the_release_goes_on(changing):
    cluster, flow = changing
    before, answered = settled(cluster), flow.answered(2)
    done = cluster.helm("rollback", NAME, "1", "--timeout", "120s", check=False)
    assert done.returncode != 0
    eventually(lambda: pods_of(cluster) == before, 60, lambda: pods_of(cluster))
    eventually(lambda: flow.answered(2) > answered + NEW_WINDOW, 60, flow.messages)
    history = json.loads(cluster.helm("history", NAME, "--output", "json").stdout)
    assert history[-1]["status"] == "pending-rollback", "Helm takes no upgrade meanwhile"
    (running,) = (each["revision"] for each in history if each["status"] == "deployed")
    cluster.helm("rollback", NAME, str(running), "--timeout", "120s")
    eventually(lambda: pods_of(cluster) == before, 60, lambda: pods_of(cluster))


def test_an_apply_without_hooks_replaces_pods_and_no_query(changing, tmp_path):
    """As `helm template | kubectl apply`, and as a rollback that runs no hooks."""
    cluster, flow = changing
    (tmp_path / "old.yaml").write_text(OLD)
    given = [*cluster.values(**FEW_PODS), "--set-file", f"query={tmp_path / 'old.yaml'}", "--no-hooks"]
    manifest = cluster.helm("template", NAME, CHART, "--validate", *given).stdout
    before, answered = pods_of(cluster), flow.answered(2)
    run("kubectl", "apply", "--namespace", NAMESPACE, "--filename", "-", said=manifest)
    eventually(lambda: not set(before) & {name for name in pods_of(cluster) if "router" in name}, 120, cluster.pods)
    cluster.wait_ready()
    eventually(lambda: flow.answered(2) > answered + NEW_WINDOW, 120, flow.messages)
    said = run("kubectl", "logs", "--namespace", NAMESPACE, f"deployment/{cluster.full}-router").stdout
    assert "query not accepted" in said
    assert "--set query.replace=true" in said
    (tmp_path / "new.yaml").write_text(NEW)
    upgrade(cluster, tmp_path)
    cluster.wait_ready()


def test_another_release_of_the_name_is_refused_and_harms_nobody(changing, tmp_path):
    cluster, flow = changing
    stranger = Cluster("stranger")
    (tmp_path / "new.yaml").write_text(NEW)
    kafka = {"demo.enabled": "false", "kafka.bootstrapServers": f"{cluster.full}-kafka:9092"}
    redis = {"redis.url": f"redis://{cluster.full}-redis:6379/0", "query.replace": "true"}
    given = [*stranger.values(**FEW_PODS, **kafka, **redis), "--set-file", f"query.text={tmp_path / 'new.yaml'}"]
    before, answered = pods_of(cluster), flow.answered(2)
    done = stranger.helm("install", "stranger", CHART, *given, "--timeout", "120s", check=False)
    assert done.returncode != 0
    assert f"belongs to {NAMESPACE}/{NAME} on this Kafka" in " ".join((done.stdout + done.stderr).split())
    stranger.helm("uninstall", "stranger", "--wait", "--timeout", "120s", check=False)
    stranger.helm("install", "stranger", CHART, *given, "--no-hooks", "--timeout", "120s")
    eventually(lambda: flow.answered(2) > answered + 2 * NEW_WINDOW, 120, flow.messages)
    waiting = stranger.pods("app.kubernetes.io/component=router")
    assert waiting
    assert not any(is_ready(pod) for pod in waiting)
    stranger.helm("uninstall", "stranger", "--wait", "--timeout", "120s")
    assert pods_of(cluster) == before


def test_each_row_was_answered_once_whatever_was_done(changing):
    cluster, flow = changing
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
