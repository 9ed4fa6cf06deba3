"""One real broker and one real Redis a test session, started the way users without containers start them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from spojoin.local.cluster import LocalCluster, local_cluster

_names = itertools.count()


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """A broker and a Redis for one module alone: its tests kill and empty them."""
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
