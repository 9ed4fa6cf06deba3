"""The schema registry's values reach those that need them."""

from __future__ import annotations

import pytest

from spojoin.protocol.topology import Role
from spojoin.runtime.settings import load_settings
from tests.support.chart import CHART, EXAMPLES, manifests, of_kind, pods, template, values_file

URL = "schemaRegistry.url=https://registry"
LOGIN = ("schemaRegistry.username=joins", "schemaRegistry.existingSecret=registry-joins")
NAMES = ("SPOJOIN_REGISTRY_USERNAME", "SPOJOIN_REGISTRY_PASSWORD")


def of_services(*settings):
    found = pods(manifests("production", *settings))
    return {name: pod for name, pod in found.items() if "SPOJOIN_QUERY_FILE" in pod.variables}


@pytest.mark.parametrize("example", EXAMPLES)
def test_without_a_url_nothing_speaks_of_it(example):
    assert not [name for pod in pods(manifests(example)).values() for name in pod.variables if "REGISTRY" in name]


def test_those_that_ask_the_registry_know_its_address_and_the_password():
    found = of_services(URL, *LOGIN, "page.enabled=true")
    with_address = {name for name in {*Role, "page"} if "SPOJOIN_REGISTRY_URL" in found[name].variables}
    assert with_address == {"intake", "router", "sink", "page"}
    assert {found[name].variables["SPOJOIN_REGISTRY_URL"] for name in with_address} == {"https://registry"}
    with_login = {name for name, pod in found.items() if set(NAMES) & pod.variables.keys()}
    assert with_login == with_address | ({"check-query"} & with_login)
    assert [found["sink"].variables[name] for name in NAMES] == ["joins", "registry-joins/password"]


def test_the_program_takes_what_the_chart_gives(monkeypatch):
    variables = of_services(URL, *LOGIN, "settings.results_format=avro")["sink"].variables
    for name, value in variables.items():
        if "REGISTRY" in name or name in ("SPOJOIN_QUERY_FILE", "SPOJOIN_RESULTS_FORMAT"):
            monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.registry_url, settings.registry_username) == ("https://registry", "joins")
    assert settings.results_format == "avro"


def test_a_certificate_is_mounted_where_the_setting_says():
    sink = of_services(URL, "schemaRegistry.tlsSecret=registry-ca")["sink"]
    assert sink.variables["SPOJOIN_REGISTRY_CA"] == "/etc/spojoin/registry/ca.crt"
    [mount] = [each for each in sink.container["volumeMounts"] if each["mountPath"] == "/etc/spojoin/registry"]
    [volume] = [each for each in sink.spec["volumes"] if each["name"] == mount["name"]]
    assert volume["secret"] == {"secretName": "registry-ca"}


def test_who_asks_it_may_reach_it_and_nobody_else():
    documents = manifests(
        "production",
        URL,
        "page.enabled=true",
        "networkPolicy.registryPorts={8081}",
        "networkPolicy.registryCidrs={10.0.0.0/8}",
    )
    rule = {"ports": [{"port": 8081, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    reaching = [each for each in of_kind("NetworkPolicy", documents) if rule in each["spec"].get("egress", [])]
    names = [f"demo-spojoin-{each}" for each in ("intake", "page", "router", "sink")]
    assert sorted(each["metadata"]["name"] for each in reaching) == names


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (LOGIN, "schemaRegistry.url is empty"),
        ((URL, LOGIN[0]), "schemaRegistry.username and schemaRegistry.existingSecret belong together"),
        (
            ("settings.registry_url=http://r",),
            "settings.registry_url is set by the chart itself: set schemaRegistry.url",
        ),
        (("schemaRegistry.url=http://user:hunter2@r",), "schemaRegistry"),
    ],
)
def test_what_contradicts_itself_ends_the_install(settings, sentence):
    done = template(
        "--values", values_file("production"), *(part for each in settings for part in ("--set", each)), chart=CHART
    )
    assert done.returncode
    assert sentence in done.stderr
