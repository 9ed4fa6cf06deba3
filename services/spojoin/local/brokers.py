"""Several brokers on this machine as one Kafka cluster, each with a replica of every topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from spojoin.local.broker import LocalBroker
from spojoin.local.broker_config import Peers, new_cluster_id
from spojoin.local.children import Children
from spojoin.local.jars import Progress
from spojoin.local.net import free_port

BROKERS = 3


@dataclass(frozen=True, slots=True)
class LocalBrokers:
    """The brokers, by number from 0. One may be killed and started again while the others serve."""

    brokers: Sequence[LocalBroker]

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
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
