"""Several brokers as one Kafka cluster; Kafka and Redis together, for commands and tests that need both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from spojoin.local.broker import LocalBroker
from spojoin.local.broker_config import Peers, new_cluster_id
from spojoin.local.children import Children
from spojoin.local.jars import Progress
from spojoin.local.net import free_port
from spojoin.local.redis import LocalRedis

BROKERS = 3


@dataclass(frozen=True, slots=True)
class LocalBrokers:
    """The brokers, by number from 0. One may be killed and started again while the others serve."""

    brokers: Sequence[LocalBroker]

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers)


@contextmanager
def local_brokers(children: Children, count: int = BROKERS, progress: Progress = print) -> Iterator[LocalBrokers]:
    """Brokers on free ports, which end with the block; topics have `count` replicas, one of which may be behind."""
    peers = Peers(new_cluster_id(), {node: free_port() for node in range(1, count + 1)})
    with ExitStack() as stack:
        brokers = [LocalBroker(children, progress=progress, member=(node, peers)) for node in peers.controllers]
        for broker in brokers:
            stack.callback(broker.close)
            broker.launch()
        for broker in brokers:
            broker.wait_until_up()
        yield LocalBrokers(brokers)


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that a query's services need; `children` keeps their processes."""

    children: Children
    bootstrap: str
    redis_url: str


class LocalCluster(NamedTuple):
    """A running broker and Redis; `children` keeps them, and may keep further processes."""

    children: Children
    broker: LocalBroker
    redis: LocalRedis

    @property
    def servers(self) -> Servers:
        """The cluster in the form that services need."""
        return Servers(self.children, self.broker.bootstrap, self.redis.url)


@contextmanager
def local_cluster(progress: Progress = print) -> Iterator[LocalCluster]:
    """A broker and a Redis on free ports of this machine, which end with the block or with this process."""
    with Children() as children, LocalRedis(children) as redis, LocalBroker(children, progress=progress) as broker:
        yield LocalCluster(children, broker, redis)
