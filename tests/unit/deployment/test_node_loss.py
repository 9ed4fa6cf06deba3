"""Pods leave a lost node soon."""

import pytest

from tests.support.chart import EXAMPLES, manifests, pods

LOST = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def patience(pod):
    return {each["key"]: each.get("tolerationSeconds") for each in pod.spec["tolerations"] if each.get("key") in LOST}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_pod_leaves_a_lost_node_after_five_seconds(example):
    found = {name: patience(pod) for name, pod in pods(manifests(example)).items()}
    assert len(found) > 8
    assert found == {name: dict.fromkeys(LOST, 5) for name in found}


def test_the_time_is_a_value_and_a_users_own_toleration_wins():
    own = {"node.kubernetes.io/unreachable": 3600, "node.kubernetes.io/not-ready": 7}
    asked = "tolerations[0].key=node.kubernetes.io/unreachable,tolerations[0].tolerationSeconds=3600"
    found = {name: patience(pod) for name, pod in pods(manifests("demo", "nodeLossSeconds=7", asked)).items()}
    assert found == dict.fromkeys(found, own)
