"""A Kafka node's configuration and command line: broker and controller, alone or with peers. Standard library only."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spojoin.local.security import BrokerSecurity

#: the size of the largest record, and the room that a batch needs around it
MESSAGE_BYTES_MAX = 64 << 20
SEGMENT_BYTES = MESSAGE_BYTES_MAX + (8 << 20)
_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
listeners={protocol}://{listen}:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners={protocol}://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map={protocol}:{protocol},CONTROLLER:{protocol}
{quorum}
log.dirs={data}
# broker.session.timeout.ms keeps its default: a shorter one takes all partitions from a broker that stalls for as long
# every node has a replica of every topic; one partition is enough
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=1
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
message.max.bytes={message_bytes_max}
replica.fetch.max.bytes={message_bytes_max}
# retention is up to those who trim; small segments and frequent checks give the disk back soon after
log.retention.ms=-1
log.retention.bytes=-1
log.segment.bytes={segment_bytes}
log.retention.check.interval.ms=5000
log.segment.delete.delay.ms=1000
log.index.size.max.bytes=1048576
# a small machine
num.network.threads=2
num.io.threads=2
num.recovery.threads.per.data.dir=1
background.threads=2
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
"""

_LOG4J = """\
Configuration:
  status: error
  Appenders:
    Console:
      name: out
      PatternLayout: {pattern: "%d %p %c{1} %m%n"}
  Loggers:
    Root: {level: error, AppenderRef: {ref: out}}
"""


@dataclass(frozen=True, slots=True)
class Peers:
    """The nodes of one cluster, all of them voters: their ids, and the ports of their controllers on this machine."""

    cluster: str
    controllers: Mapping[int, int]

    @property
    def voters(self) -> str:
        """The voters in the form of a node's configuration."""
        return ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.controllers.items())


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """One node.

    java, jars: the command, and the folder with Kafka's jars; folder: its configuration and data
    host, port: the address given to clients; listen: the address that it binds, empty for all
    security: its access control; without it, everybody who reaches the node may do anything
    node, peers: its number, and the nodes of its cluster, including itself; None if it is alone
    """

    java: str
    jars: Path
    folder: Path
    host: str
    port: int
    controller_port: int
    listen: str
    security: BrokerSecurity | None = None
    node: int = 1
    peers: Peers | None = None

    @property
    def is_formatted(self) -> bool:
        """Whether the node's folder has been prepared."""
        return (self.folder / "data" / "meta.properties").exists()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def configure(self) -> None:
        """Write its configuration."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.yaml").write_text(_LOG4J)
        self._properties.touch(mode=0o600)
        self._properties.write_text(
            _PROPERTIES.format(
                protocol="SASL_SSL" if self.security else "PLAINTEXT",
                host=self.host,
                listen=self.listen,
                port=self.port,
                controller_port=self.controller_port,
                node=self.node,
                quorum=self._quorum,
                replicas=self._replicas,
                in_sync=max(1, self._replicas - 1),
                data=self.folder / "data",
                message_bytes_max=MESSAGE_BYTES_MAX,
                segment_bytes=SEGMENT_BYTES,
            )
            + (self.security.properties() if self.security else "")
        )

    @property
    def _replicas(self) -> int:
        return 1 if self.peers is None else len(self.peers.controllers)

    @property
    def _quorum(self) -> str:
        if self.peers is None:
            return f"controller.quorum.bootstrap.servers=127.0.0.1:{self.controller_port}"
        return f"controller.quorum.voters={self.peers.voters}"

    def format_command(self) -> list[str]:
        """The command that prepares its folder."""
        alone = ["--standalone"] if self.peers is None else []
        cluster = new_cluster_id() if self.peers is None else self.peers.cluster
        arguments = ["format", *alone, "-t", cluster, "-c", str(self._properties)]
        return self._command("kafka.tools.StorageTool", arguments, heap="128m")

    def command(self) -> list[str]:
        """The command that runs it."""
        return self._command("kafka.Kafka", [str(self._properties)], heap="512m" if self.peers is None else "256m")

    def _command(self, main: str, arguments: Sequence[str], heap: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}"
        # The optimising compiler takes 40 % of a core in the first minutes, and such a broker doesn't live longer.
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        jvm = [f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError", *quick, "-Djava.awt.headless=true", log4j]
        jvm += self.security.java_options if self.security else []
        return [self.java, *jvm, "-cp", f"{self.jars}/*", main, *arguments]


def new_cluster_id() -> str:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    return "A" + cluster[1:] if cluster.startswith("-") else cluster  # the tool would take "-..." for an option
