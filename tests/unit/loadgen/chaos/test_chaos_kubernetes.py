"""The driver of pods against a fake API; its signals against processes in a separate PID namespace."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from loadgen.chaos import kubernetes as pods
from loadgen.chaos.kubernetes import KubernetesDriver, PodCluster
from spojoin.errors import ConfigurationError

RELEASE = {"app.kubernetes.io/name": "spojoin", "app.kubernetes.io/instance": "q3"}


def pod(name, component, *, phase="Running", is_ending=False, labels=None):
    metadata = SimpleNamespace(
        name=name,
        uid=f"uid of {name}",
        labels={**(labels or RELEASE), "app.kubernetes.io/component": component},
        deletion_timestamp="now" if is_ending else None,
    )
    return SimpleNamespace(metadata=metadata, status=SimpleNamespace(phase=phase))


class Api:
    """Lists pods by label and deletes them; `refusals` are raised first, one a call."""

    def __init__(self, *found):
        self.pods = list(found)
        self.refusals = []
        self.deleted = []
        self.namespaces = set()

    def _asked(self, namespace):
        self.namespaces.add(namespace)
        if self.refusals:
            raise self.refusals.pop(0)

    def list_namespaced_pod(self, namespace, label_selector):
        self._asked(namespace)
        wanted = dict(part.split("=") for part in label_selector.split(","))
        return SimpleNamespace(items=[p for p in self.pods if wanted.items() <= p.metadata.labels.items()])

    def delete_namespaced_pod(self, name, namespace):
        self._asked(namespace)
        self.pods = [each for each in self.pods if each.metadata.name != name]
        self.deleted.append(name)


class Shell:
    """Records the commands run in pods, and scripts their output."""

    def __init__(self, *answers):
        self.run = []
        self._answers = list(answers)

    def __call__(self, pod, command):
        self.run.append((pod.metadata.name, command))
        return self._answers.pop(0) if self._answers else "struck 1"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(pods, "POLL_S", 0.0)


def driver(api, shell=None, **options):
    cluster = PodCluster("joins", "q3", "app=kafka", options.pop("redis_url", None), **options)
    return KubernetesDriver(api, shell or Shell(), cluster)


def test_targets_are_the_services_pods_by_component():
    api = Api(
        pod("q3-router-x", "router"),
        pod("q3-pojoin-1", "pojoin"),
        pod("q3-pojoin-0", "pojoin"),
        pod("q3-load", "load"),
        pod("q3-sink-old", "sink", is_ending=True),
        pod("q3-sink-new", "sink", phase="Pending"),
        pod("other-router", "router", labels={"app.kubernetes.io/name": "spojoin", "app.kubernetes.io/instance": "q1"}),
    )
    assert driver(api).targets() == ["router-0", "pojoin-0", "pojoin-1"]
    assert api.namespaces == {"joins"}


def test_processes_that_roles_share_and_standbys_are_targets_too():
    components = (
        "kafka",
        "page",
        "job-check",
        "pojoin-b",
        "mutable-logical-and",
        "together-b",
        "router-sink",
        "together",
    )
    api = Api(*(pod(f"q3-{component}-x", component) for component in components))
    wanted = ["router-sink", "mutable-logical-and", "pojoin-b", "together-b", "together"]
    assert driver(api).targets() == [f"{component}-0" for component in wanted]


def test_no_pods_are_a_mistake():
    with pytest.raises(ConfigurationError, match="--release"):
        driver(Api()).targets()


def test_signals_are_sent_from_inside():
    api, shell = Api(pod("a", "sink")), Shell()
    place = driver(api, shell)
    place.kill("sink-0")
    place.pause("sink-0")
    place.resume("sink-0")
    assert [command[-1] for _, command in shell.run] == ["SIGKILL", "SIGSTOP", "SIGCONT"]


def test_the_broker_is_terminated_or_deleted():
    kafka = pod("kafka-0", "kafka", labels={"app": "kafka"})
    api, shell = Api(kafka), Shell()
    driver(api, shell).restart_broker()
    assert shell.run == [("kafka-0", ["sh", "-c", "kill -TERM 1"])]
    driver(api, is_broker_deleted=True).restart_broker()
    assert api.deleted == ["kafka-0"]


# --- the signal itself ------------------------------------------------------------------------------------------------

#: In a separate namespace, signals reach only the processes started there.
ALONE = ["unshare", "--pid", "--fork", "--mount-proc"]


def is_alone_possible():
    return shutil.which("unshare") and not subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode


#: Process 1: starts a process under a given name, signals it as the driver does, and prints its fate.
OUTER = """
import os, subprocess, sys
waiting = "import time; print('up', flush=True); time.sleep(60)"
service = subprocess.Popen([sys.executable, "-c", waiting, os.environ["NAME"]], stdout=subprocess.PIPE)
service.stdout.readline()
script = open(sys.argv[1]).read()
said = subprocess.run([sys.executable, "-c", script, "SIGKILL"], capture_output=True, text=True)
print(said.stdout, said.stderr, "ended" if "struck 1" in said.stdout and service.wait(30) == -9 else "lives")
service.kill()
"""


@pytest.mark.skipif(not is_alone_possible(), reason="needs a PID namespace of its own")
@pytest.mark.parametrize(
    ("name", "process_1", "said"),
    [
        ("spojoin.roles.sink", "init", ("struck 1", "ended")),
        ("/opt/bin/spojoin", "init", ("struck 1", "ended")),
        ("spojoined", "init", ("struck 0", "lives")),
        ("/spojoin/other", "init", ("struck 0", "lives")),
        ("other", "/opt/bin/spojoin", ("is process 1", "lives")),
    ],
)
def test_only_a_services_process_is_signalled(tmp_path, name, process_1, said):
    outer, script = tmp_path / "outer.py", tmp_path / "sent.txt"
    outer.write_text(OUTER)
    script.write_text(pods._SIGNAL)
    command = [*ALONE, sys.executable, outer, script, process_1]
    environment = {**os.environ, "NAME": name}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert all(word in done.stdout for word in said), done.stdout + done.stderr
