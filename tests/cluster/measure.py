"""Processor time and memory of each component of a release, at rest and under load, as a table in Markdown.

    python tests/cluster/measure.py [--rate 20000] [--window 1M --slide 100K]

Installs a release of its own on the cluster that KUBECONFIG names (see release.py for the environment), and removes it.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.cluster.release import CHART, NAMESPACE, Cluster, load_images, run

IDLE_S, LOADED_S = 30, 60
#: On every Linux that Kubernetes runs on.
TICKS_A_SECOND = 100
MIB = 1 << 20


class Use(NamedTuple):
    """Usage since the container's start, and now."""

    cpu_s: float
    anonymous_bytes: int


def main():
    asked = arguments()
    load_images()
    run("kubectl", "create", "namespace", NAMESPACE)
    try:
        measure(asked, Cluster("measured"))
    finally:
        run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second")
    parser.add_argument("--fill", type=int, default=1_000_000, help="rows before the measurement")
    parser.add_argument("--window", default="1M", help="of the query, as in its SQL")
    parser.add_argument("--slide", default="100K")
    parser.add_argument("--packing", default="apart", help="which roles share a process")
    return parser.parse_args()


def measure(asked, cluster):
    run("kubectl", "create", "serviceaccount", "chaos", "--namespace", NAMESPACE)
    with tempfile.TemporaryDirectory() as folder:
        query = Path(folder) / "query.yaml"
        text = (CHART / "files/demo-query.yaml").read_text()
        query.write_text(text.replace("'10K' ON '100K'", f"'{asked.slide}' ON '{asked.window}'"))
        began = time.monotonic()
        values = cluster.values(packing=asked.packing)
        cluster.helm("install", cluster.name, CHART, *values, "--set-file", f"query={query}")
    cluster.make_topics("together" if asked.packing == "together" else "sink")
    cluster.wait_ready()
    print(f"Ready {time.monotonic() - began:.0f} s after `helm install`. Seconds from start to ready:\n")
    print_starts(cluster)
    idle = spent(cluster, IDLE_S)
    fill_s = asked.fill / asked.rate
    seconds = fill_s + LOADED_S + 30
    rows = {"workload": "q3", "rate": asked.rate, "duration": f"{seconds:.0f}s", "rows": {"partitions": 1}}
    cluster.job("rows", ["produce", json.dumps(rows)])
    time.sleep(fill_s + 10)
    loaded = spent(cluster, LOADED_S)
    cluster.outcome("rows")
    print(
        f"| component | idle: cores | MiB | {asked.rate:,} rows/s: cores | MiB |\n| --- | ---: | ---: | ---: | ---: |"
    )
    for name, (cores, mib) in loaded.items():
        quiet_cores, quiet_mib = idle.get(name, (0, 0))
        print(f"| {name} | {quiet_cores:.3f} | {quiet_mib:.0f} | {cores:.3f} | {mib:.0f} |")
    print(f"| all | {sum(c for c, _ in idle.values()):.2f} | | {sum(c for c, _ in loaded.values()):.2f} | |")


def print_starts(cluster):
    """A table of start times: all pods at once, then each alone, deleted while the others are up."""
    together = starts(cluster)
    print("| component | all at once | alone |\n| --- | ---: | ---: |")
    for pod in cluster.pods("app.kubernetes.io/component"):
        name = component(pod)
        run("kubectl", "delete", "pod", "--namespace", NAMESPACE, pod.metadata.name)
        cluster.wait_ready()
        print(f"| {name} | {together[name]:.0f} | {starts(cluster)[name]:.0f} |", flush=True)
    print()


def starts(cluster):
    """Seconds from each container's start to its pod being ready, by component; Kubernetes reports whole seconds."""
    return {component(pod): _start_to_ready(pod.status) for pod in cluster.pods("app.kubernetes.io/component")}


def _start_to_ready(status):
    began = status.container_statuses[0].state.running.started_at
    ready = next(each for each in status.conditions if each.type == "Ready").last_transition_time
    return (ready - began).total_seconds()


def component(pod):
    labels = pod.metadata.labels
    index = labels.get("apps.kubernetes.io/pod-index")
    return labels["app.kubernetes.io/component"] + (f" {index}" if index and index.isdigit() else "")


def spent(cluster, seconds):
    """(cores, MiB) by component over this number of seconds."""
    pods = {pod.metadata.name: component(pod) for pod in cluster.pods("app.kubernetes.io/component")}
    before, began = {pod: use(pod) for pod in pods}, time.monotonic()
    time.sleep(seconds)
    after, lasted = {pod: use(pod) for pod in pods}, time.monotonic() - began
    return {
        pods[pod]: ((after[pod].cpu_s - before[pod].cpu_s) / lasted, after[pod].anonymous_bytes / MIB) for pod in pods
    }


def use(pod):
    """Of the container's process 1, which is the service itself."""
    said = run("kubectl", "exec", "--namespace", NAMESPACE, pod, "--", "cat", "/proc/1/stat", "/proc/1/status").stdout
    first, *status = said.splitlines()
    # Behind the command's name in parentheses: field 14 is user's time, 15 the system's, in ticks.
    user, system = first.rpartition(")")[2].split()[11:13]
    anonymous = next(line.split()[1] for line in status if line.startswith("RssAnon:"))
    return Use((int(user) + int(system)) / TICKS_A_SECOND, int(anonymous) << 10)


if __name__ == "__main__":
    main()
