"""The chart's README, made from the comments in its values.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from helm.tables.restarts_page import restarts

_HEAD = """# The chart spojoin

Made by `python -m helm.tables --write`; do not edit. One release is one query.

    helm install demo helm/spojoin --set demo.enabled=true                    # with Kafka, Redis and a load generator
    helm install joins helm/spojoin --set-file query.text=query.yaml \\
        --set kafka.bootstrapServers=kafka:9092 --set redis.url=redis://redis:6379/0
    helm test demo                                                            # known rows, while other rows flow
    helm test joins                                                           # whether all runs that results need

A wrong query, wrong values and wrong settings end the install with a message; helm before 3.18 leaves it in the log of
the Job `...-check-query`, for ten minutes. `ci/` holds complete examples. Further pages:
[what a release needs](CAPACITY.md), [metrics, dashboards and alerts](METRICS.md), [what to do about an
alert](RUNBOOK.md), [in a disaster](DISASTERS.md), [security](SECURITY.md).

## Whether the query is well

    kubectl rollout status deployment/joins-spojoin-controller --timeout=180s
    kubectl wait deployment/joins-spojoin-controller --for=condition=Accepted --timeout=180s
    kubectl wait deployment/joins-spojoin-controller --for=condition=Running --timeout=180s
    kubectl describe deployment/joins-spojoin-controller

The controller keeps two conditions in the status of its Deployment. `Accepted` is true while the query of this release
is the one that is served; else its message is the refusal. `Running` is true while every service that results need runs
and has read its log, also where an earlier query goes on because this release's was refused. Its message says who is
missing or what a service waits for; else how many messages of the inputs wait, and for how long the oldest row has
waited, at most 30 s ago. About 15 s after a service went it is false; a release whose input topics don't exist yet
isn't running either. Both are `Unknown` once the controller has ended, as during its upgrade, and `Running` while Redis
is away. The controller's readiness follows its first look: behind `rollout status` no condition is an earlier pod's.

    kubectl wait deployment/joins-spojoin-page --for=condition=Available --timeout=180s
    kubectl exec deployment/joins-spojoin-page -- spojoin status /etc/spojoin/query/query.yaml --check

The page's Deployment is available while both are true: so `helm --wait`, Argo CD and Flux, which by themselves read
whether Deployments are available, wait for a query that is well, also where no controller runs. The page itself stays
reachable. The second command says why in one sentence, as `/well` on the page does. While Redis is away nobody knows,
and the page stays available; `page.enabled=false` leaves this out.

## Another query

    helm upgrade joins helm/spojoin --reuse-values --set-file query.text=query.yaml --set query.replace=true

The new query answers from the row at which the old one stops, so each row is answered once; the header
`spojoin-generation` of a result says which query answered. Between the two, results are silent while the new router
reads the rows of its windows again, [2 s for a window of 1,000](../../loadgen/README.md#silence): no process starts in
that time. `--reuse-values` keeps `query.replace`: `--set
query.replace=false` in a later upgrade guards the query again.

Without `query.replace` a query of another meaning changes nothing. The Job `...-check-query` asks Kafka which query is
served before each install, upgrade and rollback, and ends it with a message; under Argo CD and Flux it is part of each
sync. Where no hook runs, as with `helm template | kubectl apply`, the router itself refuses: its pod is replaced and
goes on with the query that is served, without a row lost. Then `spojoin status`, its log and `/readyz` say what is
refused and how to replace, and the metric `spojoin_query_accepted` is 0. So they do where the query file has a mistake.

`helm rollback` to a revision of another query is refused by that revision's check, unless that revision has
`query.replace=true`: then it replaces the query back. After a refused rollback the release runs as before, but Helm
calls it `pending-rollback` and takes no upgrade. `helm rollback joins REVISION` ends that, where REVISION is the one
that `helm history joins` calls `deployed`; no pod restarts. Then upgrade with the earlier query and
`query.replace=true`.

The check needs Kafka to answer, and the Secrets of Kafka and Redis to be there. Only a Kafka or a user that the release
itself brings (`devKafka`, `strimzi.users`) may be missing.

A release that was installed by `--set-file query=query.yaml` is upgraded by the same command; helm warns that
`destination for query is a table`. `query.replace` works only with `query.text=`, not with `query=`. Where
`strimzi.topics` is on, Strimzi creates the topics of the first generation again after they were removed; nobody uses
them.

## Whose a query's name is

A query's name belongs to the release that says it first on a Kafka, as `NAMESPACE/RELEASE`, or to `spojoin-up`, which
is whoever runs it without a release. Another release of that name is refused by the check, with `query.replace=true`,
too. Without hooks its pods wait, not ready, and say why; they write nothing and disturb nobody. The same release,
installed again in the same namespace, goes on where it was. To go on in another one, say whose name it takes over:

    helm uninstall first
    helm install second helm/spojoin --set-file query.text=query.yaml --set query.adopt=joins/first ...

Releases of one name in equally named namespaces of two clusters are one owner: where they share a Kafka, give their
queries different names.

## Processes

    helm upgrade joins helm/spojoin --reuse-values --set packing=together

`packing` says which roles share a process: none (`apart`), all but predictor and controller (`together`), or groups
such as `router+sink mutable+logical-and`. Each group is a Deployment of one pod, named with a minus for each plus. An
upgrade may move a running query from one packing to another: Helm starts the new processes and deletes the old ones,
and no row is lost or answered twice. Where each process has a Kafka user of its own, those of the new packing must
exist before the upgrade; `strimzi.users` makes them in it.

A release that is together is one process and the page: [what it costs](CAPACITY.md#at-rest-together). Where PO-Join
shares a process, `pojoin.inside` workers are in it; the StatefulSet of the others counts from there on, so
`pojoin.replicas: 3` is one inside and two pods, and `kubectl scale --replicas=4` makes five. A shared process spreads
full frames over the cores of its node: where its pod has a CPU limit, set `settings.threads` to that.

With `standbys: 1` each process has a second instance, whose name ends in `-b`, on another node if there is one. It does
the same work, and takes over when the first has been silent for `patienceMs`. Its disruption budget lets one of the two
go at a time. Without standbys a lost pod costs a restart, and [a lost node](RUNBOOK.md#a-lost-node) about a minute.

## Upgrades

In an upgrade the new pod of a process starts beside the old one and reads the log while that one answers; it is ready
when it has taken over, and only then Kubernetes ends the old one. So a node needs room for both meanwhile, and
[results are silent for less than a second](../../loadgen/README.md#silence). Each mutable joiner is a Deployment of its
own for that. A PO-Join worker has its number from its pod's name, so its old pod goes first, one after the other:
results wait while it starts again. It answers for up to 20 s before it goes (`terminationGracePeriodSeconds` less 10),
so that the others have started by then. Where that is too long, workers can share a process with other roles, which has
no such name (`packing`, `pojoin.inside`), or have standbys on nodes with cores to spare: [an upgrade starts
them](CAPACITY.md#upgrades-and-replacements) at the same time. On busy cores results were [silent for
10 s](../../loadgen/README.md#silence) while a worker restarted; where the standby of a killed process took over, on
cores less busy, for less than 0.9 s. Nothing waits for predictor and controller: their old pods go first.

## Topics

    helm upgrade joins helm/spojoin --reuse-values --set-json 'topics.config={
      "all": {"replication.factor": 3, "min.insync.replicas": 2},
      "results": {"retention.bytes": 53687091200, "compression.type": "zstd"}}'

`topics.config` says by kind how Kafka keeps the topics that spojoin makes, in Kafka's own names and on top of these
defaults; a name that Kafka doesn't have ends the install with a message. [More on each
kind](../../services/spojoin/wire/README.md#how-topics-are-kept).

| kind | topics | by default |
| --- | --- | --- |
| `internal` | `QUERY.frames` and the others that services write for each other | what services haven't trimmed |
| `results` | `QUERY.results` | the latest 4 GiB; a reader that is away for longer misses the rest |
| `dlq` | `INPUT.dlq` | the latest 256 MiB each |
| `inputs` | those that `spojoin topics --partitions` makes | as the cluster keeps topics |
| `tables` | likewise | compacted |
| `all` | all of these; no limits | replicas as the cluster has them |

Topics that exist keep their configuration, so that no upgrade deletes results that somebody has kept: `spojoin topics
QUERY --apply` brings them to what is set and to the defaults, and says what it changes. Where `strimzi.topics` is on,
Strimzi does so in the upgrade: to keep all results of an older release, set `retention.bytes` of `results` to -1 in it.

### After an uninstall

An uninstall leaves the topics in Kafka: a release of the same name with the same query goes on where this one stopped,
and answers no row twice. When a query has ended for good:

    spojoin topics query.yaml --bootstrap kafka:9092 --redis redis://redis:6379/0 --list
    spojoin topics query.yaml --bootstrap kafka:9092 --redis redis://redis:6379/0 --delete --also results --also dlq

`--list` shows each topic, how it is kept, what it is for, and what is lost with it. `--delete` removes the internal
topics of all generations, with which the query's name is free, and other kinds only where `--also` names them. It asks
before, and refuses while services report that they serve the query. With `topics.deleteOnUninstall` a Job does the same
for the internal topics after each uninstall (Argo CD runs it as a PostDelete hook), as the Kafka user `topics` where
`kafka.users` is set. Where Strimzi makes topics, it deletes those whose objects go: with `topics.deleteOnUninstall` the
internal ones; `kubectl delete kafkatopic` removes the others, which Helm keeps.

## How many workers

    kubectl scale statefulset joins-spojoin-pojoin --replicas=4

The number of workers belongs to whoever set it last: a person, `controller.autoscale`, KEDA or another autoscaler. The
manifest of their StatefulSet doesn't say it, so no upgrade, no rollback and no sync of Argo CD or Flux changes it. It
begins at one, and the controller sets `pojoin.replicas` within seconds; results are right from the first row. Another
value of `pojoin.replicas` is set once, too, whatever the number was. With KEDA the controller sets none. Where
`controller.enabled` is false, the manifest says the number, and every upgrade sets `pojoin.replicas` again.

## What a change restarts

A pod gets the settings that it reads and no others, so an upgrade restarts what reads a changed one; a process of
several roles restarts with each of them. A pod's labels hold no version: another version of the chart restarts a pod
only by another image, or by what it changes in that pod.

RESTARTS

A changed query restarts router, controller and page: the other services serve what the router announces, and only
another name of the query restarts them, too. A file of `query.tables` restarts the router, values under a role that
role. `podAnnotations`, `podLabels` and `terminationGracePeriodSeconds` restart all but controller and page; `image`,
`extraEnv`, `extraVolumes` and where pods may run restart all.

## A history

    helm upgrade joins helm/spojoin --reuse-values --set backfill.enabled=true --set backfill.from.trips=/data/trips \\
        --set backfill.orderBy=seq --set backfill.until=began --set backfill.output=/data/matches \\
        --set backfill.claim=lake

`backfill` runs `spojoin backfill` once, in a pod with all cores that it may use; with `backfill.operator: true` a
SparkApplication does it on executors, for [Kubeflow's operator](https://github.com/kubeflow/spark-operator), whose
webhook mounts the volumes. For S3, `backfill.conf` names the package and `backfill.env` the credentials. With Kafka
users it is the user `check`. Its pods reach any address, since histories may be anywhere. `make test-cluster` runs the
Job, and compares its results with a nested loop; no test has run it under an operator yet.

## The page from outside

    helm upgrade joins helm/spojoin --reuse-values --set page.host=streams.example --set page.path=/joins \\
        --set page.ingress.enabled=true                                       # or --set 'page.gateways[0].name=public'

An Ingress or an HTTPRoute leads to the page at `page.host` and `page.path`; what stands in front of it may strip the
path or leave it. The page asks for no login and shows data: [put one in front of it](SECURITY.md#a-login-for-the-page),
and let only that reach it by `networkPolicy.ingressFrom`.

## The demo's Kafka

    helm upgrade demo helm/spojoin --reuse-values --set 'devKafka.servesNamespaces={analytics,staging}'
    helm install joins helm/spojoin --namespace analytics --set-file query.text=query.yaml \\
        --set kafka.bootstrapServers=demo-spojoin-kafka.joins.svc:9092      # the demo is in the namespace joins

By default the network policy lets in the pods of its own release and nobody else, for this Kafka asks for no password.
`devKafka.servesNamespaces` adds all pods of other namespaces, or of its own; `"*"` is every namespace. The broker
advertises `RELEASE-spojoin-kafka.NAMESPACE.svc`, which is resolved in every namespace. The demo's Redis serves its
release only.

## On a cluster of your own

`make kind-up` and `make minikube-up` build the images and install the demo in a local cluster; neither has been
tried yet. `make test-cluster` runs on the cluster that KUBECONFIG names: one release is left alone, another gets
the same rows while pods of all roles, Kafka and Redis are deleted, the number of workers changes, the release is
upgraded and rolled back and its pods are drained. The SHA-256 of both outputs and of a nested loop over the rows
must be the same.

## Values

| value | default | what |
| --- | --- | --- |"""


class Value(NamedTuple):
    """A documented value: its path, its default, and what the comment says."""

    path: str
    default: Any
    about: str


def values_page(text: str) -> str:
    """The page for a values.yaml: every value with a comment `# --` in front."""
    rows = (f"| `{v.path}` | `{json.dumps(v.default)}` | {v.about} |" for v in documented(text))
    return "\n".join([_HEAD.replace("RESTARTS", "\n".join(restarts())), *rows]) + "\n"


def documented(text: str) -> Iterator[Value]:
    """Values with a comment, which may go on over several lines."""
    defaults, path, about = yaml.safe_load(text), list[str](), list[str]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- ") or (about and stripped.startswith("# ")):
            about.append(stripped.removeprefix("# ").removeprefix("-- "))
        elif stripped:
            name, depth = stripped.split(":")[0], (len(line) - len(line.lstrip())) // 2
            path[depth:] = [name]
            if about:
                yield Value(".".join(path), _at(defaults, path), " ".join(about))
            about = []


def _at(values: Any, path: list[str]) -> Any:  # noqa: ANN401  (any value)
    for name in path:
        values = values[name]
    return values
