"""Faults for services that are pods, by the Kubernetes API: pods get, list and delete, pods/exec create.

A container can't kill or stop its own process 1, so these two kinds need pods with `shareProcessNamespace: true` or an
init process.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from loadgen.chaos.driver import flush
from spojoin.errors import ConfigurationError, Retryable
from spojoin.protocol.packing import TOGETHER
from spojoin.protocol.topology import Role

T = TypeVar("T")

#: How long a pod may take to return, including scheduling and pulling its image.
POD_TIMEOUT_S = 120.0
POLL_S = 0.5
_FORBIDDEN, _GONE = (401, 403), (404, 409)

#: A service's component: a role, several roles that share a process, or `together`. A standby's component ends with -b.
_NAMES = (*(role.value for role in Role), TOGETHER)
_SERVICE = re.compile(rf"({'|'.join(_NAMES)})(-({'|'.join(_NAMES)}))*(-b)?")

#: (pod, command) -> the command's output; it runs in the pod's first container.
Execute = Callable[[Any, Sequence[str]], str]

#: Sends a signal to processes of `spojoin` or `python -m spojoin.<role>`, and prints their number.
_SIGNAL = """
import os, signal, sys
number, struck = getattr(signal, sys.argv[1]), 0
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/" + name + "/cmdline", "rb") as file:
            words = file.read().split(b"\\0")
    except OSError:
        continue
    if not any(word.startswith(b"spojoin.") or word.split(b"/")[-1] == b"spojoin" for word in words):
        continue
    if name == "1":
        sys.exit("is process 1")
    struck += 1
    os.kill(int(name), number)
print("struck", struck)
"""


class PodUnavailable(Retryable):
    """No such pod runs or has started in time."""


@dataclass(frozen=True, slots=True)
class PodCluster:
    """The place of the pods.

    broker_selector: labels of Kafka's pods; is_broker_deleted: whether its pod is deleted; otherwise its process 1 gets
    SIGTERM, and the container restarts, which keeps data that goes with the pod
    is_redis_deleted: whether the pod of the release's own Redis is deleted; otherwise Redis is flushed
    """

    namespace: str
    release: str
    broker_selector: str
    redis_url: str | None
    is_broker_deleted: bool = False
    is_redis_deleted: bool = False

    @property
    def selector(self) -> str:
        """Labels of all the release's pods."""
        return f"app.kubernetes.io/name=spojoin,app.kubernetes.io/instance={self.release}"


class KubernetesDriver:
    """Strikes the pods of one release.

    Args:
        api: kubernetes.client.CoreV1Api.
        execute: runs a command in a pod.
        cluster: the place of the pods.

    """

    def __init__(self, api: Any, execute: Execute, cluster: PodCluster) -> None:  # noqa: ANN401  (the client is untyped)
        self._api = api
        self._execute = execute
        self._cluster = cluster
        self._paused: dict[str, Any] = {}

    def targets(self) -> Sequence[str]:
        """`<component>-<number>` for each pod of a service."""
        found = Counter(_component(pod) for pod in self._running(self._cluster.selector))
        components = sorted(filter(_SERVICE.fullmatch, found), key=_place)
        names = [f"{component}-{number}" for component in components for number in range(found[component])]
        if not names:
            raise ConfigurationError(
                f"no pod of a service runs in namespace {self._cluster.namespace} with the labels "
                f"{self._cluster.selector}: check --release and --namespace"
            )
        return names

    def delete(self, target: str) -> None:
        """Delete the pod; its controller makes another."""
        self._insist(target, self._delete)

    def kill(self, target: str) -> None:
        """SIGKILL to the service's process; the container restarts."""
        self._insist(target, lambda pod: self._signal(pod, "SIGKILL"))

    def pause(self, target: str) -> None:
        """SIGSTOP to the service's process."""

        def stop(pod: Any) -> None:  # noqa: ANN401
            self._signal(pod, "SIGSTOP")
            self._paused[target] = pod

        self._insist(target, stop)

    def resume(self, target: str) -> None:
        """SIGCONT, unless the pod is gone by now."""
        pod = self._paused.pop(target, None)
        if pod is not None and self._is_there(pod):
            self._signal(pod, "SIGCONT")

    def restart_broker(self) -> None:
        """Restart one of Kafka's pods."""
        pod = self._wait_for(self._cluster.broker_selector, 0, "Kafka")
        if self._cluster.is_broker_deleted:
            self._delete(pod)
        else:
            self._execute(pod, ["sh", "-c", "kill -TERM 1"])

    def flush_redis(self) -> None:
        """FLUSHALL, or delete the pod, which keeps nothing."""
        if self._cluster.is_redis_deleted:
            self._delete(self._wait_for(f"{self._cluster.selector},app.kubernetes.io/component=redis", 0, "Redis"))
            return
        if self._cluster.redis_url is None:
            raise ConfigurationError(
                "Redis can't be flushed without its address: give --redis, or leave it out of --kinds"
            )
        flush(self._cluster.redis_url)

    def tend(self) -> None:
        """Kubernetes itself restarts ended containers."""

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _running(self, selector: str) -> list[Any]:
        """Running pods that are not being deleted, sorted by name."""
        found = _asked(lambda: self._api.list_namespaced_pod(self._cluster.namespace, label_selector=selector)).items
        pods = [pod for pod in found if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
        return sorted(pods, key=lambda pod: str(pod.metadata.name))

    def _wait_for(self, selector: str, number: int, what: str) -> Any:  # noqa: ANN401
        """The pod with that number, or if there are fewer now, another one."""
        deadline = time.monotonic() + POD_TIMEOUT_S
        while not (pods := self._running(selector)):
            if time.monotonic() > deadline:
                raise PodUnavailable(f"no pod of {what} has come to run within {POD_TIMEOUT_S:.0f} s ({selector})")
            time.sleep(POLL_S)
        return pods[number % len(pods)]

    def _insist(self, target: str, deed: Callable[[Any], None]) -> None:
        """Apply `deed` to a target's pod, or to its successor if the pod is gone."""
        component, _, number = target.rpartition("-")
        selector = f"{self._cluster.selector},app.kubernetes.io/component={component}"
        deadline = time.monotonic() + POD_TIMEOUT_S
        while True:
            pod = self._wait_for(selector, int(number), target)
            try:
                return deed(pod)
            except PodUnavailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def _delete(self, pod: Any) -> None:  # noqa: ANN401
        _asked(lambda: self._api.delete_namespaced_pod(pod.metadata.name, self._cluster.namespace))

    def _is_there(self, pod: Any) -> bool:  # noqa: ANN401
        uids = [each.metadata.uid for each in self._running(self._cluster.selector)]
        return pod.metadata.uid in uids

    def _signal(self, pod: Any, name: str) -> None:  # noqa: ANN401
        said = _asked(lambda: self._execute(pod, ["python3", "-c", _SIGNAL, name]))
        if "is process 1" in said:
            raise ConfigurationError(
                f"{pod.metadata.name}: {name} doesn't reach process 1 from inside its container: "
                f"set shareProcessNamespace: true for the pods, or leave kill and pause out of --kinds"
            )
        if "struck" not in said or "struck 0" in said:
            # Its container is restarting.
            raise PodUnavailable(f"{pod.metadata.name} has no process of a service now: {said.strip() or 'no answer'}")


def _place(component: str) -> int:
    """The component's position in the data flow."""
    return next(place for place, name in enumerate(_NAMES) if component.startswith(name))


def _component(pod: Any) -> str:  # noqa: ANN401
    return str((pod.metadata.labels or {}).get("app.kubernetes.io/component"))


def _asked(question: Callable[[], T]) -> T:
    """An answer of the API; a passing failure raises PodUnavailable, a lasting one ConfigurationError."""
    from kubernetes.client.exceptions import ApiException  # noqa: PLC0415  (an extra)

    try:
        return question()
    except ApiException as error:
        status = int(error.status or 0)
        if status in _FORBIDDEN:
            raise ConfigurationError(
                f"Kubernetes refuses ({status} {error.reason}): the account needs pods get, list, delete and "
                f"pods/exec create in the namespace"
            ) from error
        if status in _GONE or status == 0 or status >= 500 or status == 429:
            raise PodUnavailable(f"Kubernetes says {status} {error.reason}") from error
        raise ConfigurationError(f"Kubernetes says {status} {error.reason}") from error


def connect(cluster: PodCluster) -> KubernetesDriver:
    """A driver that uses the pod's own account, or outside a cluster the user's kubeconfig.

    Raises ConfigurationError.
    """
    try:
        from kubernetes import client, config  # noqa: PLC0415  (an extra)
        from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415
        from kubernetes.stream import stream  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "the package kubernetes is missing: pip install 'spojoin-loadgen[kubernetes]'"
        ) from error
    try:
        _load(config, ConfigException)
    except ConfigException as error:
        raise ConfigurationError(f"no Kubernetes cluster is configured here: {error}") from error
    api = client.CoreV1Api()

    def execute(pod: Any, command: Sequence[str]) -> str:  # noqa: ANN401
        # This needs its own client: `stream` temporarily switches the client that it gets to web sockets.
        own = client.CoreV1Api(client.ApiClient())
        return str(
            stream(
                own.connect_get_namespaced_pod_exec,
                pod.metadata.name,
                cluster.namespace,
                container=pod.spec.containers[0].name,
                command=list(command),
                stderr=True,
                stdin=False,
                stdout=True,
                tty=False,
            )
        )

    return KubernetesDriver(api, execute, cluster)


def _load(config: Any, missing: type[Exception]) -> None:  # noqa: ANN401
    """Load the account of the pod that this runs in, or outside a pod the user's."""
    try:
        config.load_incluster_config()
    except missing:
        config.load_kube_config()
