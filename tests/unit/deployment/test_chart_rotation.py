"""A service sees each Secret that it reads in a folder that it watches, so that a rotated one starts it again."""

import json

import pytest

from spojoin.protocol.topology import Role
from tests.support.chart import EXAMPLES, manifests, pods

FOLDER = "/etc/spojoin/secrets"
IN_SECRETS = (
    "kafka.existingSecret=kafka-properties",
    "redis.existingSecret=redis-address",
    "redis.passwordKey=",
    "redis.username=",
    "schemaRegistry.url=https://registry",
    "schemaRegistry.username=joins",
    "schemaRegistry.existingSecret=registry-joins",
    "schemaRegistry.tlsSecret=registry-ca",
    "page.enabled=true",
    "sink.extraEnv[0].name=TOKEN",
    "sink.extraEnv[0].valueFrom.secretKeyRef.name=tokens",
    "sink.extraEnv[0].valueFrom.secretKeyRef.key=sink",
    "sink.extraEnv[0].valueFrom.secretKeyRef.optional=true",
)


def services(example, *settings):
    found = pods(manifests(example, *settings))
    return {name: found[name] for name in {*Role, "page"} if name in found}


def used(pod):
    """Each Secret's key that a variable holds."""
    references = [entry.get("valueFrom", {}).get("secretKeyRef") for entry in pod.container["env"]]
    return {(each["name"], each["key"]) for each in references if each}


def watched(pod):
    """Each Secret's key in the folder of secrets."""
    volumes = [volume for volume in pod.spec["volumes"] if volume["name"] == "secrets"]
    sources = [source["secret"] for volume in volumes for source in volume["projected"]["sources"]]
    return {(each["name"], item["key"]) for each in sources for item in each["items"]}


def folders(pod):
    return json.loads(pod.variables.get("SPOJOIN_SECRETS_FOLDERS", "[]"))


@pytest.mark.parametrize("settings", [(), IN_SECRETS])
@pytest.mark.parametrize("example", EXAMPLES)
def test_each_secret_of_a_variable_is_watched(example, settings):
    for name, pod in services(example, *(settings if example == "production" else ())).items():
        assert watched(pod) == used(pod), name
        assert (FOLDER in folders(pod)) == bool(used(pod))


def test_so_is_each_mounted_secret():
    for name, pod in services("production", *IN_SECRETS).items():
        mounts = {each["name"]: each["mountPath"] for each in pod.container["volumeMounts"]}
        secret = {mounts[each["name"]] for each in pod.spec["volumes"] if "secret" in each or "projected" in each}
        if name not in (Role.INTAKE, Role.ROUTER, Role.SINK, "page"):
            secret -= {"/etc/spojoin/registry"}  # mounted, and not read
        assert set(folders(pod)) == secret, name


def test_a_secret_that_may_be_missing_may_be_missing_there_too():
    sources = [
        each["secret"]
        for each in services("production", *IN_SECRETS)["sink"].spec["volumes"][-1]["projected"]["sources"]
    ]
    assert {each["name"]: each.get("optional", False) for each in sources}["tokens"] is True


def test_without_secrets_nothing_is_watched():
    for pod in services("demo").values():
        assert folders(pod) == []
        assert "secrets" not in {volume["name"] for volume in pod.spec["volumes"]}
