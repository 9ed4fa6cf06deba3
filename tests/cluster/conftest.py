"""The cluster tests run only on request; they leave their measurements in report/cluster.json."""

import json
from pathlib import Path

import pytest

from tests.cluster.release import NAMESPACE, Cluster, load_images, run

REPORT = Path(__file__).parents[2] / "report/cluster.json"

#: Rights of the account that injects faults.
CHAOS_RIGHTS = (
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
    {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "chaos"},
        "spec": {
            "podSelector": {
                "matchExpressions": [
                    {"key": "app.kubernetes.io/component", "operator": "In", "values": ["kafka", "redis"]}
                ]
            },
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/component": "chaos"}}}]}],
        },
    },
)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-cluster"):
        return
    skip = pytest.mark.skip(reason="needs a cluster: make test-cluster")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def namespace():
    """An empty namespace under the restricted Pod Security Standard, but for what repairs a volume's owner."""
    if run("kubectl", "get", "namespace", NAMESPACE, check=False).returncode == 0:
        pytest.exit(f"an interrupted run has left its namespace: kubectl delete namespace {NAMESPACE}, and again", 2)
    load_images()
    run("kubectl", "create", "namespace", NAMESPACE)
    try:
        Cluster("chaos").apply(*CHAOS_RIGHTS)
        yield NAMESPACE
    finally:
        run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true", timeout_s=300)


@pytest.fixture(scope="session")
def measured():
    """Figures by name; written at the end."""
    found = {}
    yield found
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(found, indent=2) + "\n")
