"""Objects for KEDA and the Prometheus operator, and what the chart omits without them."""

import re

import pytest
import yaml

from tests.support.chart import CHART, OPERATED, manifests, named, of_kind, pods, render, template, values_file

METRICS = (CHART / "METRICS.md").read_text()


@pytest.fixture(scope="module")
def scaled():
    return named(manifests("operators"), "ScaledObject", "pojoin")["spec"]


def test_keda_sets_the_number_of_workers_within_their_limits(scaled):
    assert scaled["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo-spojoin-pojoin"}
    assert pods(manifests("operators"))["pojoin"].kind == "StatefulSet"
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 8)


def test_keda_adds_one_worker_at_a_time_and_is_slower_to_remove_one(scaled):
    behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    one = [{"type": "Pods", "value": 1, "periodSeconds": 60}]
    assert behavior["scaleUp"] == {"stabilizationWindowSeconds": 15, "policies": one}
    assert behavior["scaleDown"] == {"stabilizationWindowSeconds": 300, "policies": one}


def test_keda_asks_for_cores_and_lag_of_this_querys_workers(scaled):
    cores, lag = scaled["triggers"]
    scope = '{role="pojoin",query="nearby"}'
    assert cores["metadata"] == {
        "serverAddress": "http://prometheus.monitoring:9090",
        "query": f"sum(rate(process_cpu_seconds_total{scope}[1m]))",
        "threshold": "0.8",
    }
    assert lag["metadata"] == {
        "serverAddress": "http://prometheus.monitoring:9090",
        "query": f"max(sum by (service_name) (spojoin_input_lag_records{scope}))",
        "threshold": "64",
    }
    assert (cores["metricType"], lag["metricType"]) == ("AverageValue", "Value")
    assert {cores["type"], lag["type"]} == {"prometheus"}


def test_metrics_that_keda_asks_for_are_those_of_services(scaled):
    asked = {name for each in scaled["triggers"] for name in re.findall(r"spojoin_\w+", each["metadata"]["query"])}
    assert asked == {"spojoin_input_lag_records"}
    assert all(f"| `{name}` |" in METRICS for name in asked)


def test_where_the_prometheus_operator_labels_releases_keda_asks_for_this_one():
    found = named(manifests("operators", "serviceMonitor.enabled=true"), "ScaledObject", "pojoin")
    for each in found["spec"]["triggers"]:
        assert 'query="nearby",namespace="joins",release="demo"}' in each["metadata"]["query"]


def test_the_prometheus_operator_reads_the_service_of_metrics():
    documents = manifests("production")
    (monitor,) = of_kind("ServiceMonitor", documents)
    service = named(documents, "Service", "metrics")
    selector = monitor["spec"]["selector"]["matchLabels"]
    matching = [
        each["metadata"]["name"]
        for each in of_kind("Service", documents)
        if selector.items() <= each["metadata"]["labels"].items()
    ]
    assert matching == [service["metadata"]["name"]]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["interval"] == "15s"
    assert endpoint["relabelings"] == [{"targetLabel": "release", "replacement": "demo"}]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def rules_of(*settings):
    (rule,) = of_kind("PrometheusRule", manifests("production", *settings))
    return rule["spec"]["groups"][0]["rules"]


def test_alerts_are_those_of_the_chart_over_the_releases_series():
    shipped = yaml.safe_load((CHART / "files/release-rules.yaml").read_text())["groups"][0]["rules"]
    installed = rules_of("packing=apart", "predictor.enabled=true", "controller.enabled=true")
    scope = 'namespace="joins", release="demo", query="cheaper-and-farther"'
    assert installed == [rule | {"expr": rule["expr"].replace("$release", scope)} for rule in shipped]


def test_without_the_labels_of_a_service_monitor_alerts_are_the_querys():
    expressions = [rule["expr"] for rule in rules_of("serviceMonitor.enabled=false")]
    assert expressions
    assert all('{query="cheaper-and-farther"' in each and "release=" not in each for each in expressions)


def test_an_alert_links_to_its_section_where_a_value_says_where_the_runbook_is():
    page = "https://git.example.com/RUNBOOK.md"
    assert all("runbook_url" not in rule["annotations"] for rule in rules_of())
    for rule in rules_of(f"prometheusRule.runbookUrl={page}"):
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
        assert rule["annotations"]["runbook"] == f"RUNBOOK.md#{rule['alert'].lower()}"
    refused = template("--values", values_file("production"), "--set", "prometheusRule.runbookUrl=RUNBOOK.md")
    assert "runbookUrl" in refused.stderr


@pytest.mark.parametrize("example", ["operators", "production"])
@pytest.mark.parametrize("missing", OPERATED)
def test_only_the_objects_of_a_missing_operator_are_omitted(example, missing):
    def shown(versions):
        return [(each["apiVersion"], each["metadata"]["name"]) for each in render(*options, versions=versions)]

    options = ("--values", values_file(example))
    left = [each for each in shown(OPERATED) if each[0] != missing]
    assert shown([version for version in OPERATED if version != missing]) == left


def test_the_controller_sets_the_number_of_workers_once_where_keda_does_not():
    without = pods(render("--values", values_file("operators"), versions=["kafka.strimzi.io/v1"]))
    assert without["controller"].variables["SPOJOIN_SCALE_ONCE"] == "2"
    assert "SPOJOIN_SCALE_ONCE" not in pods(manifests("operators"))["controller"].variables
