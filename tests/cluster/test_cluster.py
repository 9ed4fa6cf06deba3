"""From install to uninstall on a real cluster: nothing that is done to a release changes a result.

The tests run in this order. Campaigns recompute every probe by a nested loop over what was sent.
"""

import json
import time

import pytest
from release import CHART, NAMESPACE, RELEASE, TAG

#: Rights of who breaks things.
CHAOS_RIGHTS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "chaos"}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "chaos"},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
                {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "chaos"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "chaos"},
            "subjects": [{"kind": "ServiceAccount", "name": "chaos", "namespace": NAMESPACE}],
        },
    ],
}


def campaign(name, *, first, seconds, kinds, every):
    """A Job that sends rows, breaks things, and compares all results. Its rows begin at number `first`."""
    full = f"{RELEASE}-spojoin"
    arguments = [
        "chaos", "--workload", "q3", "--query", "/etc/spojoin/query/query.yaml", "--where", "kubernetes",
        "--namespace", NAMESPACE, "--release", RELEASE, "--delete-broker", "--partitions", "2", "--stall", "180s",
        "--rate", "500", "--first", str(first), "--duration", f"{seconds}s", "--every", f"{every}s", "--kinds", kinds,
    ]  # fmt: skip
    container = {
        "name": "chaos",
        "image": f"spojoin:{TAG}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/opt/spojoin/bin/python", "-m", "loadgen"],
        "args": arguments,
        "env": [
            {"name": "SPOJOIN_BOOTSTRAP_SERVERS", "value": f"{full}-kafka:9092"},
            {"name": "SPOJOIN_REDIS_URL", "value": f"redis://{full}-redis:6379/0"},
        ],
        "volumeMounts": [{"name": "query", "mountPath": "/etc/spojoin/query"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    labels = {"app.kubernetes.io/name": "spojoin", "app.kubernetes.io/instance": RELEASE}
    pod = {
        "serviceAccountName": "chaos",
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "query", "configMap": {"name": f"{full}-query"}}, {"name": "tmp", "emptyDir": {}}],
    }
    labels["app.kubernetes.io/component"] = "chaos"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def start(cluster, job):
    cluster.kubectl("apply", "--filename", "-", text=json.dumps(job))


def outcome(cluster, name, timeout_s=600):
    """What a campaign printed, once it has ended well."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        status = json.loads(cluster.kubectl("get", "job", name, "--output", "json"))["status"]
        if status.get("succeeded"):
            return cluster.kubectl("logs", f"job/{name}")
        assert not status.get("failed"), cluster.kubectl("logs", f"job/{name}", "--tail", "60")
        time.sleep(2)
    raise AssertionError(cluster.kubectl("logs", f"job/{name}", "--tail", "60"))


def test_a_wrong_query_is_refused_with_its_sentence(cluster, tmp_path):
    query = (CHART / "files/demo-query.yaml").read_text().replace("l.power", "l.powr")
    (tmp_path / "query.yaml").write_text(query)
    wrong = ["--set-file", f"query={tmp_path / 'query.yaml'}", "--timeout", "90s"]
    done = cluster.helm("install", RELEASE, CHART, *cluster.values(), *wrong, check=False)
    said = done.stdout + done.stderr + cluster.kubectl("logs", f"job/{RELEASE}-spojoin-check-query")
    cluster.helm("uninstall", RELEASE)
    assert done.returncode != 0
    assert "unknown column of stream racks 'powr'" in said


def test_wrong_values_are_refused_with_a_sentence(cluster):
    done = cluster.helm("install", RELEASE, CHART, *cluster.values(**{"pojoin.replicas": 0}), check=False)
    assert done.returncode != 0
    assert "pojoin" in done.stderr
    assert "replicas" in done.stderr


def test_an_install_becomes_ready(cluster):
    cluster.helm("install", RELEASE, CHART, *cluster.values(shareProcessNamespace="true"), "--timeout", "120s")
    cluster.kubectl("apply", "--filename", "-", text=json.dumps(CHAOS_RIGHTS))
    start(cluster, campaign("calm", first=0, seconds=15, kinds="redis", every=5))
    said = outcome(cluster, "calm")
    assert "divergences" in said
    cluster.wait_ready()


def test_known_rows_come_out_right(cluster):
    done = cluster.helm("test", RELEASE, "--timeout", "150s")
    said = done.stdout + done.stderr
    assert "200 known rows were answered, each once, in order and right" in said


def test_deleted_pods_change_nothing(cluster):
    start(cluster, campaign("deletions", first=10_000, seconds=150, kinds="delete,broker,redis", every=6))
    outcome(cluster, "deletions")
    cluster.wait_ready()


@pytest.mark.parametrize("workers", [1, 3, 2, 4])
def test_rescaling_in_mid_stream_changes_nothing(cluster, workers):
    name = f"workers-{workers}"
    start(cluster, campaign(name, first=100_000 * workers, seconds=60, kinds="redis", every=20))
    time.sleep(10)
    cluster.kubectl("scale", f"statefulset/{RELEASE}-spojoin-pojoin", f"--replicas={workers}")
    outcome(cluster, name)
    cluster.wait_ready()


def test_upgrade_and_rollback_in_mid_stream_change_nothing(cluster):
    start(cluster, campaign("upgrade", first=1_000_000, seconds=120, kinds="redis", every=30))
    time.sleep(10)
    settings = cluster.values(**{"shareProcessNamespace": "true", "settings.frame_tuples": "2048"})
    cluster.helm("upgrade", RELEASE, CHART, *settings, "--wait", "--timeout", "180s")
    cluster.helm("rollback", RELEASE, "--wait", "--timeout", "180s")
    outcome(cluster, "upgrade")
    cluster.wait_ready()


def test_uninstall_leaves_nothing(cluster):
    cluster.helm("uninstall", RELEASE, "--wait", "--timeout", "120s")
    deadline = time.monotonic() + 120
    kinds = "pods,services,deployments,statefulsets,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets"
    while time.monotonic() < deadline:
        found = cluster.objects(f"{kinds},persistentvolumeclaims")
        left = [o for o in found if o["metadata"]["labels"]["app.kubernetes.io/component"] != "chaos"]
        if not left:
            return
        time.sleep(1)
    raise AssertionError([f"{o['kind']}/{o['metadata']['name']}" for o in left])
