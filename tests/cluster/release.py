"""A release on the cluster that KUBECONFIG names.

Environment: SPOJOIN_TEST_TAG, the images' tag (default dev); SPOJOIN_TEST_NAMESPACE (default spojoin-test), made and
removed; SPOJOIN_TEST_FIX_PERMISSIONS=1 where the storage class ignores fsGroup; SPOJOIN_TEST_STORAGE_CLASS.
"""

import json
import os
import subprocess
import time
from pathlib import Path

CHART = Path(__file__).parents[2] / "helm/spojoin"
NAMESPACE = os.environ.get("SPOJOIN_TEST_NAMESPACE", "spojoin-test")
TAG = os.environ.get("SPOJOIN_TEST_TAG", "dev")
RELEASE = "proof"


def run(*command, timeout_s=300, check=True, text=None):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout_s, check=False, input=text
    )
    if check:
        assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done


class Cluster:
    """Helm and kubectl in one namespace."""

    def kubectl(self, *arguments, **options):
        return run("kubectl", "--namespace", NAMESPACE, *arguments, **options).stdout

    def helm(self, verb, *arguments, **options):
        return run("helm", verb, "--namespace", NAMESPACE, *arguments, **options)

    def values(self, **extra):
        values = {
            "image.tag": TAG,
            "devImage.tag": TAG,
            "demo.enabled": "true",
            "demo.load": "false",
            "devKafka.fixPermissions": str(bool(os.environ.get("SPOJOIN_TEST_FIX_PERMISSIONS"))).lower(),
            **extra,
        }
        if storage := os.environ.get("SPOJOIN_TEST_STORAGE_CLASS"):
            values["devKafka.persistence.storageClassName"] = storage
        return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]

    def objects(self, kinds):
        selector = f"app.kubernetes.io/instance={RELEASE}"
        return json.loads(self.kubectl("get", kinds, "--selector", selector, "--output", "json"))["items"]

    def wait_ready(self, timeout_s=180):
        """Until every pod of the release that isn't finished is ready, and no other is about to come."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            pods = [pod for pod in self.objects("pods") if pod["metadata"].get("deletionTimestamp") is None]
            wanted = sum(o["spec"]["replicas"] for o in self.objects("deployments,statefulsets"))
            if sum(map(is_ready, pods)) >= wanted and len(pods) >= wanted:
                return
            time.sleep(1)
        raise AssertionError(self.kubectl("get", "pods"))


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
