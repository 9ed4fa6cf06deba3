"""What releases need, as tables in Markdown: each component at rest and under load, or all of many queries at rest.

    python tests/cluster/measure.py [--rate 20000] [--window 1M --slide 100K]
    python tests/cluster/measure.py --queries 1 10 [--packing together] [--standbys 1]

Installs releases of its own on the cluster that KUBECONFIG names (see release.py for the environment), and removes
them.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kubernetes.utils import parse_quantity

from tests.cluster.release import CHART, NAMESPACE, Cluster, load_images, run, shared_servers

IDLE_S, LOADED_S = 30, 60
#: On every Linux that Kubernetes runs on.
TICKS_A_SECOND = 100
MIB, GIB = 1 << 20, 1 << 30
QUERY = CHART / "files/demo-query.yaml"
SERVICES = "app.kubernetes.io/component notin (kafka, redis, check-query)"


class Use(NamedTuple):
    """Usage since the container's start, and now."""

    cpu_s: float
    anonymous_bytes: int


def main():
    asked = arguments()
    load_images()
    run("kubectl", "create", "namespace", NAMESPACE)
    try:
        if asked.queries:
            measure_queries(asked)
        else:
            measure_components(asked, Cluster("measured"))
    finally:
        run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second")
    parser.add_argument("--fill", type=int, default=1_000_000, help="rows before the measurement")
    parser.add_argument("--window", default="1M", help="of the query, as in its SQL")
    parser.add_argument("--slide", default="100K")
    parser.add_argument("--packing", default="apart", help="which roles share a process")
    parser.add_argument("--standbys", type=int, default=0, help="of each process, where queries are counted")
    parser.add_argument("--queries", type=int, nargs="+", help="how many, each a release on the same broker and Redis")
    return parser.parse_args()


def measure_queries(asked):
    """Pods, what they request, and what they take at rest, for each number of queries on one broker and Redis."""
    print(
        "| packing | standbys | queries | pods | requested: cores | GiB | at rest: cores | GiB | Kafka: cores |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )
    releases = []
    with shared_servers("servers") as servers:
        try:
            for queries in sorted(asked.queries):
                releases += [install(asked, servers, f"query{number}") for number in range(len(releases), queries)]
                for release in releases:
                    release.wait_ready(900)
                print(f"| {asked.packing} | {asked.standbys} | {queries} | {at_rest(releases, servers)} |", flush=True)
        finally:
            for release in releases:
                release.helm("uninstall", release.name, "--wait", timeout_s=600)


def install(asked, servers, name):
    """A release of the demo's query under this name, on these servers."""
    release = Cluster(name)
    addresses = {
        "demo.enabled": "false",
        "kafka.bootstrapServers": f"{servers.full}-kafka:9092",
        "redis.url": f"redis://{servers.full}-redis:6379/0",
    }
    values = release.values(packing=asked.packing, standbys=asked.standbys, **addresses)
    text = QUERY.read_text().replace("name: demo", f"name: {name}", 1)
    release.helm("install", name, CHART, *values, "--set-json", f"query={json.dumps(text)}")
    release.make_topics("together" if asked.packing == "together" else "sink")
    return release


def at_rest(releases, servers):
    """The cells behind a number of queries."""
    pods = [pod for release in releases for pod in release.pods(SERVICES)]
    requests = [container.resources.requests for pod in pods for container in pod.spec.containers]
    (kafka,) = (pod.metadata.name for pod in servers.pods("app.kubernetes.io/component=kafka"))
    used = spent_by_pod([kafka, *(pod.metadata.name for pod in pods)], IDLE_S)
    kafka_cores, _ = used.pop(kafka)
    cells = (
        f"{sum(parse_quantity(each['cpu']) for each in requests):.2f}",
        f"{sum(parse_quantity(each['memory']) for each in requests) / GIB:.1f}",
        f"{sum(cores for cores, _ in used.values()):.2f}",
        f"{sum(memory for _, memory in used.values()) / GIB:.2f}",
        f"{kafka_cores:.2f}",
    )
    return " | ".join([str(len(pods)), *cells])


def measure_components(asked, cluster):
    run("kubectl", "create", "serviceaccount", "chaos", "--namespace", NAMESPACE)
    with tempfile.TemporaryDirectory() as folder:
        query = Path(folder) / "query.yaml"
        query.write_text(QUERY.read_text().replace("'10K' ON '100K'", f"'{asked.slide}' ON '{asked.window}'"))
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
    return {pods[pod]: (cores, memory / MIB) for pod, (cores, memory) in spent_by_pod(pods, seconds).items()}


def spent_by_pod(pods, seconds):
    """(cores, anonymous bytes) of each of these pods over this number of seconds."""
    before = {pod: (use(pod).cpu_s, time.monotonic()) for pod in pods}
    time.sleep(seconds)
    found = {}
    for pod, (cpu_s, began) in before.items():
        now = use(pod)
        found[pod] = (now.cpu_s - cpu_s) / (time.monotonic() - began), now.anonymous_bytes
    return found


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
