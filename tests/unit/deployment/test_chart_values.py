"""Values: examples pass, wrong ones are refused with a sentence, and manifests fit Kubernetes' schemas."""

import kubernetes_validate
import pytest

from tests.support.chart import CHART, EXAMPLES, OPERATED, helm, manifests, template, values_file

KUBERNETES = "1.34"


@pytest.mark.parametrize("example", EXAMPLES)
def test_lint_has_no_complaint(example):
    done = helm("lint", "--strict", CHART, "--values", values_file(example))
    assert done.returncode == 0, done.stdout


def of_kubernetes(documents):
    """The manifests whose kinds the cluster's own schemas know."""
    return [document for document in documents if document["apiVersion"] not in OPERATED]


@pytest.mark.parametrize("settings", [(), ("packing=together", "pojoin.maxReplicas=3", "standbys=1")])
@pytest.mark.parametrize("example", EXAMPLES)
def test_manifests_fit_the_schemas_of_kubernetes(example, settings):
    documents = of_kubernetes(manifests(example, *settings))
    assert len(documents) > 15
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_misspelt_field_would_be_found():
    document = of_kubernetes(manifests("demo"))[0]
    document["spec"]["polcyTypes"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


KEDA = "keda.enabled=true,keda.prometheus=http://prometheus:9090"


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("demo.enabled=false", "query is empty: give the query file with --set-file query.text=query.yaml"),
        ("demo.rate=fast", "demo.rate: Invalid type"),
        ("kafka.bootstrapServers=broker", "kafka.bootstrapServers: Does not match pattern"),
        ("redis.url=http://redis", "redis.url: Does not match pattern"),
        ("pojoin.replicas=0", "pojoin.replicas: Must be greater than or equal to 1"),
        ("worker.replicas=2", "Additional property worker is not allowed"),
        ("keda.enabled=true", "keda.prometheus is empty: give the address of the Prometheus"),
        (
            f"{KEDA},controller.autoscale.enabled=true",
            "keda.enabled and controller.autoscale.enabled exclude each other",
        ),
        (f"{KEDA},controller.enabled=false", "keda.enabled needs controller.enabled"),
        ("strimzi.users.enabled=true", "strimzi.cluster is empty: name the Kafka object"),
        ("jobs.feed.enabled=true", "jobs.feed.args is empty: name the data set"),
        ("redis.passwordKey=password", "redis.passwordKey is set without redis.existingSecret"),
        ("redis.username=joins", "redis.username is set without redis.passwordKey"),
        ("kafka.users.existingSecret=everybody", "kafka.users.existingSecret: Does not match pattern"),
        ("networkPolicy.kafkaCidrs={10.0.0.1}", "networkPolicy.kafkaCidrs.0: Does not match pattern"),
    ],
)
def test_wrong_values_are_refused_with_a_sentence(setting, sentence):
    done = template("--set", "demo.enabled=true", "--set", setting)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_an_install_without_brokers_is_refused():
    done = template("--set-file", f"query={CHART / 'files/demo-query.yaml'}")
    assert done.returncode != 0
    assert "kafka.bootstrapServers is empty: name the brokers as host:port" in done.stderr
