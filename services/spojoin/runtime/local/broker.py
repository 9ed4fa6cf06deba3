"""A real Kafka broker of one node (KRaft), started from its jars on this machine."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.runtime.local.children import Children, start_error
from spojoin.runtime.local.jars import Progress, kafka_jars
from spojoin.runtime.local.java import find_java
from spojoin.runtime.local.net import LOOPBACK, Server, free_port, listens, require_free, wait_until_up

#: the largest record, and the room that a batch needs around it
MESSAGE_BYTES_MAX = 64 << 20
SEGMENT_BYTES = MESSAGE_BYTES_MAX + (8 << 20)
#: a start takes 4 s alone on two cores; recovery after SIGKILL and busy machines take longer
START_TIMEOUT_S = 90.0

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.bootstrap.servers={host}:{controller_port}
log.dirs={data}
# after a crash the node waits this long for its former self to time out
broker.session.timeout.ms=5000
broker.heartbeat.interval.ms=1000
# one node: every internal topic has one replica, and one partition is enough
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
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


class LocalBroker:
    """A broker on 127.0.0.1.

    Args:
        children: who keeps the process.
        folder: data and log; default a temporary folder that goes with `children`.
        port: where clients connect; default any free one.
        progress: told what takes long.

    """

    def __init__(
        self, children: Children, folder: Path | None = None, port: int | None = None, progress: Progress = print
    ) -> None:
        self._children = children
        self._java, self._jars = find_java(), kafka_jars(progress=progress)
        if port is not None:
            require_free("Kafka", port)
        self.port = port or free_port()
        self._controller_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.folder = folder or children.scratch_folder("kafka")
            self._configure()
        except OSError as error:
            raise start_error("Kafka", error) from error

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The broker's process while it runs."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """What the broker says."""
        return self.folder / "broker.log"

    def start(self) -> Self:
        """Start on the same data and port as ever, and return when the broker answers."""
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        self._process = self._children.start(self._command("kafka.Kafka", str(self._properties), heap="512m"), self.log)
        server = Server("Kafka", self._process, self.port, self.log)
        wait_until_up(server, self._answers, START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        """Shut down in order."""
        self._end(is_hard=False)

    def kill(self) -> None:
        """Kill at once, as a crash would; `start` brings the broker back with its data."""
        self._end(is_hard=True)

    def close(self) -> None:
        """Stop."""
        self._end(is_hard=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.yaml").write_text(_LOG4J)
        self._properties.write_text(
            _PROPERTIES.format(
                host=LOOPBACK,
                port=self.port,
                controller_port=self._controller_port,
                data=self.folder / "data",
                message_bytes_max=MESSAGE_BYTES_MAX,
                segment_bytes=SEGMENT_BYTES,
            )
        )

    def _command(self, main: str, *arguments: str, heap: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.yaml'}"
        # The optimising compiler takes 40 % of a core in the first minutes, which is all that a local broker lives.
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        jvm = [f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError", *quick, "-Djava.awt.headless=true", log4j]
        return [self._java, *jvm, "-cp", f"{self._jars}/*", main, *arguments]

    def _format(self) -> None:
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if cluster.startswith("-"):  # the tool would take it for an option
            cluster = "A" + cluster[1:]
        arguments = ["format", "--standalone", "-t", cluster, "-c", str(self._properties)]
        command = self._command("kafka.tools.StorageTool", *arguments, heap="128m")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise ConfigurationError(f"Kafka's folder {self.folder} could not be prepared: {''.join(last)}")

    def _answers(self) -> bool:
        if not listens(self.port):
            return False
        # librdkafka reports refused connections on stderr unless its log level is lowered
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return len(admin.list_topics(timeout=2).brokers) == 1
        except KafkaException:
            return False

    def _end(self, *, is_hard: bool) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._children.stop(process, is_hard=is_hard)
