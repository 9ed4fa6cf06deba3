"""The cluster port over Kubernetes.

It needs the rights to get StatefulSets, patch their scale, replace pods, and create events; to set a number once, also
for its ConfigMap; and to get and patch the status of the controller's own Deployment.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import structlog
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from spojoin.errors import ConfigurationError
from spojoin.roles.controller.cluster import ClusterUnavailable, Event, LeavingPod, ReplicaCounts, StatusCondition

#: The file in a pod that contains its namespace.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TIMEOUT_S = 10.0
COMPONENT = "spojoin-controller"
#: Kubernetes' names for conditions that are true, false or unknown.
STATUSES = {True: "True", False: "False", None: "Unknown"}
#: The key, in the ConfigMap named as the StatefulSet, of the number that was set once, and for which StatefulSet.
ONCE = "set-once"
#: The suffix of the name of the StatefulSet with second instances.
STANDBY = "-b"
#: The label and its values that select the workers' pods.
NUMBERED = "app.kubernetes.io/component in (pojoin, pojoin-b)"
#: Why Kubernetes deletes a pod whose node has a taint that the pod doesn't tolerate, or not for longer.
TAINTED = "DeletionByTaintManager"

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class NoSuchObject(ClusterUnavailable):
    """The object doesn't exist, or is another object with the same name."""


class KubernetesCluster:
    """The workers' StatefulSets in one namespace: people and autoscalers scale the first one, and standbys follow it.

    inside: how many workers are in no StatefulSet, because they share a process with other roles
    once: the number of workers to set once; a number that people or autoscalers set later stays
    """

    def __init__(
        self,
        api: client.ApiClient,
        namespace: str,
        statefulsets: Sequence[str],
        inside: int = 0,
        once: int | None = None,
    ) -> None:
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._name, *self._standbys = statefulsets
        self._inside = inside
        self._once = once
        self._noted: str | None = None
        self._release = self._name.rpartition("-")[0]
        self._told: dict[str, str] | None = None

    def workers(self) -> ReplicaCounts:
        """The requested workers, and those with a ready instance; corrects the number of standbys if it differs."""
        first = self._first()
        ready = first.ready
        for standby in self._standbys:
            counts = self._counts(standby)
            ready = max(ready, min(counts.ready, first.replicas))
            if counts.replicas != first.replicas:
                self._set(standby, first.replicas)
        return ReplicaCounts(self._inside + first.replicas, self._inside + ready)

    def _first(self) -> ReplicaCounts:
        """The replicas of the first StatefulSet; the number to set once is set before they are read."""
        found = self._find(self._name)
        if found is not None and found.metadata is not None and self._set_once(found.metadata.uid or ""):
            found = self._find(self._name)
        return _counted(found)

    def _set_once(self, uid: str) -> bool:
        """Set the number for this StatefulSet, which may be new, if not done yet; return whether it was set now."""
        mark = f"{self._once} of {uid}"
        if self._once is None or mark == self._noted:
            return False
        what = (self._name, self._namespace)
        notes = self._attempt(
            "get", "configmaps", lambda: self._core.read_namespaced_config_map(*what, _request_timeout=TIMEOUT_S)
        )
        is_new = (notes.data or {}).get(ONCE) != mark
        if is_new:
            self.scale(self._once)
            body = {"data": {ONCE: mark}}
            self._attempt(
                "patch",
                "configmaps",
                lambda: self._core.patch_namespaced_config_map(*what, body, _request_timeout=TIMEOUT_S),
            )
            _log.info("the number of workers is set", workers=self._once)
        self._noted = mark
        return is_new

    def _counts(self, name: str) -> ReplicaCounts:
        return _counted(self._find(name))

    def _find(self, name: str) -> client.V1StatefulSet | None:
        """A StatefulSet; None if all workers are inside."""
        try:
            return self._attempt("get", "statefulsets", lambda: self._read(name))
        except NoSuchObject:
            if self._inside:
                return None
            raise

    def _read(self, name: str) -> client.V1StatefulSet:
        return self._apps.read_namespaced_stateful_set(name, self._namespace, _request_timeout=TIMEOUT_S)

    def scale(self, replicas: int) -> None:
        """Set the scale, as `kubectl scale` does, to the number of workers that aren't inside."""
        for name in (self._name, *self._standbys):
            self._set(name, max(0, replicas - self._inside))

    def _set(self, name: str, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        self._attempt(
            "patch",
            "statefulsets/scale",
            lambda: self._apps.patch_namespaced_stateful_set_scale(
                name, self._namespace, body, _request_timeout=TIMEOUT_S
            ),
        )

    def leaving(self) -> list[LeavingPod]:
        """Pods of workers that are being deleted. A failure to list them is logged and delays nothing."""
        try:
            found = self._attempt(
                "list",
                "pods",
                lambda: self._core.list_namespaced_pod(
                    self._namespace, label_selector=NUMBERED, _request_timeout=TIMEOUT_S
                ),
            )
        except ClusterUnavailable as error:
            _log.warning("pods of a lost node would not be seen", error=str(error))
            return []
        return list(_leaving(found.items, self._release))

    def replace(self, pod: LeavingPod) -> None:
        """Delete the pod at once, without its node's confirmation; a pod that is already gone is ignored."""
        once = client.V1Preconditions(uid=pod.uid)
        options = client.V1DeleteOptions(grace_period_seconds=0, preconditions=once)
        try:
            self._attempt("delete", "pods", lambda: self._delete(pod.name, options))
        except NoSuchObject:
            _log.info("gone by itself", pod=pod.name)

    def _delete(self, pod: str, options: client.V1DeleteOptions) -> None:
        self._core.delete_namespaced_pod(pod, self._namespace, body=options, _request_timeout=TIMEOUT_S)

    def report(self, event: Event) -> None:
        """Create an event. A failure is logged and delays nothing."""
        try:
            self._attempt("create", "events", lambda: self._create(event))
        except ClusterUnavailable as error:
            _log.warning("an event was not created", reason=event.reason, message=event.message, error=str(error))

    def _create(self, event: Event) -> None:
        now = datetime.now(UTC)
        target = client.V1ObjectReference(
            api_version="apps/v1", kind="StatefulSet", name=self._name, namespace=self._namespace
        )
        body = client.CoreV1Event(
            metadata=client.V1ObjectMeta(generate_name=f"{self._name}.", namespace=self._namespace),
            involved_object=target,
            reason=event.reason,
            message=event.message,
            type="Warning" if event.is_warning else "Normal",
            first_timestamp=now,
            last_timestamp=now,
            count=1,
            source=client.V1EventSource(component=COMPONENT),
            reporting_component=COMPONENT,
            reporting_instance=socket.gethostname(),
        )
        self._core.create_namespaced_event(self._namespace, body, _request_timeout=TIMEOUT_S)

    def tell(self, conditions: Sequence[StatusCondition]) -> None:
        """Patch the status of the controller's Deployment; Kubernetes keeps conditions that it doesn't know."""
        told = self._told if self._told is not None else self._attempt("get", "deployments/status", self._read_told)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {"conditions": [_condition(each, told.get(each.kind), now) for each in conditions]}}
        self._attempt(
            "patch",
            "deployments/status",
            lambda: self._apps.patch_namespaced_deployment_status(*self._own(), body, _request_timeout=TIMEOUT_S),
        )
        self._told = told | {each.kind: STATUSES[each.is_true] for each in conditions}

    def _own(self) -> tuple[str, str]:
        return f"{self._release}-controller", self._namespace

    def _read_told(self) -> dict[str, str]:
        """The conditions that an earlier controller reported."""
        found = self._apps.read_namespaced_deployment_status(*self._own(), _request_timeout=TIMEOUT_S)
        conditions = (found.status.conditions if found.status else None) or ()
        return {each.type or "": each.status or "" for each in conditions}

    def _attempt(self, verb: str, resource: str, action: Callable[[], T]) -> T:
        what = f"{verb} {resource} of {self._namespace}/{self._name}"
        try:
            return action()
        except client.ApiException as error:
            kind = NoSuchObject if error.status in (404, 409) else ClusterUnavailable
            raise kind(f"Kubernetes refuses to {what}: {_advice(error, verb, resource)}") from error
        except HTTPError as error:
            raise ClusterUnavailable(f"Kubernetes does not answer to {what}: {error}") from error


def _condition(found: StatusCondition, status: str | None, now: str) -> dict[str, str]:
    """A condition in Kubernetes' form; status: the one that was reported last."""
    told = {
        "type": found.kind,
        "status": STATUSES[found.is_true],
        "reason": found.reason,
        "message": found.message,
        "lastUpdateTime": now,
    }
    return told if told["status"] == status else told | {"lastTransitionTime": now}


def _counted(found: client.V1StatefulSet | None) -> ReplicaCounts:
    if found is None:
        return ReplicaCounts(0, 0)
    replicas = found.spec.replicas if found.spec else None
    ready = found.status.ready_replicas if found.status else None
    return ReplicaCounts(1 if replicas is None else replicas, ready or 0)


def _leaving(pods: Sequence[client.V1Pod], release: str) -> Iterator[LeavingPod]:
    """The leaving pods of one release, whose name is the prefix of the pods' names."""
    pattern = re.compile(rf"{re.escape(release)}-(pojoin)({STANDBY})?-([0-9]+)")
    for pod in pods:
        about = pod.metadata or client.V1ObjectMeta()
        named = pattern.fullmatch(about.name or "")
        due = about.deletion_timestamp
        if named is None or due is None:
            continue
        role, is_standby, number = named.groups()
        conditions = (pod.status.conditions if pod.status else None) or ()
        yield LeavingPod(
            name=named.string,
            uid=about.uid or "",
            service=f"{role}-{number}{'.b' if is_standby else ''}",
            due_ms=int(1000 * due.timestamp()),
            is_evicted=any(each.reason == TAINTED and each.status == "True" for each in conditions),
        )


def connect(
    namespace: str | None, statefulset: str | None, inside: int = 0, once: int | None = None
) -> KubernetesCluster:
    """The cluster in which this pod runs, or the current context of the user's kubeconfig.

    statefulset: the workers' StatefulSet, or with a comma, also the standbys'
    inside, once: as in KubernetesCluster

    Raises ConfigurationError.
    """
    if statefulset is None:
        raise ConfigurationError("setting statefulset is missing: name the workers' StatefulSet in SPOJOIN_STATEFULSET")
    try:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    except config.ConfigException:
        _load_kubeconfig()
    return KubernetesCluster(client.ApiClient(), namespace or _own_namespace(), statefulset.split(","), inside, once)


def _load_kubeconfig() -> None:
    try:
        config.load_kube_config()  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise ConfigurationError(
            f"no Kubernetes cluster is known ({error}): run the controller in a pod, or set KUBECONFIG"
        ) from error


def _own_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            "setting namespace is missing: set SPOJOIN_NAMESPACE to the workers' namespace"
        ) from error


def _advice(error: client.ApiException, verb: str, resource: str) -> str:
    if error.status in (401, 403):
        return f"allow {verb} on {resource} in the Role of its service account"
    if error.status == 404:
        return "there is none; correct the settings statefulset and namespace"
    return f"{error.status} {error.reason}"
