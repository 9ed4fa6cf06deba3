"""The chart as Helm renders it, and helpers to find objects in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm/spojoin"
EXAMPLES = ("demo", "operators", "production")
HELM = Path(sys.executable).parent / "helm"
RELEASE, NAMESPACE, FULLNAME = "demo", "joins", "demo-spojoin"
#: The only set of dashboards of a namespace.
DASHBOARDS = "spojoin-dashboards"
#: API versions of the operators that a cluster may have.
OPERATED = (
    "monitoring.coreos.com/v1",
    "keda.sh/v1alpha1",
    "kafka.strimzi.io/v1",
    "sparkoperator.k8s.io/v1beta2",
    "gateway.networking.k8s.io/v1",
)

#: By default a release has a predictor only if its columns are by key.
WITH_ALL = "predictor.enabled=true,intake.replicas=1"

Manifest = dict[str, Any]


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False)


def template(*options: object, chart: Path = CHART, release: str = RELEASE) -> subprocess.CompletedProcess[str]:
    return helm("template", release, chart, "--namespace", NAMESPACE, *options)


def values_file(example: str) -> Path:
    return CHART / f"ci/{example}-values.yaml"


def render(*options: object, versions: Sequence[str] = OPERATED, **where: Any) -> list[Manifest]:
    """The objects of a release with these options of Helm, in a cluster that knows these API versions."""
    known = [part for version in versions for part in ("--api-versions", version)]
    done = template(*options, *known, **where)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


@cache
def _manifests(example: str, settings: tuple[str, ...]) -> list[Manifest]:
    given = (part for each in (WITH_ALL, *settings) for part in ("--set", each))
    return render("--values", values_file(example), *given)


def manifests(example: str, *settings: str) -> list[Manifest]:
    """The objects of one of EXAMPLES with every role; `settings` add to its values, each `name=value`."""
    return deepcopy(_manifests(example, settings))


def notes(folder: Path, *options: object, versions: Sequence[str] = OPERATED) -> tuple[str, list[Manifest]]:
    """An install's output and objects. Only an install shows NOTES.txt, so a copy of the chart wraps it."""
    chart = shutil.copytree(CHART, folder / "spojoin")
    wrapped = """kind: ConfigMap\nnotes: {{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}\n"""
    (chart / "templates" / "wrapped.yaml").write_text(wrapped)
    documents = render(*options, versions=versions, chart=chart)
    (found,) = [document["notes"] for document in documents if "notes" in document]
    return found, [document for document in documents if "notes" not in document]


def of_kind(kind: str, documents: Iterable[Manifest]) -> list[Manifest]:
    return [document for document in documents if document["kind"] == kind]


def named(documents: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """The only object of this kind named by the release's full name and `name`."""
    (found,) = [each for each in of_kind(kind, documents) if each["metadata"]["name"] == f"{FULLNAME}-{name}"]
    return found


@dataclass(frozen=True)
class Pod:
    """An object that makes pods, and their spec: a Deployment, StatefulSet or Job, or a Pod itself."""

    component: str
    kind: str
    owner: Manifest
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: Manifest

    @property
    def container(self) -> Manifest:
        (container,) = self.spec["containers"]
        return container

    @property
    def variables(self) -> dict[str, Any]:
        """The container's environment: a value, `Secret/key`, or the path of a field."""
        entries = self.container.get("env", [])
        found = {entry["name"]: _value(entry) for entry in entries}
        assert len(found) == len(entries), f"{self.component} has a variable twice"
        return found


def _value(entry: Manifest) -> str:
    if "value" in entry:
        return entry["value"]
    source = entry["valueFrom"]
    if "fieldRef" in source:
        return source["fieldRef"]["fieldPath"]
    return f"{source['secretKeyRef']['name']}/{source['secretKeyRef']['key']}"


def pods(documents: Iterable[Manifest]) -> dict[str, Pod]:
    """All objects that make pods, by component; of joiners and several sinks, which have one each, the first."""
    by_component: dict[str, Pod] = {}
    for pod in _pods(documents):
        assert pod.component not in by_component or {"joiner", "sink"} & pod.labels.keys(), "two of a component"
        by_component.setdefault(pod.component, pod)
    return by_component


def _pods(documents: Iterable[Manifest]) -> Iterator[Pod]:
    for document in documents:
        if document["kind"] in ("Deployment", "StatefulSet", "Job", "Pod"):
            made = document if document["kind"] == "Pod" else document["spec"]["template"]
            labels = made["metadata"]["labels"]
            component, annotations = labels["app.kubernetes.io/component"], made["metadata"].get("annotations", {})
            yield Pod(component, document["kind"], document, labels, annotations, made["spec"])
