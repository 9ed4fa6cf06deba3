"""Files: what is mounted exists, is used, and is where programs look for it."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.support.chart import CHART, DASHBOARDS, EXAMPLES, manifests, named, of_kind, pods, render, values_file

SERVERS = {"kafka", "redis"}


def volumes(pod):
    return {volume["name"]: volume for volume in pod.spec.get("volumes", [])}


def mounts(pod):
    containers = [*pod.spec["containers"], *pod.spec.get("initContainers", [])]
    return [mount for container in containers for mount in container.get("volumeMounts", [])]


def claims(pod):
    return {each["metadata"]["name"] for each in pod.owner["spec"].get("volumeClaimTemplates", [])}


def sources(pod):
    """Mounted folder -> the source of its contents."""
    by_name = volumes(pod)
    return {mount["mountPath"]: by_name.get(mount["name"]) for mount in mounts(pod)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_volumes_are_mounted_and_mounts_are_volumes(example):
    for component, pod in pods(manifests(example)).items():
        assert {mount["name"] for mount in mounts(pod)} == volumes(pod).keys() | claims(pod), component


@pytest.mark.parametrize("example", EXAMPLES)
def test_config_maps_and_secrets_are_mounted_read_only(example):
    for component, pod in pods(manifests(example)).items():
        for mount in mounts(pod):
            if volumes(pod).get(mount["name"], {}).keys() & {"configMap", "secret"}:
                assert mount["readOnly"] is True, component


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_query_is_where_its_variable_or_its_argument_says(example):
    found = manifests(example)
    by_name = {each["metadata"]["name"]: each.get("data", {}) for each in of_kind("ConfigMap", found)}
    for component, pod in pods(found).items():
        if component in SERVERS:
            continue
        volume = sources(pod)["/etc/spojoin/query"]
        keys = by_name[volume["configMap"]["name"]].keys()
        named_files = {part for part in pod.container.get("args", []) if part.startswith("/etc/")}
        named_files |= {pod.variables["SPOJOIN_QUERY_FILE"]} if "SPOJOIN_QUERY_FILE" in pod.variables else set()
        assert named_files == {f"/etc/spojoin/query/{key}" for key in keys}, component


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_check_reads_its_own_copy_of_the_query_made_before_the_release(example):
    found = pods(manifests(example))
    read = {name: sources(pod)["/etc/spojoin/query"] for name, pod in found.items() if name not in SERVERS}
    own = {name: volume["configMap"]["name"] for name, volume in read.items()}
    assert own.pop("check-query") == "demo-spojoin-check-query"
    assert set(own.values()) == {"demo-spojoin-query"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_config_maps_hold_the_query_and_nothing_else(example):
    found = manifests(example)
    values = yaml.safe_load(values_file(example).read_text())
    query = values.get("query") or (CHART / "files/demo-query.yaml").read_text()
    noted = named(found, "ConfigMap", "pojoin")
    assert "data" not in noted, "what the controller notes there would be taken out"
    maps = [each for each in of_kind("ConfigMap", found) if each != noted]
    others = [each for each in maps if each["metadata"]["name"] != DASHBOARDS]
    assert [list(each["data"]) for each in others] == [["query.yaml"]] * 2
    assert {each["data"]["query.yaml"].rstrip() for each in others} == {query.rstrip()}


def test_dashboards_of_two_releases_are_one_set():
    """Whoever brings them, they are the same object, and show all releases."""

    def dashboards(release):
        found = of_kind("ConfigMap", render("--values", values_file("production"), release=release))
        (board,) = [each for each in found if "grafana_dashboard" in each["metadata"]["labels"]]
        return board["metadata"]["name"], board["data"]

    assert dashboards("first") == dashboards("second")
    for text in dashboards("first")[1].values():
        assert {"namespace", "release", "query"} <= {each["name"] for each in json.loads(text)["templating"]["list"]}


def test_dashboards_are_those_of_the_chart():
    (found,) = [
        each for each in of_kind("ConfigMap", manifests("production")) if each["metadata"]["name"] == DASHBOARDS
    ]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}
    assert found["data"] == files
    assert len(files) == 3
    assert all(json.loads(text)["panels"] for text in files.values())


@pytest.mark.parametrize("example", EXAMPLES)
def test_certificates_are_where_properties_and_addresses_say(example):
    values = yaml.safe_load(values_file(example).read_text())
    for component, pod in pods(manifests(example)).items():
        if component in SERVERS | {"check-query"}:
            continue
        properties = json.loads(pod.variables.get("SPOJOIN_KAFKA", "{}"))
        address = parse_qs(urlsplit(pod.variables["SPOJOIN_REDIS_URL"]).query)
        files = {properties.get("ssl.ca.location"), *address.get("ssl_ca_certs", [])} - {None}
        folders = {folder: each for folder, each in sources(pod).items() if each and "secret" in each}
        assert {path.rsplit("/", 1)[0] for path in files} == folders.keys()
        assert {folder: each["secret"]["secretName"] for folder, each in folders.items()} == {
            f"/etc/spojoin/{server}": values[server]["tlsSecret"]
            for server in ("kafka", "redis")
            if values.get(server, {}).get("tlsSecret")
        }


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_has_a_tmp_of_limited_size(example):
    sizes = {"job-produce": "1Gi", "job-ramp": "1Gi", "job-chaos": "1Gi", "job-feed": "4Gi", "job-check": "16Gi"}
    for component, pod in pods(manifests(example)).items():
        if component != "redis":
            assert sources(pod)["/tmp"]["emptyDir"] == {"sizeLimit": sizes.get(component, "256Mi")}


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_pod_fills_its_nodes_disk(example):
    found = pods(manifests(example, "devKafka.enabled=true", "devKafka.persistence.enabled=false"))
    empty = [(name, volume) for name, pod in found.items() for volume in volumes(pod).values() if "emptyDir" in volume]
    assert len(empty) > 10
    assert [name for name, volume in empty if not volume["emptyDir"].get("sizeLimit")] == []


def test_a_brokers_data_is_in_a_claim_that_goes_with_the_release():
    spec = pods(manifests("demo"))["kafka"].owner["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    assert claim["spec"]["resources"]["requests"] == {"storage": "4Gi"}
    assert "storageClassName" not in claim["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Delete", "whenScaled": "Retain"}


def test_every_program_has_the_extra_volumes():
    volume = "extraVolumes[0].name=v,extraVolumes[0].emptyDir.sizeLimit=1Mi"
    mount = "extraVolumeMounts[0].name=v,extraVolumeMounts[0].mountPath=/v"
    found = pods(manifests("demo", volume, mount))
    assert {name for name, pod in found.items() if "/v" in sources(pod)} == found.keys() - SERVERS


def test_a_root_container_hands_the_broker_its_volume_only_on_request():
    assert all("initContainers" not in pod.spec for pod in pods(manifests("demo")).values())
    found = pods(manifests("demo", "devKafka.fixPermissions=true"))
    ((first,),) = [pod.spec["initContainers"] for pod in found.values() if "initContainers" in pod.spec]
    assert first["command"] == ["chown", "10001:10001", "/data"]
    assert re.fullmatch(r"spojoin-dev:.+", first["image"])
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
