"""Every sample query installs on shared servers; a wrong query or setting leaves nothing behind."""

import pytest

from tests.cluster.release import CHART, IMAGE, NAMESPACE, Cluster, eventually, run, shared_servers
from tests.support.sample_queries import sample_queries

#: The other tests install the demo's query.
SAMPLES = {name: text for name, text in sample_queries().items() if name != "demo"}
SERVERS = "servers"
#: A namespace that may use the servers' Kafka, and what a pod does there: a row is sent to the advertised listener.
GUESTS = f"{NAMESPACE}-guests"
SENDING = """
import sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
place = {"bootstrap.servers": sys.argv[1]}
admin = AdminClient(place)  # its answers go with it
admin.create_topics([NewTopic("guests", 1)])["guests"].result(60)
producer = Producer(place)
producer.produce("guests", b"a row")
sys.exit(producer.flush(60))
"""
#: Each role that results need, once; the joiners are as many as the chart has by default.
FEW_PODS = {
    "demo.enabled": "false",
    "kafka.bootstrapServers": f"{SERVERS}-spojoin-kafka:9092",
    "redis.url": f"redis://{SERVERS}-spojoin-redis:6379/0",
    "pojoin.replicas": 1,
    "controller.enabled": "false",
    "page.enabled": "false",
}


@pytest.fixture(scope="module")
def servers(namespace):
    with shared_servers(SERVERS, **{"devKafka.servesNamespaces": f"{{{GUESTS}}}"}) as cluster:
        yield cluster


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_query_installs(servers, tmp_path, name):
    cluster = Cluster(name)
    (tmp_path / "query.yaml").write_text(SAMPLES[name])
    query = ["--set-file", f"query={tmp_path / 'query.yaml'}"]
    cluster.helm("install", name, CHART, *cluster.values(**FEW_PODS), *query, "--timeout", "90s")
    try:
        cluster.make_topics()
        cluster.wait_ready()
    finally:
        cluster.helm("uninstall", name)


def test_a_pod_of_another_namespace_uses_the_broker(servers):
    broker = f"{servers.full}-kafka.{NAMESPACE}.svc:9092"
    run("kubectl", "create", "namespace", GUESTS)
    try:
        sending = ["--command", "--", "/opt/spojoin/bin/python", "-c", SENDING, broker]
        attached = ["--restart=Never", "--attach", "--rm", "--pod-running-timeout=2m"]
        run("kubectl", "run", "guest", "--namespace", GUESTS, "--image", IMAGE, *attached, *sending)
    finally:
        run("kubectl", "delete", "namespace", GUESTS)


def test_they_leave_nothing_behind(servers):
    eventually(lambda: not left(), 120, left)


def left():
    return [each for name in SAMPLES for each in Cluster(name).left()]


@pytest.mark.parametrize(
    ("column", "settings", "sentence"),
    [
        ("l.powr", {}, "line 8, column 6: unknown column of stream racks 'powr'"),
        ("l.power", {"settings.frame_tuples": "abc"}, "setting frame_tuples is 'abc': input should be a valid integer"),
        ("l.power", {"settings.frame_tuplse": "1"}, "SPOJOIN_FRAME_TUPLSE is no setting: did you mean SPOJOIN_FRAME"),
    ],
    ids=["query", "value", "name"],
)
def test_helm_reports_what_is_wrong_and_leaves_nothing_behind(namespace, tmp_path, column, settings, sentence):
    wrong = Cluster("wrong")
    query = (CHART / "files/demo-query.yaml").read_text().replace("l.power", column)
    (tmp_path / "query.yaml").write_text(query)
    given = [*wrong.values(**settings), "--set-file", f"query={tmp_path / 'query.yaml'}", "--timeout", "90s"]
    done = wrong.helm("install", wrong.name, CHART, *given, check=False)
    try:
        assert done.returncode != 0
        assert sentence in done.stdout + done.stderr
        eventually(lambda: not wrong.left(), 30, wrong.left)
    finally:
        wrong.helm("uninstall", wrong.name)
