"""The chart's Job answers a release's query over a history on a volume, up to a row, as a nested loop does."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cluster import rows_in_cluster
from tests.cluster.flow import answers
from tests.cluster.release import CHART, NAMESPACE, SPARK_IMAGE, Cluster, eventually, run
from tests.support.readings import query_text

NAME = "lake"
CLAIM = "history"
WINDOW, SLIDE = 500, 50
ROWS, UNTIL = 20_000, 15_000
#: A replaced or restarted release isn't what is tested here.
FEW_PODS = {"packing": "together", "controller.enabled": "false", "page.enabled": "false"}
OWNER = 10001
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": CLAIM},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SCRIPT = Path(rows_in_cluster.__file__).read_text()


def desk():
    """A pod with the volume, in which a test reads and writes."""
    mounts = [{"name": "history", "mountPath": "/data"}]
    fix = {
        "name": "owner",
        "image": SPARK_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["chown", str(OWNER), "/data"],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        "volumeMounts": mounts,
    }
    container = {
        "name": "desk",
        "image": SPARK_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "desk"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsUser": OWNER, "fsGroup": OWNER},
            "initContainers": [fix] if os.environ.get("SPOJOIN_TEST_FIX_PERMISSIONS") else [],
            "containers": [container],
            "volumes": [{"name": "history", "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }


def at_desk(*arguments):
    """What the script prints in the pod."""
    inside = ["exec", "--stdin", "--namespace", NAMESPACE, "desk", "--", "/opt/spojoin/bin/python", "-"]
    return run("kubectl", *inside, *arguments, said=SCRIPT).stdout


@pytest.fixture(scope="module")
def lake(namespace, tmp_path_factory):
    """A release, and a volume with a history of what it joins."""
    cluster, folder = Cluster(NAME), tmp_path_factory.mktemp("queries")
    (folder / "query.yaml").write_text(query_text(NAME, WINDOW, SLIDE))
    cluster.apply(VOLUME, desk())
    query = ["--set-file", f"query.text={folder / 'query.yaml'}"]
    cluster.helm("install", NAME, CHART, *cluster.values(**FEW_PODS), *query, "--timeout", "120s")
    run("kubectl", "wait", "--namespace", NAMESPACE, "pod/desk", "--for", "condition=Ready", "--timeout", "120s")
    at_desk("history", "/data/readings", ROWS)
    yield cluster
    cluster.helm("uninstall", NAME, "--wait", "--timeout", "120s")
    run("kubectl", "delete", "--namespace", NAMESPACE, "pod/desk", f"pvc/{CLAIM}")
    eventually(lambda: not cluster.left(), 120, cluster.left)


def backfilled(cluster, **values):
    """Upgrade as the chart's page says, and what the Job printed."""
    given = [part for name, value in values.items() for part in ("--set", f"backfill.{name}={value}")]
    cluster.helm("upgrade", NAME, CHART, "--reuse-values", "--set", "backfill.enabled=true", *given)
    return cluster.ended_job("backfill", timeout_s=300)


def test_the_chart_answers_a_history_up_to_a_row(lake, measured):
    where = {"from.readings": "/data/readings", "orderBy": "id", "until": UNTIL, "output": "/data/matches"}
    said = backfilled(lake, claim=CLAIM, **where)
    found = [json.loads(line) for line in at_desk("matches", "/data/matches").splitlines()]
    expected = answers(range(UNTIL), WINDOW, SLIDE, np.greater_equal)
    assert found == list(expected), said
    measured["rows of a history answered by the chart's Job"] = len(found)


def test_results_that_are_there_are_left_alone_with_a_sentence(lake):
    with pytest.raises(AssertionError, match="/data/matches"):
        backfilled(lake, until=UNTIL + 1)
    assert len(at_desk("matches", "/data/matches").splitlines()) == UNTIL
