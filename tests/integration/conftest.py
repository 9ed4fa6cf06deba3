"""One real broker and one real Redis per test session, started as by users without containers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from spojoin.local.cluster import LocalCluster, local_cluster

_names = itertools.count()

#: Files that take minutes. They begin first, so that none is left for a single worker at the end.
LONGEST = (
    "test_disasters.py",
    "test_disasters_while_served.py",
    "test_tables.py",
    "test_security.py",
    "test_faults.py",
    "test_final_answers.py",
    "test_history.py",
    "test_results_source.py",
    "test_served_layouts.py",
    "test_cases_over_kafka.py",
    "test_retention.py",
    "test_interval_joins.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; in `make test`, xdist keeps this order."""
    order = {Path(__file__).with_name(name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(LONGEST)))


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """A broker and a Redis for one module only, whose tests kill and empty them."""
    with local_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(cluster: LocalCluster) -> str:
    return cluster.broker.bootstrap


@pytest.fixture(scope="session")
def redis_url(cluster: LocalCluster) -> str:
    return cluster.redis.url


@pytest.fixture
def unique() -> str:
    """A name that no other test uses, for topics and keys."""
    return f"t{next(_names)}"
