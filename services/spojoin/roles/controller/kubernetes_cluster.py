"""The cluster port over Kubernetes. What it needs: get a StatefulSet, patch its scale, create events."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import structlog
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from spojoin.errors import ConfigurationError
from spojoin.roles.controller.cluster import ClusterUnavailable, Event, ReplicaCounts

#: Where a pod finds the namespace that it runs in.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TIMEOUT_S = 10.0
COMPONENT = "spojoin-controller"

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class KubernetesCluster:
    """The workers' StatefulSet in one namespace."""

    def __init__(self, api: client.ApiClient, namespace: str, statefulset: str) -> None:
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._name = statefulset

    def workers(self) -> ReplicaCounts:
        """Replicas requested, and ready."""
        found = self._attempt("get", "statefulsets", self._read)
        replicas = found.spec.replicas if found.spec else None
        ready = found.status.ready_replicas if found.status else None
        return ReplicaCounts(1 if replicas is None else replicas, ready or 0)

    def _read(self) -> client.V1StatefulSet:
        return self._apps.read_namespaced_stateful_set(self._name, self._namespace, _request_timeout=TIMEOUT_S)

    def scale(self, replicas: int) -> None:
        """Set the scale, as `kubectl scale` does."""
        body = {"spec": {"replicas": replicas}}
        self._attempt(
            "patch",
            "statefulsets/scale",
            lambda: self._apps.patch_namespaced_stateful_set_scale(
                self._name, self._namespace, body, _request_timeout=TIMEOUT_S
            ),
        )

    def report(self, event: Event) -> None:
        """Create an event. One that can't be created is logged and holds nothing up."""
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

    def _attempt(self, verb: str, resource: str, action: Callable[[], T]) -> T:
        what = f"{verb} {resource} of {self._namespace}/{self._name}"
        try:
            return action()
        except client.ApiException as error:
            raise ClusterUnavailable(f"Kubernetes refuses to {what}: {_advice(error, verb, resource)}") from error
        except HTTPError as error:
            raise ClusterUnavailable(f"Kubernetes does not answer to {what}: {error}") from error


def connect(namespace: str | None, statefulset: str | None) -> KubernetesCluster:
    """The cluster that this pod runs in, or the current context of the user's kubeconfig.

    Raises ConfigurationError.
    """
    if statefulset is None:
        raise ConfigurationError("setting statefulset is missing: name the workers' StatefulSet in SPOJOIN_STATEFULSET")
    try:
        config.load_incluster_config()  # type: ignore[no-untyped-call]
    except config.ConfigException:
        _load_kubeconfig()
    return KubernetesCluster(client.ApiClient(), namespace or _own_namespace(), statefulset)


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
