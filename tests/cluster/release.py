"""A release on the cluster that KUBECONFIG names.

Environment:
  SPOJOIN_TEST_IMAGE, SPOJOIN_TEST_DEV_IMAGE, SPOJOIN_TEST_SPARK_IMAGE   default spojoin:dev and so on
  SPOJOIN_TEST_LOAD_COMMAND   run before the tests with the three images behind it, where nodes can't pull them:
                              `kind load docker-image --name spojoin`
  SPOJOIN_TEST_NAMESPACE      default spojoin-test; made and removed
  SPOJOIN_TEST_STORAGE_CLASS  default: the cluster's own
  SPOJOIN_TEST_FIX_PERMISSIONS=1   where the storage ignores fsGroup
"""

import json
import os
import shlex
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from kubernetes import client, config, dynamic, utils

CHART = Path(__file__).parents[2] / "helm/spojoin"
NAMESPACE = os.environ.get("SPOJOIN_TEST_NAMESPACE", "spojoin-test")
IMAGE, DEV_IMAGE, SPARK_IMAGE = (
    os.environ.get(f"SPOJOIN_TEST_{kind}IMAGE", f"spojoin{suffix}:dev")
    for kind, suffix in (("", ""), ("DEV_", "-dev"), ("SPARK_", "-spark"))
)
#: Kept by Kubernetes itself, or by what watches the cluster.
NOT_OURS = ("Event", "EndpointSlice", "Endpoints", "ControllerRevision", "ReplicaSet", "PodMetrics")
#: What a drain moves; broker and Redis are deleted all the while.
SERVICES = "router,mutable,permutation,pojoin,logical-and,sink,controller"
POLL_S = 0.5


def run(*command, timeout_s=300, check=True, said=None):
    """Run the command; `said` is its standard input."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout_s, check=False, input=said
    )
    if check:
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done


def load_images():
    if command := os.environ.get("SPOJOIN_TEST_LOAD_COMMAND"):
        run(*shlex.split(command), IMAGE, DEV_IMAGE, SPARK_IMAGE, timeout_s=900)


@contextmanager
def shared_servers(name, **values):
    """A broker and a Redis that releases share, as the release `name` would have them; yields their Cluster."""
    cluster = Cluster(name)
    shown = ["--show-only", "templates/development.yaml", *cluster.values(**values)]
    manifests = run("helm", "template", "--validate", name, CHART, "--namespace", NAMESPACE, *shown).stdout
    run("kubectl", "apply", "--namespace", NAMESPACE, "--filename", "-", said=manifests)
    try:
        cluster.wait_ready()
        yield cluster
    finally:
        run("kubectl", "delete", "--namespace", NAMESPACE, "--filename", "-", said=manifests)


def eventually(look, timeout_s, what):
    """What `look` finds, as soon as it finds something; on timeout, `what` describes the state."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(POLL_S)
    raise AssertionError(what())


class Cluster:
    """Helm and Kubernetes' API in one namespace, for the release `name`."""

    def __init__(self, name):
        config.load_kube_config()
        self.name = name
        self.full = f"{name}-spojoin"
        self.selector = f"app.kubernetes.io/instance={name}"
        self._api = client.ApiClient()
        self._core, self._apps = client.CoreV1Api(self._api), client.AppsV1Api(self._api)
        self._batch = client.BatchV1Api(self._api)

    def helm(self, verb, *arguments, **options):
        return run("helm", verb, "--namespace", NAMESPACE, *arguments, **options)

    def values(self, **extra):
        image, dev_image, spark_image = (name.rpartition(":") for name in (IMAGE, DEV_IMAGE, SPARK_IMAGE))
        values = {
            "image.repository": image[0],
            "image.tag": image[2],
            "devImage.repository": dev_image[0],
            "devImage.tag": dev_image[2],
            "sparkImage.repository": spark_image[0],
            "sparkImage.tag": spark_image[2],
            "demo.enabled": "true",
            "demo.load": "false",
            "devKafka.fixPermissions": str(bool(os.environ.get("SPOJOIN_TEST_FIX_PERMISSIONS"))).lower(),
            **extra,
        }
        if storage := os.environ.get("SPOJOIN_TEST_STORAGE_CLASS"):
            values["devKafka.persistence.storageClassName"] = storage
        return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]

    def make_topics(self, component="sink"):
        """Make the topics in a component's pod, as an operator does before the first row; one partition of input."""
        command = ["spojoin", "topics", "/etc/spojoin/query/query.yaml", "--partitions", "1"]
        sink = ["kubectl", "exec", "--namespace", NAMESPACE, f"deployment/{self.full}-{component}", "--", *command]
        eventually(lambda: run(*sink, check=False).returncode == 0, 120, lambda: run(*sink, check=False).stderr)

    # --- objects ------------------------------------------------------------------------------------------------------

    def apply(self, *manifests):
        for manifest in manifests:
            utils.create_from_dict(self._api, manifest, namespace=NAMESPACE)

    def scale_workers(self, replicas):
        self._apps.patch_namespaced_stateful_set_scale(
            f"{self.full}-pojoin", NAMESPACE, {"spec": {"replicas": replicas}}
        )

    def workers(self):
        """The number of PO-Join workers requested."""
        return self._apps.read_namespaced_stateful_set(f"{self.full}-pojoin", NAMESPACE).spec.replicas

    def events(self):
        """Reasons of the events about the PO-Join workers."""
        chosen = f"involvedObject.name={self.full}-pojoin"
        return [event.reason for event in self._core.list_namespaced_event(NAMESPACE, field_selector=chosen).items]

    def pods(self, selector=""):
        wanted = f"{self.selector},{selector}".strip(",")
        return self._core.list_namespaced_pod(NAMESPACE, label_selector=wanted).items

    def drain(self, timeout_s=240, services=SERVICES):
        """Evict each pod of the services as a node drain does, within the disruption budgets."""
        for pod in self.pods(f"app.kubernetes.io/component in ({services})"):
            eventually(lambda name=pod.metadata.name: self._evict(name), timeout_s, self._pod_states)

    def _evict(self, pod):
        """Whether the pod is on its way out."""
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=NAMESPACE))
        try:
            self._core.create_namespaced_pod_eviction(pod, NAMESPACE, eviction)
        except client.ApiException as error:
            if error.status == 429:  # the disruption budget refuses for now
                return False
            if error.status != 404:
                raise
        return True

    def wait_ready(self, timeout_s=180):
        """Wait until every requested pod is ready and no other is terminating."""
        eventually(self._is_ready, timeout_s, self._pod_states)

    def _is_ready(self):
        sets = self._apps.list_namespaced_stateful_set(NAMESPACE, label_selector=self.selector).items
        sets += self._apps.list_namespaced_deployment(NAMESPACE, label_selector=self.selector).items
        pods = [pod for pod in self.pods() if pod.status.phase not in ("Succeeded", "Failed")]
        return len(pods) == sum(each.spec.replicas for each in sets) and all(map(is_ready, pods))

    def _pod_states(self):
        return [(pod.metadata.name, pod.status.phase, is_ready(pod)) for pod in self.pods()]

    def left(self):
        """`kind/name` of every object with the release's labels, of any kind that can be listed."""
        found = []
        resources = dynamic.DynamicClient(self._api).resources.search()
        for resource in resources:
            if not getattr(resource, "namespaced", False) or "list" not in (resource.verbs or ()):
                continue
            if resource.kind.endswith("List") or resource.kind in NOT_OURS:
                continue
            items = resource.get(namespace=NAMESPACE, label_selector=self.selector).items
            found += [f"{resource.kind}/{item.metadata.name}" for item in items]
        return found

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def chart_job(self, name, timeout_s=300, args=(), file=None, **values):
        """What one of the chart's own Jobs printed, once it has succeeded; `values` adds to its arguments."""
        values = {f"jobs.{name}.{key}": value for key, value in {"enabled": "true", **values}.items()}
        said = ["--set-string", f"jobs.{name}.args={{{','.join(map(str, args))}}}"] if args else []
        said += ["--set-json", f"jobs.{name}.file={json.dumps(file)}"] if file else []
        self.helm("upgrade", self.name, CHART, *self.values(**values), *said)
        return self.ended_job(f"job-{name}", timeout_s)

    def ended_job(self, component, timeout_s):
        """What the only Job of a component printed, once it has succeeded."""
        selector = f"{self.selector},app.kubernetes.io/component={component}"
        (job,) = self._batch.list_namespaced_job(NAMESPACE, label_selector=selector).items
        eventually(lambda: self._has_succeeded(job.metadata.name), timeout_s, lambda: self.logs(job.metadata.name))
        return self.logs(job.metadata.name)

    def job(self, name, arguments):
        """A load generator Job that knows the release's Kafka, Redis and query, and outlives upgrades."""
        env = {
            "SPOJOIN_BOOTSTRAP_SERVERS": f"{self.full}-kafka:9092",
            "SPOJOIN_REDIS_URL": f"redis://{self.full}-redis:6379/0",
        }
        container = {
            "name": "loadgen",
            "image": SPARK_IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/opt/spojoin/bin/python", "-m", "loadgen"],
            "args": [str(part) for part in arguments],
            "env": [{"name": key, "value": value} for key, value in env.items()],
            "resources": {"limits": {"memory": "2Gi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "query", "mountPath": "/etc/spojoin/query"},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }
        pod = {
            "serviceAccountName": "chaos",
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": "query", "configMap": {"name": f"{self.full}-query"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }
        labels = {"app.kubernetes.io/component": "chaos"}
        self.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name},
                "spec": {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}},
            }
        )

    def outcome(self, name, timeout_s=600):
        """What a Job printed, once it has succeeded; the Job is removed."""
        eventually(lambda: self._has_succeeded(name), timeout_s, lambda: self.logs(name)[-6000:])
        said = self.logs(name)
        self._batch.delete_namespaced_job(name, NAMESPACE, propagation_policy="Foreground")
        eventually(lambda: not self._exists(name), timeout_s, lambda: f"job {name} is still there")
        return said

    def _exists(self, job):
        chosen = f"metadata.name={job}"
        return bool(self._batch.list_namespaced_job(NAMESPACE, field_selector=chosen).items)

    def _has_succeeded(self, name):
        status = self._batch.read_namespaced_job_status(name, NAMESPACE).status
        assert not status.failed, self.logs(name)[-6000:]
        return bool(status.succeeded)

    def is_running(self, job):
        """Whether a Job has not ended yet."""
        return bool(self._batch.read_namespaced_job_status(job, NAMESPACE).status.active)

    def logs(self, job):
        pods = self._core.list_namespaced_pod(NAMESPACE, label_selector=f"job-name={job}").items
        return "".join(self._log(pod.metadata.name) for pod in pods)

    def _log(self, pod):
        # Undecoded: the client would print a JSON document as Python does.
        return self._core.read_namespaced_pod_log(pod, NAMESPACE, _preload_content=False).data.decode()


def is_ready(pod):
    conditions = pod.status.conditions or []
    is_true = any(each.type == "Ready" and each.status == "True" for each in conditions)
    return is_true and pod.metadata.deletion_timestamp is None
