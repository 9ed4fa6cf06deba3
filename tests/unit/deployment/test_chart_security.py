"""What pods may do: the restricted standard, accounts and their rules, and secrets by reference only."""

import pytest

from tests.support.chart import EXAMPLES, FULLNAME, NAMESPACE, manifests, named, of_kind, pods

#: The components that use the Kubernetes API.
ASKING = {"controller": f"{FULLNAME}-controller", "job-chaos": f"{FULLNAME}-job-chaos"}
#: Hooks run before the release's account exists or need none; the demo's servers and load need none either.
WITHOUT_ACCOUNT = {"check-query", "test", "kafka", "redis", "load"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_pods_meet_the_restricted_standard(example):
    found = pods(manifests(example))
    assert len(found) > 10
    for name, pod in found.items():
        assert pod.spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
        assert "initContainers" not in pod.spec
        assert not pod.spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert pod.container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name


@pytest.mark.parametrize("example", EXAMPLES)
def test_only_components_that_use_kubernetes_have_a_token(example):
    found = pods(manifests(example))
    asking = {name for name, pod in found.items() if pod.spec["automountServiceAccountToken"] is not False}
    assert asking == ASKING.keys() & found.keys()


@pytest.mark.parametrize("example", EXAMPLES)
def test_accounts_exist_and_pods_use_them(example):
    documents = manifests(example)
    made = {each["metadata"]["name"]: each for each in of_kind("ServiceAccount", documents)}
    used = {name: pod.spec.get("serviceAccountName") for name, pod in pods(documents).items()}
    assert used == {name: None if name in WITHOUT_ACCOUNT else ASKING.get(name, FULLNAME) for name in used}
    assert {name for name in used.values() if name} == made.keys()
    assert made[FULLNAME]["automountServiceAccountToken"] is False


def rules(documents, component):
    role = named(documents, "Role", component)
    return {
        (group, resource, verb, *rule.get("resourceNames", ()))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


WORKERS = f"{FULLNAME}-pojoin"
HELD = [f"{FULLNAME}-pojoin-{number}" for number in range(8)]
LOOKS = {
    ("apps", "statefulsets", "get", WORKERS),
    ("", "configmaps", "get", WORKERS),
    ("", "configmaps", "patch", WORKERS),
    ("", "events", "create"),
    ("", "pods", "list"),
    ("", "pods", "delete", *HELD),
    ("apps", "deployments/status", "get", ASKING["controller"]),
    ("apps", "deployments/status", "patch", ASKING["controller"]),
}
SCALES = {("apps", "statefulsets/scale", "patch", WORKERS)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_controller_may_only_look_scale_say_what_it_sees_and_replace_pods_with_numbers(example):
    """Where KEDA scales, it doesn't."""
    documents = manifests(example)
    assert rules(documents, "controller") == LOOKS | (set() if example == "operators" else SCALES)
    assert WORKERS in {each["metadata"]["name"] for each in of_kind("StatefulSet", documents)}
    assert WORKERS in {each["metadata"]["name"] for each in of_kind("ConfigMap", documents)}
    assert ASKING["controller"] in {each["metadata"]["name"] for each in of_kind("Deployment", documents)}


def test_chaos_breaks_pods_and_runs_commands_in_them():
    assert rules(manifests("operators"), "job-chaos") == {
        ("", "pods", "get"),
        ("", "pods", "list"),
        ("", "pods", "delete"),
        ("", "pods/exec", "create"),
        ("", "pods/exec", "get"),
    }


@pytest.mark.parametrize("example", EXAMPLES)
def test_rules_are_bound_to_the_account_of_their_component_alone(example):
    documents = manifests(example)
    roles = {each["metadata"]["name"] for each in of_kind("Role", documents)}
    for binding in of_kind("RoleBinding", documents):
        name = binding["metadata"]["name"]
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
        roles.remove(name)
    assert not roles
    assert not of_kind("ClusterRole", documents) + of_kind("ClusterRoleBinding", documents)


def test_an_existing_account_is_used_and_not_made():
    documents = manifests("production", "serviceAccount.create=false", "serviceAccount.name=mine")
    accounts = {pod.spec.get("serviceAccountName") for pod in pods(documents).values()}
    assert accounts == {"mine", None, f"{FULLNAME}-controller"}
    assert {each["metadata"]["name"] for each in of_kind("ServiceAccount", documents)} == {f"{FULLNAME}-controller"}


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_passwords_are_passed_by_reference_only(example):
    documents = manifests(example)
    assert not of_kind("Secret", documents)
    for name, pod in pods(documents).items():
        entries = pod.container.get("env", [])
        passwords = [each for each in entries if "PASSWORD" in each["name"]]
        assert all(each.keys() == {"name", "valueFrom"} for each in passwords), name
        assert all(each["valueFrom"].keys() == {"secretKeyRef"} for each in passwords), name


def with_secrets():
    """Values whose properties and address hold passwords, both in Secrets."""
    return manifests(
        "production",
        "kafka.existingSecret=kafka-properties",
        "redis.existingSecret=redis-address",
        "redis.passwordKey=",
        "redis.username=",
    )


def test_properties_and_addresses_with_passwords_are_references_too():
    found = pods(with_secrets())
    for name, pod in found.items():
        assert pod.variables["SPOJOIN_KAFKA"] == "kafka-properties/properties.json", name
        assert pod.variables["SPOJOIN_REDIS_URL"] == "redis-address/url", name


def test_a_secret_that_is_missing_does_not_keep_the_check_from_saying_so():
    spec = pods(with_secrets())["check-query"].spec
    entries = [each["valueFrom"] for each in spec["containers"][0]["env"] if "valueFrom" in each]
    secrets = [each["secretKeyRef"] for each in entries] + [v["secret"] for v in spec["volumes"] if "secret" in v]
    assert len(secrets) > 3
    assert all(each["optional"] for each in secrets)


def texts(value):
    """Every text in a value, however deep."""
    if isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def test_a_secret_is_named_by_variables_and_volumes_and_nowhere_else():
    documents = manifests("production")
    secrets = {"redis-joins", "kafka-ca", "redis-ca", *(f"kafka-joins-{name}" for name in pods(documents))}
    for document in documents:
        for pod in pods([document]).values():
            pod.spec.pop("volumes")
            for entry in pod.container["env"]:
                entry.pop("valueFrom", None)
        assert not [text for text in texts(document) if text in secrets], document["metadata"]["name"]
