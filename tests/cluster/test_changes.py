"""What an upgrade changes on a real cluster: the pods that read it, never the number of workers; and a rotated Secret.

Known rows are sent and checked by `helm test` after each step.
"""

import base64
import subprocess
import time

import pytest

from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run

#: Time for the controller to act, if it were to.
SETTLE_S = 15
CACHE = "cache-address"
SERVED = "app.kubernetes.io/component notin (kafka, redis, load, check-query, test)"


@pytest.fixture(scope="module")
def kept(namespace):
    """A release whose Redis' address is in a Secret."""
    release = Cluster("kept")
    secret("create", release, database=0)
    release.helm("install", release.name, CHART, *values(release), "--timeout", "120s")
    release.make_topics()
    release.wait_ready()
    yield release
    release.helm("uninstall", release.name, "--wait", "--timeout", "120s")
    eventually(lambda: not release.left(), 120, release.left)


def values(release, **extra):
    return release.values(**{"redis.existingSecret": CACHE, **extra})


def secret(verb, release, *, database):
    url = f"redis://{release.full}-redis:6379/{database}"
    if verb == "create":
        run("kubectl", "create", "secret", "generic", CACHE, "--namespace", NAMESPACE, f"--from-literal=url={url}")
    else:
        data = f'{{"data":{{"url":"{base64.b64encode(url.encode()).decode()}"}}}}'
        run("kubectl", "patch", "secret", CACHE, "--namespace", NAMESPACE, "--patch", data)


def uids(release):
    """Of the pods, by component."""
    found = {}
    for pod in release.pods(SERVED):
        found.setdefault(pod.metadata.labels["app.kubernetes.io/component"], set()).add(pod.metadata.uid)
    return found


def answers_rows(release):
    said = release.helm("test", release.name, "--timeout", "150s")
    assert "200 known rows were answered, each once, in order and right" in said.stdout + said.stderr


def test_the_controller_sets_the_first_number_of_workers(kept):
    eventually(lambda: kept.workers() == 2, 60, kept.workers)
    kept.wait_ready()
    answers_rows(kept)


def test_a_number_that_a_person_sets_outlives_upgrades_rollbacks_and_syncs(kept, measured):
    kept.scale_workers(3)
    eventually(lambda: "LayoutGrown" in kept.events(), 120, kept.events)
    kept.helm("upgrade", kept.name, CHART, *values(kept, **{"settings.linger_ms": 3}), "--timeout", "120s")
    stays(kept, 3)
    kept.helm("rollback", kept.name, "1", "--timeout", "120s")
    stays(kept, 3)
    sync(kept, **{"settings.linger_ms": 4})
    stays(kept, 3)
    run("kubectl", "rollout", "restart", "--namespace", NAMESPACE, f"deployment/{kept.full}-controller")
    stays(kept, 3)
    answers_rows(kept)
    measured["workers after kubectl scale to 3, upgrade, rollback, sync and a new controller"] = kept.workers()


def test_another_value_is_set_once_more(kept):
    changed = values(kept, **{"pojoin.replicas": 1})
    kept.helm("upgrade", kept.name, CHART, *changed, "--timeout", "120s")
    eventually(lambda: kept.workers() == 1, 60, kept.workers)
    kept.scale_workers(2)
    stays(kept, 2)
    answers_rows(kept)


def stays(release, workers):
    release.wait_ready()
    time.sleep(SETTLE_S)
    release.wait_ready()
    assert release.workers() == workers


def sync(release, **extra):
    """As Argo CD does: what helm template renders, without hooks, is applied."""
    hookless = ["--no-hooks", *values(release, **extra)]
    rendered = release.helm("template", release.name, CHART, "--validate", *hookless).stdout
    run("kubectl", "apply", "--namespace", NAMESPACE, "--filename", "-", said=rendered)


def test_a_changed_setting_restarts_the_pods_that_read_it(kept):
    kept.wait_ready()
    before = uids(kept)
    changed = values(kept, **{"pojoin.replicas": 1, "settings.linger_ms": 5})
    kept.helm("upgrade", kept.name, CHART, *changed, "--timeout", "120s")
    eventually(lambda: not uids(kept).get("router", before["router"]) & before["router"], 60, lambda: uids(kept))
    kept.wait_ready()
    after = uids(kept)
    assert {name for name in before if before[name] != after[name]} == {"router"}


def test_a_rotated_secret_starts_the_services_again(kept, measured):
    kept.wait_ready()
    before, began = restarts(kept), time.monotonic()
    secret("patch", kept, database=1)
    eventually(lambda: all(restarts(kept)[pod] > count for pod, count in before.items()), 240, lambda: restarts(kept))
    kept.wait_ready()
    measured["seconds until all services have a rotated Secret"] = round(time.monotonic() - began, 1)
    eventually(lambda: "spojoin:" in keys(kept, 1), 60, lambda: keys(kept, 1))
    answers_rows(kept)


def restarts(release):
    return {
        pod.metadata.name: sum(each.restart_count for each in pod.status.container_statuses)
        for pod in release.pods(SERVED)
    }


def keys(release, database):
    """Names of keys in Redis."""
    command = ["kubectl", "exec", "--namespace", NAMESPACE, f"deployment/{release.full}-redis", "--"]
    return subprocess.run(
        [*command, "redis-cli", "-n", str(database), "KEYS", "*"], capture_output=True, text=True, check=False
    ).stdout
