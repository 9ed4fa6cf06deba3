"""The Kubernetes client against a server that answers as the API server does."""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from kubernetes import client

from spojoin.errors import ConfigurationError
from spojoin.roles.controller import kubernetes_cluster
from spojoin.roles.controller.cluster import ClusterUnavailable, Event, LeavingPod, ReplicaCounts, StatusCondition
from spojoin.roles.controller.kubernetes_cluster import KubernetesCluster, connect

STATEFULSET = "/apis/apps/v1/namespaces/ns/statefulsets/work-pojoin"


class ApiServer(http.server.ThreadingHTTPServer):
    """Records requests, and answers from `answers` by (method, path)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict | None]] = []
        self.kinds: list[str | None] = []
        self.answers: dict[tuple[str, str], tuple[int, dict]] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    server: ApiServer

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path, body))
        self.server.kinds.append(self.headers.get("Content-Type"))
        status, answer = self.server.answers.get((self.command, self.path), (404, {"kind": "Status"}))
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PATCH = do_POST = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server():
    running = ApiServer()
    thread = threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def cluster_at(server, *statefulsets, inside=0, once=None):
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
    configuration.retries = False
    return KubernetesCluster(client.ApiClient(configuration), "ns", statefulsets, inside, once)


@pytest.fixture
def cluster(server):
    return cluster_at(server, "work-pojoin")


NOTES = "/api/v1/namespaces/ns/configmaps/work-pojoin"


def noted(mark):
    return {"kind": "ConfigMap", **({} if mark is None else {"data": {"set-once": mark}})}


def as_uid(uid, replicas):
    return {**statefulset(replicas), "metadata": {"uid": uid}}


@pytest.mark.parametrize("mark", [None, "3 of u-2", "2 of u-1"])
def test_the_first_number_is_set_and_noted_where_a_statefulset_has_not_got_it(server, mark):
    """It has none yet, another StatefulSet got it, or it got another number."""
    server.answers["GET", STATEFULSET] = 200, as_uid("u-1", 1)
    server.answers["GET", NOTES] = 200, noted(mark)
    server.answers["PATCH", f"{STATEFULSET}/scale"] = 200, {}
    server.answers["PATCH", NOTES] = 200, {}
    cluster = cluster_at(server, "work-pojoin", once=3)
    cluster.workers()
    cluster.workers()
    patches = [(path, body) for method, path, body in server.asked if method == "PATCH"]
    assert patches == [(f"{STATEFULSET}/scale", {"spec": {"replicas": 3}}), (NOTES, {"data": {"set-once": "3 of u-1"}})]


def test_a_number_that_was_set_once_is_somebody_elses_from_then_on(server):
    server.answers["GET", STATEFULSET] = 200, as_uid("u-1", 5)
    server.answers["GET", NOTES] = 200, noted("3 of u-1")
    assert cluster_at(server, "work-pojoin", once=3).workers().replicas == 5
    assert [method for method, _, _ in server.asked] == ["GET", "GET"]


def test_a_number_that_could_not_be_noted_is_set_again(server):
    server.answers["GET", STATEFULSET] = 200, as_uid("u-1", 1)
    server.answers["GET", NOTES] = 200, noted(None)
    server.answers["PATCH", f"{STATEFULSET}/scale"] = 200, {}
    server.answers["PATCH", NOTES] = 403, {"kind": "Status"}
    cluster = cluster_at(server, "work-pojoin", once=3)
    with pytest.raises(ClusterUnavailable, match="allow patch on configmaps"):
        cluster.workers()
    server.answers["PATCH", NOTES] = 200, {}
    cluster.workers()
    assert [path for method, path, _ in server.asked if method == "PATCH"] == [f"{STATEFULSET}/scale", NOTES] * 2


def test_workers_inside_count_for_the_first_number_and_standbys_get_it_too(server):
    for name in ("work-pojoin", "work-pojoin-b"):
        path = STATEFULSET.replace("work-pojoin", name)
        server.answers["GET", path] = 200, as_uid(name, 2)
        server.answers["PATCH", f"{path}/scale"] = 200, {}
    server.answers["GET", NOTES] = 200, noted(None)
    server.answers["PATCH", NOTES] = 200, {}
    cluster_at(server, "work-pojoin", "work-pojoin-b", inside=1, once=3).workers()
    scaled = {path: body for method, path, body in server.asked if path.endswith("/scale")}
    assert list(scaled.values()) == [{"spec": {"replicas": 2}}] * 2


def test_where_all_workers_are_inside_none_is_set(server):
    assert cluster_at(server, "work-pojoin", inside=1, once=1).workers() == ReplicaCounts(1, 1)
    assert [method for method, _, _ in server.asked] == ["GET"]


def statefulset(replicas, **status):
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": replicas, "selector": {}, "serviceName": "s", "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec, "status": {"replicas": replicas, **status}}


def test_replicas_and_ready_replicas_are_read(server, cluster):
    server.answers["GET", STATEFULSET] = 200, statefulset(3, readyReplicas=2)
    assert cluster.workers() == ReplicaCounts(3, 2)
    server.answers["GET", STATEFULSET] = 200, statefulset(3)
    assert cluster.workers() == ReplicaCounts(3, 0)


def test_the_scale_is_patched_and_nothing_else(server, cluster):
    server.answers["PATCH", f"{STATEFULSET}/scale"] = 200, {"kind": "Scale", "spec": {"replicas": 5}}
    cluster.scale(5)
    assert server.asked == [("PATCH", f"{STATEFULSET}/scale", {"spec": {"replicas": 5}})]


def test_workers_inside_a_shared_process_count_and_stay(server):
    server.answers["GET", STATEFULSET] = 200, statefulset(2, readyReplicas=1)
    server.answers["PATCH", f"{STATEFULSET}/scale"] = 200, {"kind": "Scale", "spec": {"replicas": 5}}
    cluster = cluster_at(server, "work-pojoin", inside=3)
    assert cluster.workers() == ReplicaCounts(5, 4)
    cluster.scale(4)
    cluster.scale(1)
    scaled = [body["spec"]["replicas"] for verb, _, body in server.asked if verb == "PATCH"]
    assert scaled == [1, 0]


def test_where_all_workers_are_inside_there_is_no_statefulset(server):
    assert cluster_at(server, "work-pojoin", inside=2).workers() == ReplicaCounts(2, 2)


def test_standbys_follow_the_first_instances(server):
    server.answers["GET", STATEFULSET] = 200, statefulset(3, readyReplicas=1)
    server.answers["GET", f"{STATEFULSET}-b"] = 200, statefulset(4, readyReplicas=4)
    server.answers["PATCH", f"{STATEFULSET}-b/scale"] = 200, {"kind": "Scale", "spec": {"replicas": 3}}
    cluster = cluster_at(server, "work-pojoin", "work-pojoin-b")
    assert cluster.workers() == ReplicaCounts(3, 3)
    assert server.asked[-1] == ("PATCH", f"{STATEFULSET}-b/scale", {"spec": {"replicas": 3}})
    server.answers["GET", f"{STATEFULSET}-b"] = 200, statefulset(3, readyReplicas=2)
    server.asked.clear()
    assert cluster.workers() == ReplicaCounts(3, 2)
    assert [verb for verb, *_ in server.asked] == ["GET", "GET"]


PODS = "/api/v1/namespaces/ns/pods"
LIST = f"{PODS}?labelSelector=app.kubernetes.io/component%20in%20%28pojoin%2C%20pojoin-b%29"


def pod(name, deleted=None, reason=None):
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}] if reason else []
    about = {"name": name, "uid": f"uid of {name}"} | ({"deletionTimestamp": deleted} if deleted else {})
    return {"metadata": about, "spec": {"containers": [{"name": "c"}]}, "status": {"conditions": conditions}}


def test_pods_that_leave_are_those_of_the_release_with_a_number(server, cluster):
    leaves = "1970-01-01T00:01:00Z"
    found = [
        pod("work-pojoin-10", leaves, "DeletionByTaintManager"),
        pod("work-pojoin-b-0", leaves, "PreemptionByScheduler"),
        pod("work-pojoin-2", leaves),
        pod("work-pojoin-1"),
        pod("other-pojoin-1", leaves),
        pod("work-kafka-0", leaves),
    ]
    server.answers["GET", LIST] = 200, {"kind": "PodList", "items": found}
    assert cluster.leaving() == [
        LeavingPod("work-pojoin-10", "uid of work-pojoin-10", "pojoin-10", 60_000, is_evicted=True),
        LeavingPod("work-pojoin-b-0", "uid of work-pojoin-b-0", "pojoin-0.b", 60_000, is_evicted=False),
        LeavingPod("work-pojoin-2", "uid of work-pojoin-2", "pojoin-2", 60_000, is_evicted=False),
    ]


def test_pods_that_may_not_be_listed_hold_nothing_up(server, cluster):
    server.answers["GET", LIST] = 403, {"kind": "Status"}
    assert cluster.leaving() == []


HELD = LeavingPod("work-pojoin-1", "7", "pojoin-1", 0, is_evicted=True)


def test_a_pod_is_replaced_without_waiting_and_only_that_one(server, cluster):
    server.answers["DELETE", f"{PODS}/work-pojoin-1"] = 200, pod("work-pojoin-1")
    cluster.replace(HELD)
    ((_, _, body),) = server.asked
    assert body == {"gracePeriodSeconds": 0, "preconditions": {"uid": "7"}}


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_has_gone_by_itself_is_left_alone(server, cluster, status):
    server.answers["DELETE", f"{PODS}/work-pojoin-1"] = status, {"kind": "Status"}
    cluster.replace(HELD)


def test_a_pod_that_may_not_be_deleted_says_what_to_allow(server, cluster):
    server.answers["DELETE", f"{PODS}/work-pojoin-1"] = 403, {"kind": "Status"}
    with pytest.raises(ClusterUnavailable, match="allow delete on pods in the Role"):
        cluster.replace(HELD)


def test_an_event_names_the_statefulset_and_the_reason(server, cluster):
    path = "/api/v1/namespaces/ns/events"
    server.answers["POST", path] = 201, {"kind": "Event", "metadata": {}, "involvedObject": {}}
    cluster.report(Event("ScaledUp", "from 1 to 2 workers: why", is_warning=True))
    ((_, _, body),) = server.asked
    assert (body["reason"], body["message"], body["type"]) == ("ScaledUp", "from 1 to 2 workers: why", "Warning")
    target = body["involvedObject"]
    assert (target["kind"], target["name"], target["namespace"]) == ("StatefulSet", "work-pojoin", "ns")
    assert body["metadata"]["generateName"] == "work-pojoin."


OWN = "/apis/apps/v1/namespaces/ns/deployments/work-controller/status"


def deployment(*conditions):
    template = {"metadata": {}, "spec": {"containers": [{"name": "c"}]}}
    return {"kind": "Deployment", "spec": {"selector": {}, "template": template}, "status": {"conditions": conditions}}


def test_conditions_are_merged_into_those_of_the_controllers_own_deployment(server, cluster):
    """By their type, so that others stay; the time of a transition is that of another status alone."""
    earlier = {"type": "Running", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    server.answers["GET", OWN] = 200, deployment({"type": "Available", "status": "True"}, earlier)
    server.answers["PATCH", OWN] = 200, deployment()
    cluster.tell(
        [StatusCondition("Accepted", False, "NotAccepted", "why"), StatusCondition("Running", True, "Running", "all")]
    )
    cluster.tell([StatusCondition("Running", None, "StoreAway", "Redis")])
    assert [verb for verb, *_ in server.asked] == ["GET", "PATCH", "PATCH"]
    assert server.kinds[1:] == ["application/strategic-merge-patch+json"] * 2
    accepted, running = server.asked[1][2]["status"]["conditions"]
    told = {"type": "Accepted", "status": "False", "reason": "NotAccepted", "message": "why"}
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), accepted["lastUpdateTime"])
    assert accepted == told | times
    assert "lastTransitionTime" not in running
    (unknown,) = server.asked[2][2]["status"]["conditions"]
    assert (unknown["status"], "lastTransitionTime" in unknown) == ("Unknown", True)


def test_conditions_that_may_not_be_told_say_what_to_allow(server, cluster):
    server.answers["GET", OWN] = 403, {"kind": "Status"}
    with pytest.raises(ClusterUnavailable, match="allow get on deployments/status in the Role"):
        cluster.tell([StatusCondition("Running", True, "Running", "all")])


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "allow get on statefulsets in the Role"), (404, "correct the settings"), (500, "500")]
)
def test_a_refusal_suggests_a_remedy(server, cluster, status, advice):
    server.answers["GET", STATEFULSET] = status, {"kind": "Status"}
    with pytest.raises(ClusterUnavailable, match=advice):
        cluster.workers()


def test_a_refused_event_delays_nothing(server, cluster):
    cluster.report(Event("ScaledUp", "why"))
    assert len(server.asked) == 1


def test_an_unreachable_server_can_be_retried(server, cluster):
    server.shutdown()
    server.server_close()
    with pytest.raises(ClusterUnavailable, match="does not answer to get statefulsets of ns/work-pojoin"):
        cluster.workers()


def test_outside_a_cluster_it_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="run the controller in a pod, or set KUBECONFIG"):
        connect("ns", "work-pojoin")
    monkeypatch.setattr(kubernetes_cluster.config, "load_incluster_config", lambda: None)
    monkeypatch.setattr(kubernetes_cluster, "NAMESPACE_FILE", tmp_path / "none")
    with pytest.raises(ConfigurationError, match="SPOJOIN_NAMESPACE"):
        connect(None, "work-pojoin")
