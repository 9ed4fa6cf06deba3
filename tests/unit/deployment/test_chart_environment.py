"""All variables of each container, and that the programs accept them."""

import json
import os

import pytest

from spojoin.page.settings import load_page_settings
from spojoin.protocol.access import Person
from spojoin.protocol.topology import Role
from spojoin.runtime.setting_readers import PAGE, is_read
from spojoin.runtime.settings import load_settings
from tests.support.chart import EXAMPLES, manifests, pods

PROPERTIES = {
    "sasl.mechanism": "SCRAM-SHA-512",
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "/etc/spojoin/kafka/ca.crt",
}
#: Of every program of the services' image, by example.
EVERYWHERE = {
    "demo": {
        "SPOJOIN_BOOTSTRAP_SERVERS": "demo-spojoin-kafka:9092",
        "SPOJOIN_REDIS_URL": "redis://demo-spojoin-redis:6379/0",
        "SPOJOIN_WORKERS": "2",
        "SPOJOIN_RESULTS_BYTES_MAX": "268435456",
    },
    "operators": {
        "SPOJOIN_BOOTSTRAP_SERVERS": "streams-kafka-bootstrap:9093",
        "SPOJOIN_REDIS_URL": "redis://valkey:6379/0",
        "SPOJOIN_WORKERS": "2",
        "SPOJOIN_RESULTS_BYTES_MAX": "1073741824",
    },
    "production": {
        "SPOJOIN_BOOTSTRAP_SERVERS": "kafka-0.kafka:9093,kafka-1.kafka:9093",
        "SPOJOIN_REDIS_URL": "rediss://redis:6379/0?ssl_ca_certs=/etc/spojoin/redis/ca.crt",
        "SPOJOIN_REDIS_USERNAME": "joins",
        "SPOJOIN_REDIS_PASSWORD": "redis-joins/password",
        "SPOJOIN_WORKERS": "4",
        "SPOJOIN_BATCH_TUPLES": "16384",
        "TZ": "UTC",
    },
}
QUERY = {
    "SPOJOIN_QUERY_FILE": "/etc/spojoin/query/query.yaml",
    "SPOJOIN_INTAKES": "1",
    "SPOJOIN_JOINERS": "2",
    "SPOJOIN_LOGICAL_ANDS": "1",
    "SPOJOIN_WORKERS_MAX": "8",
    "SPOJOIN_COLUMNS": "1",
    "SPOJOIN_SINKS": "1",
    "SPOJOIN_COLUMNS_BY": "batch",
    "SPOJOIN_OWNER": "joins/demo",
    "SPOJOIN_REPLACE": "false",
}
NUMBER = "metadata.labels['apps.kubernetes.io/pod-index']"
SCALING = {"SPOJOIN_AUTOSCALE": "false", "SPOJOIN_SCALE_MIN": "1", "SPOJOIN_SCALE_MAX": "8"}
#: The number of workers that the controller sets once; with KEDA it sets none.
ONCE = {"demo": {"SPOJOIN_SCALE_ONCE": "2"}, "operators": {}, "production": {"SPOJOIN_SCALE_ONCE": "4"}}
#: Of one component alone.
OWN = {
    "intake": {"SPOJOIN_INTAKE": "0"},
    "mutable": {"SPOJOIN_JOINER": "0"},
    "pojoin": {"SPOJOIN_WORKER": NUMBER, "SPOJOIN_DRAIN_MS": "20000"},
    "controller": {"SPOJOIN_STATEFULSET": "demo-spojoin-pojoin", "SPOJOIN_NAMESPACE": "joins"} | SCALING,
    "page": {"SPOJOIN_PAGE_HOST": "0.0.0.0", "SPOJOIN_PAGE_PORT": "8080"},
}
#: A component's Kafka user, where it differs from the component's name.
USERS = {
    "load": Person.FEED,
    "job-produce": Person.FEED,
    "job-feed": Person.FEED,
    "job-ramp": Person.CHECK,
    "job-chaos": Person.CHECK,
    "job-check": Person.CHECK,
}
#: A user's name, and its Secret, by example.
LOGINS = {"operators": ("demo-spojoin-{}", "demo-spojoin-{}"), "production": ("joins-{}", "kafka-joins-{}")}
#: Folders of Secrets that services watch.
FOLDERS = {"operators": ["secrets", "kafka"], "production": ["secrets", "kafka", "redis"]}
SERVERS = {"kafka", "redis"}


def wanted(example, component):
    user = USERS.get(component, component)
    found = QUERY | EVERYWHERE[example]
    if component in {*Role, PAGE}:
        settings = {name: name.removeprefix("SPOJOIN_").lower() for name in found}
        found = {name: value for name, value in found.items() if is_read(settings[name], [component])}
        found |= {"SPOJOIN_WORKERS": "1"} if "SPOJOIN_WORKERS" in found else {}
        found |= ONCE[example] if component == Role.CONTROLLER else {}
        watched = [f"/etc/spojoin/{name}" for name in FOLDERS.get(example, [])]
        found |= {"SPOJOIN_SECRETS_FOLDERS": json.dumps(watched, separators=(",", ":"))} if watched else {}
    found |= OWN.get(component, {})
    if example in LOGINS:
        name, secret = (each.format(user) for each in LOGINS[example])
        found |= {"SPOJOIN_KAFKA": json.dumps(PROPERTIES, separators=(",", ":"))}
        if component != "test":  # which asks Redis
            found |= {"SPOJOIN_KAFKA_USERNAME": name, "SPOJOIN_KAFKA_PASSWORD": f"{secret}/password"}
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_component_has_its_variables_and_no_other(example):
    for component, pod in pods(manifests(example)).items():
        if component not in SERVERS | {"check-query"}:
            assert pod.variables == wanted(example, component), component


def test_a_demos_broker_advertises_its_address():
    found = pods(manifests("demo"))
    assert found["kafka"].variables == {"SPOJOIN_BROKER_HOST": "demo-spojoin-kafka.joins.svc"}
    assert found["redis"].variables == {}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_check_has_all_settings(example):
    wants = wanted(example, Role.ROUTER) | QUERY | EVERYWHERE[example] | SCALING | ONCE[example]
    wants.pop("SPOJOIN_SECRETS_FOLDERS", None)
    assert pods(manifests(example))["check-query"].variables == wants


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("component", [*Role, "page"])
def test_programs_accept_their_variables(monkeypatch, example, component):
    for name in [name for name in os.environ if name.startswith("SPOJOIN_")]:
        monkeypatch.delenv(name)
    variables = pods(manifests(example))[component].variables
    for name, value in variables.items():
        monkeypatch.setenv(name, "3" if value == NUMBER else value)
    settings = load_page_settings().service if component == "page" else load_settings()
    assert settings.bootstrap_servers == EVERYWHERE[example]["SPOJOIN_BOOTSTRAP_SERVERS"]
    assert (settings.joiner, settings.worker) == (
        0 if component == Role.MUTABLE else None,
        3 if component == Role.POJOIN else None,
    )
    assert settings.kafka == (PROPERTIES if example in LOGINS else {})


def test_settings_become_variables_and_whole_numbers_stay_whole():
    found = pods(manifests("demo", "settings.results_bytes_max=1073741824", "settings.linger_ms=7"))
    assert {found[role].variables["SPOJOIN_RESULTS_BYTES_MAX"] for role in Role} == {"1073741824"}
    assert found[Role.ROUTER].variables["SPOJOIN_LINGER_MS"] == "7"


def test_extra_variables_go_to_all_roles_or_to_one():
    one = "sink.extraEnv[0].name=ONE,sink.extraEnv[0].value=1"
    every = "extraEnv[0].name=ALL,extraEnv[0].value=2"
    found = pods(manifests("demo", one, every))
    assert {name for name, pod in found.items() if "ONE" in pod.variables} == {"sink"}
    assert {name for name, pod in found.items() if "ALL" in pod.variables} == found.keys() - SERVERS
