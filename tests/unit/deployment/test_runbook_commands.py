"""Each command of the runbook runs as it stands, with a release's names put in.

`spojoin` and `loadgen` read their arguments as they would; Helm renders what the page says and knows the options;
what `kubectl` names is in the rendered chart, or is what every cluster has. Harmless ones run on a real cluster in
`tests/cluster/test_cluster.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from helm.tables.alerts import ALERTS
from loadgen.__main__ import app as loadgen
from spojoin.cli.main import app as spojoin
from tests.support.chart import CHART, FULLNAME, NAMESPACE, RELEASE, helm, manifests, pods, template, values_file
from tests.support.pages import ROOT, Page

PAGE = Page(CHART / "RUNBOOK.md", (CHART / "RUNBOOK.md").read_text())
QUERY = str(CHART / "files/demo-query.yaml")
#: What the page writes in place of names that only an operator knows.
PLACES = {
    "NAMESPACE": NAMESPACE,
    "RELEASE": RELEASE,
    "BROKER": "kafka:9092",
    "REDIS": "redis",
    "OWNER": "joins/first",
    "QUERY": "joins",
    "NODE": "node-1",
    "POD": f"{FULLNAME}-sink-0",
    "N": "1",
}
#: Options of each verb that the page may use.
KUBECTL = {
    "get": {"-o", "--show-labels"},
    "describe": set(),
    "logs": {"--tail", "--previous"},
    "exec": set(),
    "delete": {"--force", "--grace-period"},
    "scale": {"--replicas"},
    "taint": set(),
    "wait": {"--for", "--timeout"},
    "rollout": {"--timeout"},
}
KINDS = {"deploy": "deployment"}
#: What every cluster has, whether a release is there or not; of these, nodes have no namespace.
OF_CLUSTERS = {"pods", "pod", "node", "nodes", "events"}


def all_commands(program: str) -> list[str]:
    return [line for line in PAGE.commands(PLACES) if line.startswith(f"{program} ")]


def parse(app, words: list[str]) -> None:
    """Read arguments as the program would, and run nothing."""
    command, rest = get_command(app), [QUERY if word.endswith("query.yaml") else word for word in words]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context(command.name, rest)


def objects() -> set[str]:
    """kind/name of all that examples of releases have."""
    documents = [each for example in ("operators", "production") for each in manifests(example)]
    return {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in documents}


def wrong(line: str) -> Iterator[str]:
    """What keeps a `kubectl` command from running as it stands."""
    words, _, inside = line.partition(" -- ")
    _, *rest = shlex.split(words)
    has_namespace = rest[:2] == ["-n", NAMESPACE]
    verb, *rest = rest[2:] if has_namespace else rest
    if verb == "rollout":
        rest = rest[1:]
    options = [word.partition("=")[0] for word in rest if word.startswith("-")]
    yield from (f"{verb} has no option {option}" for option in options if option not in KUBECTL.get(verb, ()))
    names = [word for word in rest if not word.startswith("-") and word != "wide"]
    if not names[0].startswith("node") and verb != "taint" and not has_namespace:
        yield "names no namespace"
    if verb not in ("taint", "logs"):
        yield from wrong_object(names)
    if inside.startswith("spojoin "):
        parse(spojoin, shlex.split(inside)[1:])


def wrong_object(names: list[str]) -> Iterator[str]:
    kind, _, name = names[0].partition("/")
    name = name or next(iter(names[1:]), "")
    kind = KINDS.get(kind, kind)
    kinds = {each.partition("/")[0] for each in objects()}
    if kind not in OF_CLUSTERS | kinds:
        yield f"no release has a {kind}"
    elif name and kind not in OF_CLUSTERS and f"{kind}/{name}" not in objects():
        yield f"no release has {kind}/{name}"


@pytest.mark.parametrize("line", sorted(set(all_commands("kubectl"))))
def test_what_kubectl_names_is_there(line: str) -> None:
    assert list(wrong(line)) == []


@pytest.mark.parametrize("line", sorted({*all_commands("spojoin"), *all_commands("python")}))
def test_programs_read_their_arguments(line: str) -> None:
    words = shlex.split(line)
    parse(loadgen if words[0] == "python" else spojoin, words[3:] if words[0] == "python" else words[1:])


@pytest.mark.parametrize("line", sorted(set(all_commands("spojoin"))))
def test_commands_say_where_kafka_is(line: str) -> None:
    """Nobody's own machine has the Kafka that is meant."""
    assert " --bootstrap " in line


@pytest.mark.parametrize("line", sorted(set(all_commands("helm"))))
def test_helm_does_what_the_page_says(line: str, tmp_path: Path) -> None:
    words = shlex.split(line)[1:]
    assert words[:2] == ["-n", NAMESPACE], "names no namespace"
    assert helm(*words, "--help").returncode == 0
    if "upgrade" in words:
        release, chart, *options = words[words.index("upgrade") + 1 :]
        assert (release, (ROOT / chart).resolve()) == (RELEASE, CHART.resolve())
        options.remove("--reuse-values")
        options = [option.replace("query.yaml", QUERY) for option in options]
        values = yaml.safe_load(values_file("production").read_text())
        if "query.text" in line:
            del values["query"]  # an upgrade takes the command's in its place
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        done = template("--values", file, *options)
        assert done.returncode == 0, done.stderr


def test_values_that_the_page_names_exist() -> None:
    """A span such as `serviceMonitor.enabled` or `standbys: 1`; Kafka's own names have no capitals."""
    found = [re.match(r"([a-z]\w*(?:\.\w+)+|[a-z]+[A-Z]\w*)(?:$|[=:])", span) for span in PAGE.spans]
    names = {each[1] for each in found if each and re.search("[a-z][A-Z]", each[1])}
    done = helm("show", "values", CHART)
    assert done.returncode == 0
    unknown = {name for name in names if not re.search(rf"(?m)^ *{name.rpartition('.')[2]}:", done.stdout)}
    assert unknown == set()


def test_alerts_that_are_silenced_exist() -> None:
    (line,) = all_commands("amtool")
    assert re.findall(r"alertname=(\w+)", line)[0] in {alert.name for alert in ALERTS}


def test_metrics_that_the_page_names_exist() -> None:
    metrics = (CHART / "METRICS.md").read_text()
    named = {span for span in PAGE.spans if re.fullmatch(r"spojoin_\w+", span)}
    assert named
    assert {name for name in named if f"`{name}`" not in metrics} == set()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("kubectl -n joins get statefulsets", "no release has a statefulsets"),
        ("kubectl -n joins describe deployment/demo-spojoin-pgae", "no release has deployment/demo-spojoin-pgae"),
        ("kubectl scale statefulset demo-spojoin-pojoin --replicas=1", "names no namespace"),
        ("kubectl -n joins logs demo-spojoin-sink-0 --tial=20", "logs has no option --tial"),
    ],
)
def test_a_planted_mistake_is_found(line: str, said: str) -> None:
    assert list(wrong(line)) == [said]


def test_pods_that_commands_run_in_have_the_query() -> None:
    for line in all_commands("kubectl"):
        if " exec " in line:
            component = re.search(rf"{FULLNAME}-([\w-]+)", line)[1]
            mounts = {each["mountPath"] for each in pods(manifests("production"))[component].container["volumeMounts"]}
            assert any("/etc/spojoin/query/query.yaml".startswith(mount) for mount in mounts)
