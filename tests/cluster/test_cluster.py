"""From install to uninstall on a real cluster: nothing done to a release changes a result.

The tests run in this order. First one release is left undisturbed, then another gets the same rows while everything is
done to it; the SHA-256 of both outputs, and that of the definition, must be the same. Every probe is recomputed by
a nested loop over what was sent.
"""

import json
import re
import shlex
import time

import pytest

from tests.cluster.release import CHART, NAMESPACE, Cluster, eventually, run
from tests.support.pages import Page

ROWS = 210_000
#: The undisturbed release gets its rows quickly, the other slowly enough to cover all faults.
QUICK_ROWS_A_SECOND, SLOW_ROWS_A_SECOND = 15_000, 500
DISTURBED_S = ROWS // SLOW_ROWS_A_SECOND
FAULT_EVERY_S = 12
#: Between two steps of rescaling and upgrading.
STEP_S = 30
QUERY = "/etc/spojoin/query/query.yaml"


@pytest.fixture(scope="session")
def calm(namespace):
    return Cluster("calm")


@pytest.fixture(scope="session")
def proof(namespace):
    return Cluster("proof")


@pytest.fixture(scope="session")
def digests():
    """SHA-256 of output and definition, by release."""
    return {}


def rows_at(rate):
    """ROWS rows to one partition."""
    return {"rate": rate, "duration": f"{ROWS // rate}s", "rows": {"partitions": 1}}


def campaign(cluster, *, kinds, **settings):
    """The Job that sends rows, does what `kinds` says, and compares all results."""
    pods = {"namespace": NAMESPACE, "release": cluster.name, "delete_broker": True, "delete_redis": True}
    place = {"where": "kubernetes", "pods": pods, "services": {"query": QUERY}}
    faults = {"kinds": kinds, "every": f"{FAULT_EVERY_S}s", "stall": "180s"}
    cluster.job("rows", ["chaos", json.dumps({"workload": "q3", **place, **faults, **settings})])


def digests_in(said):
    found = re.search(r"sha256 of the output (\w{64})\s+sha256 of the definition (\w{64})", said)
    assert found, said
    return found.groups()


def verdict_in(said):
    """The JSON object that the check prints."""
    return json.loads(said[said.index("{") : said.rindex("}") + 1])


def recoveries_in(said):
    """The table's rows: `fault  times  survived  median  slowest`."""
    found = re.findall(r"│ ([A-Za-z][^│]*?) +│ +(\d+) │ +(\d+) │ +([\d.]+) │ +([\d.]+) │", said)
    return {fault: [float(number) for number in numbers] for fault, *numbers in found}


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_wrong_values_are_refused_with_a_sentence(calm):
    done = calm.helm("install", calm.name, CHART, *calm.values(**{"pojoin.replicas": 0}), check=False)
    assert done.returncode != 0
    assert "pojoin" in done.stderr
    assert "replicas" in done.stderr


# --- undisturbed ------------------------------------------------------------------------------------------------------


def test_an_install_answers_rows(calm, measured):
    began = time.monotonic()
    calm.helm("install", calm.name, CHART, *calm.values(), "--timeout", "120s")
    done = calm.helm("test", calm.name, "--timeout", "150s")
    said = done.stdout + done.stderr
    assert "200 known rows were answered, each once, in order and right" in said
    measured["seconds from install to known rows answered"] = round(time.monotonic() - began, 1)
    calm.wait_ready()
    calm.helm("uninstall", calm.name, "--wait", "--timeout", "120s")
    eventually(lambda: not calm.left(), 120, calm.left)


def test_an_undisturbed_release_is_exact(calm, digests):
    calm.helm("install", calm.name, CHART, *calm.values(), "--timeout", "120s")
    calm.make_topics()
    calm.wait_ready()
    campaign(calm, kinds="none", **rows_at(QUICK_ROWS_A_SECOND))
    digests["calm"] = digests_in(calm.outcome("rows"))
    assert digests["calm"][0] == digests["calm"][1]


def test_one_deployment_says_whether_the_query_is_well(calm):
    """As kubectl wait, Argo CD and Flux read it."""
    page = f"deployment/{calm.full}-page"
    wait = ["kubectl", "--namespace", NAMESPACE, "wait", page, "--timeout=60s"]
    scale = ["kubectl", "--namespace", NAMESPACE, "scale", f"deployment/{calm.full}-sink"]
    check = ["kubectl", "--namespace", NAMESPACE, "exec", page, "--", "spojoin", "status"]
    check += ["/etc/spojoin/query/query.yaml", "--check"]
    run(*wait, "--for=condition=Available")
    assert "all services run that results need" in run(*check).stdout
    run(*scale, "--replicas=0")
    run(*wait, "--for=condition=Available=false")
    done = run(*check, check=False)
    assert (done.returncode, "sink is gone" in done.stdout) == (1, True)
    run(*scale, "--replicas=1")
    run(*wait, "--for=condition=Available")


def test_conditions_say_whether_the_query_is_accepted_and_runs(calm):
    """They stay while the Deployment's own controller writes others; a new pod of the controller goes on."""
    controller = f"deployment/{calm.full}-controller"
    kubectl = ["kubectl", "--namespace", NAMESPACE]
    wait = [*kubectl, "wait", controller, "--timeout=60s"]
    for kind in ("Accepted", "Running"):
        run(*wait, f"--for=condition={kind}")
    run(*kubectl, "scale", f"deployment/{calm.full}-sink", "--replicas=0")
    run(*wait, "--for=condition=Running=false")
    assert message_of(calm, "Running") == "sink is gone: results wait for it"
    run(*kubectl, "rollout", "restart", controller)
    run(*kubectl, "rollout", "status", controller, "--timeout=60s")
    assert "sink" in message_of(calm, "Running")
    assert message_of(calm, "Available")
    run(*kubectl, "scale", f"deployment/{calm.full}-sink", "--replicas=1")
    run(*wait, "--for=condition=Running")
    run(*wait, "--for=condition=Accepted")
    assert "records of the inputs wait; oldest unanswered row:" in message_of(calm, "Running")


def test_commands_of_the_runbook_run_as_they_stand(calm):
    """Those that look, and those that a release survives: a pod deleted for good, and the number of workers."""
    sink = next(each.metadata.name for each in calm.pods("app.kubernetes.io/component=sink"))
    node = run("kubectl", "get", "nodes", "--output", "jsonpath={.items[0].metadata.name}").stdout
    places = {"NAMESPACE": NAMESPACE, "RELEASE": calm.name, "POD": sink, "NODE": node, "N": "2", "REVISION": "1"}
    page = Page(CHART / "RUNBOOK.md", (CHART / "RUNBOOK.md").read_text())
    found = [line for line in dict.fromkeys(page.commands(places)) if re.match("(kubectl|helm) ", line)]
    unsafe = ("taint", "delete node", "--previous", "upgrade", "uninstall", "servicemonitor")
    chosen = [line for line in found if not any(part in line for part in unsafe)]
    assert len(chosen) >= 12
    for line in sorted(chosen, key=lambda line: " delete pod " in line):  # the pod's name is another's afterwards
        run(*shlex.split(line))
    calm.wait_ready()


def message_of(cluster, kind):
    path = f'{{.status.conditions[?(@.type=="{kind}")].message}}'
    found = ["get", f"deployment/{cluster.full}-controller", "--output", f"jsonpath={path}"]
    return run("kubectl", "--namespace", NAMESPACE, *found).stdout


def test_rows_from_spark_are_checked_complete_by_spark(calm, measured):
    args = ["--workload", "q3", "--rate", 2_000, "--duration", "10s"]
    calm.chart_job("produce", viaSpark="true", args=args, file={"rows": {"first": ROWS, "format": "json"}})
    time.sleep(10)  # the check needs services at rest
    verdict = verdict_in(calm.chart_job("check"))
    assert verdict["completeness"] == 1
    assert verdict["is_exact"]
    assert verdict["tuples"] == verdict["probes_checked"] == ROWS + 20_000
    measured["rows of the undisturbed release checked by Spark"] = verdict["tuples"]


def test_pods_meet_the_restricted_standard(calm):
    # When asked to enforce the standard, Kubernetes warns of each pod that violates it.
    label = "pod-security.kubernetes.io/enforce=restricted"
    said = run("kubectl", "label", "--dry-run=server", "--overwrite", "namespace", NAMESPACE, label).stderr
    warned = [line for line in said.splitlines() if calm.full in line]
    # Where storage ignores fsGroup, root hands the development broker its volume.
    assert [line for line in warned if f"{calm.full}-kafka" not in line] == []


def test_the_autoscaler_follows_its_measurements_and_changes_no_result(calm):
    rows = {"first": 2 * ROWS, "partitions": 1}
    campaign(calm, kinds="none", rate=SLOW_ROWS_A_SECOND, duration="150s", rows=rows, sample=20_000)
    # Thresholds that every worker exceeds, then none does, however busy the machine is.
    autoscale(calm, cpu_high=0.002, cpu_low=0.001)
    eventually(lambda: calm.workers() == 3, 180, lambda: (calm.workers(), calm.events()))
    autoscale(calm, cpu_high=64, cpu_low=63, lag_high=1_000_000)
    eventually(lambda: calm.workers() == 1, 180, lambda: (calm.workers(), calm.events()))
    assert {"ScaledUp", "LayoutGrown", "ScaledDown", "LayoutShrunk"} <= set(calm.events())
    calm.outcome("rows")


def autoscale(cluster, **thresholds):
    """Upgrade to these thresholds, which the load needs to cross for a few seconds only."""
    quick = {
        f"settings.scale_{name}": value for name, value in {**thresholds, "up_after_s": 3, "down_after_s": 5}.items()
    }
    scaling = {"controller.autoscale.enabled": "true", "controller.autoscale.maxReplicas": 3}
    cluster.helm("upgrade", cluster.name, CHART, *cluster.values(**quick, **scaling), "--timeout", "120s")


def test_uninstall_removes_all_of_the_undisturbed_release(calm):
    calm.helm("uninstall", calm.name, "--wait", "--timeout", "120s")
    eventually(lambda: not calm.left(), 120, calm.left)


# --- disturbed --------------------------------------------------------------------------------------------------------


def test_deletions_rescaling_upgrades_and_a_drain_change_nothing(proof, digests, measured):
    proof.helm("install", proof.name, CHART, *proof.values(), "--timeout", "120s")
    proof.make_topics()
    proof.wait_ready()
    campaign(proof, kinds="delete,broker,redis", **rows_at(SLOW_ROWS_A_SECOND))
    for workers in (1, 3, 2, 4):
        time.sleep(STEP_S)
        proof.scale_workers(workers)
    time.sleep(STEP_S)
    changed = proof.values(**{"pojoin.replicas": 4, "mutable.replicas": 3, "settings.frame_tuples": "2048"})
    proof.helm("upgrade", proof.name, CHART, *changed, "--timeout", "120s")
    time.sleep(STEP_S)
    proof.helm("rollback", proof.name, "--timeout", "120s")
    time.sleep(STEP_S)
    proof.drain()
    assert proof.is_running("rows"), "rows ended before all was done: raise ROWS"
    said = proof.outcome("rows", DISTURBED_S + 300)
    digests["proof"] = digests_in(said)
    verdict_line = re.search(r"(\d+) of (\d+) faults survived, divergences \(0\)", " ".join(said.split()))
    assert verdict_line, said
    survived, faults = map(int, verdict_line.groups())
    assert survived == faults >= 20
    counts = "workers went 2, 1, 3, 2, 4 and joiners 2, 3, 2"
    what = f"{counts}, the release was upgraded and rolled back, and its pods were drained"
    measured[f"faults survived, while {what}"] = faults
    measured["recovered in, by fault (times, survived, median s, slowest s)"] = recoveries_in(said)
    proof.wait_ready()


def test_both_outputs_equal_the_definition(digests):
    assert len({*digests["calm"], *digests["proof"]}) == 1


def test_uninstall_removes_all_of_the_disturbed_release(proof):
    proof.helm("uninstall", proof.name, "--wait", "--timeout", "120s")
    eventually(lambda: not proof.left(), 120, proof.left)
