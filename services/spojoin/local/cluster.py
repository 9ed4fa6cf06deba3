"""Broker and Redis together, for commands and tests that need both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.jars import Progress
from spojoin.local.redis import LocalRedis


@dataclass(frozen=True, slots=True)
class Servers:
    """What the services of a query need on any machine: `children` keeps their processes."""

    children: Children
    bootstrap: str
    redis_url: str


class LocalCluster(NamedTuple):
    """What runs, and who keeps it: `children` may be given further processes."""

    children: Children
    broker: LocalBroker
    redis: LocalRedis

    @property
    def servers(self) -> Servers:
        """As services see it."""
        return Servers(self.children, self.broker.bootstrap, self.redis.url)


@contextmanager
def local_cluster(progress: Progress = print) -> Iterator[LocalCluster]:
    """A broker and a Redis on free ports of this machine, gone with the block or with this process."""
    with Children() as children, LocalRedis(children) as redis, LocalBroker(children, progress=progress) as broker:
        yield LocalCluster(children, broker, redis)
