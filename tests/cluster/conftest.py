"""The cluster tests run only where they are asked for."""

from pathlib import Path

import pytest
from release import NAMESPACE, Cluster, run


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-cluster"):
        return
    skip = pytest.mark.skip(reason="needs a cluster: make test-cluster")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def cluster():
    run("kubectl", "create", "namespace", NAMESPACE)
    try:
        yield Cluster()
    finally:
        run("kubectl", "delete", "namespace", NAMESPACE, "--wait=true", timeout_s=300)
