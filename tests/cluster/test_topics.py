"""What an uninstall leaves in a Kafka that outlives the release: all topics, or no internal one if asked to."""

import pytest

from tests.cluster.flow import PROBE, Flow
from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run
from tests.support.readings import query_text

SERVERS = "servers"
#: What stays in any case: results and dead letters for whoever reads them, and the users' rows.
KEPT = {"results", "dlq", "readings"}


@pytest.fixture(scope="module")
def servers(namespace):
    """A release whose Kafka and Redis other releases use; it is left when they are uninstalled."""
    cluster = Cluster(SERVERS)
    values = cluster.values(**{"packing": "together", "networkPolicy.enabled": "false", "page.enabled": "false"})
    cluster.helm("install", SERVERS, CHART, *values, "--timeout", "180s")
    cluster.apply(PROBE)
    cluster.make_topics("together")
    cluster.wait_ready()
    run("kubectl", "wait", "--namespace", NAMESPACE, "pod/probe", "--for", "condition=Ready", "--timeout", "60s")
    yield cluster
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod", "probe")
    cluster.helm("uninstall", SERVERS, "--wait", "--timeout", "120s")


@pytest.mark.parametrize("deletes", [False, True])
def test_topics_after_an_uninstall(servers, tmp_path, deletes):
    name = f"leaving-{str(deletes).lower()}"
    cluster, kafka = Cluster(name), Flow(servers, SERVERS)
    (tmp_path / "query.yaml").write_text(query_text(name))
    values = {
        "demo.enabled": "false",
        "kafka.bootstrapServers": f"{servers.full}-kafka:9092",
        "redis.url": f"redis://{servers.full}-redis:6379/0",
        "packing": "together",
        "page.enabled": "false",
        "topics.deleteOnUninstall": str(deletes).lower(),
    }
    given = [*cluster.values(**values), "--set-file", f"query.text={tmp_path / 'query.yaml'}"]
    cluster.helm("install", name, CHART, *given, "--timeout", "120s")
    cluster.make_topics("together")
    cluster.wait_ready()
    before = {topic for topic in kafka.topics() if topic.startswith(f"{name}.")}
    assert {f"{name}.frames", f"{name}.generations", f"{name}.results"} <= before
    cluster.helm("uninstall", name, "--wait", "--timeout", "300s")
    eventually(lambda: not cluster.left(), 120, cluster.left)
    after = {topic for topic in kafka.topics() if topic.startswith(f"{name}.")}
    assert after == ({topic for topic in before if topic.rpartition(".")[2] in KEPT} if deletes else before)
