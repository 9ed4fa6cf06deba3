"""A node that is lost: its pods leave it soon, and the notes look from a pod that nothing waits for."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHART = Path(__file__).parents[3] / "helm/spojoin"
EXAMPLES = sorted(CHART.glob("ci/*-values.yaml"))
HELM = Path(sys.executable).parent / "helm"
LOST = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def documents(chart, *arguments):
    done = subprocess.run([HELM, "template", "demo", chart, *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pods(found):
    for document in found:
        if document["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]
        elif document["kind"] == "Pod":
            yield document["metadata"]["name"], document["spec"]


def patience(pod):
    return {each["key"]: each.get("tolerationSeconds") for each in pod["tolerations"] if each.get("key") in LOST}


@pytest.mark.parametrize("values", EXAMPLES, ids=lambda path: path.stem)
def test_every_pod_leaves_a_lost_node_after_thirty_seconds(values):
    found = {name: patience(pod) for name, pod in pods(documents(CHART, "--values", values))}
    assert len(found) > 8
    assert found == {name: dict.fromkeys(LOST, 30) for name in found}


def test_the_time_is_a_value_and_a_users_own_toleration_wins():
    asked = "demo.enabled=true,nodeLossSeconds=7,tolerations[0].key=node.kubernetes.io/unreachable"
    own = {"node.kubernetes.io/unreachable": 3600, "node.kubernetes.io/not-ready": 7}
    found = documents(CHART, "--set", f"{asked},tolerations[0].tolerationSeconds=3600")
    placed = {name: patience(pod) for name, pod in pods(found) if "nodeSelector" in pod or "-sink" in name}
    assert placed == {"demo-spojoin-sink": own}


@pytest.mark.parametrize(
    ("values", "pod"),
    [
        ("page.enabled=true", "page"),
        ("page.enabled=false,controller.enabled=true", "controller"),
        ("page.enabled=false,controller.enabled=false", "sink"),
    ],
)
def test_the_notes_look_from_a_pod_that_nothing_waits_for(tmp_path, values, pod):
    """NOTES.txt is shown by an install only, so a copy of the chart wraps it in a ConfigMap."""
    chart = shutil.copytree(CHART, tmp_path / "spojoin")
    wrapped = """kind: ConfigMap\nnotes: {{ include (print $.Template.BasePath "/NOTES.txt") . | quote }}\n"""
    (chart / "templates" / "wrapped.yaml").write_text(wrapped)
    (notes,) = [d["notes"] for d in documents(chart, "--set", f"demo.enabled=true,{values}") if "notes" in d]
    assert f"exec deploy/demo-spojoin-{pod} -- spojoin status" in notes
