"""A real Kafka broker of one node (KRaft), started from its jars on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.local.broker_config import KafkaNode, Peers
from spojoin.local.children import Children, LocalServer, start_error
from spojoin.local.jars import Progress, find_java, kafka_jars
from spojoin.local.net import LOOPBACK, Server, cause, free_port, listens, require_free, wait_until_up
from spojoin.local.security import BrokerSecurity

#: a start takes 4 s alone on two cores; recovery after SIGKILL and busy machines take longer
START_TIMEOUT_S = 90.0


class LocalBroker(LocalServer):
    """A broker on 127.0.0.1.

    Args:
        children: keeps the process.
        folder: data and log; by default a temporary folder that is deleted with `children`.
        port: the port for clients; by default any free one.
        progress: called with each step that takes long.
        security: its access control; by default none.
        member: its number and its cluster, if it isn't alone.

    """

    def __init__(
        self,
        children: Children,
        folder: Path | None = None,
        port: int | None = None,
        progress: Progress = print,
        security: BrokerSecurity | None = None,
        member: tuple[int, Peers] | None = None,
    ) -> None:
        super().__init__(children)
        self._security = security
        node, peers = member or (1, None)
        java, jars = find_java(), kafka_jars(progress=progress)
        if port is not None:
            require_free("Kafka", port)
        self.port = port or free_port()
        try:
            self.folder = folder or children.scratch_folder("kafka")
            controller = free_port() if peers is None else peers.controllers[node]
            self._node = KafkaNode(
                java, jars, self.folder, LOOPBACK, self.port, controller, LOOPBACK, security, node, peers
            )
            self._node.configure()
        except OSError as error:
            raise start_error("Kafka", error) from error

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def admin_properties(self) -> Mapping[str, str | int | float | bool]:
        """Further properties with which clients may do anything here."""
        return self._security.client if self._security else {}

    @property
    def pid(self) -> int | None:
        """The id of the broker's process while it runs."""
        return self._process.pid if self._process else None

    def lost(self) -> str | None:
        """Why the broker that was started has ended by itself, as a sentence; None while it runs."""
        if self._process is None or self._process.poll() is None:
            return None
        return cause(Server("Kafka", self._process, self.port, self.log), "has ended")

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.folder / "broker.log"

    def start(self) -> Self:
        """Start, always with the same data and port, and return when the broker answers."""
        self.launch()
        return self.wait_until_up()

    def launch(self) -> None:
        """Start without waiting: a cluster answers once most of its nodes run."""
        if not self._node.is_formatted:
            self._format()
        self._process = self._children.start(self._node.command(), self.log)

    def wait_until_up(self) -> Self:
        """Wait until the broker that was launched answers."""
        assert self._process is not None
        server = Server("Kafka", self._process, self.port, self.log)
        wait_until_up(server, self._answers, START_TIMEOUT_S)
        return self

    def _format(self) -> None:
        done = subprocess.run(self._node.format_command(), capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise ConfigurationError(f"Kafka's folder {self.folder} could not be prepared: {''.join(last)}")

    def _answers(self) -> bool:
        if not listens(self.port):
            return False
        # librdkafka reports refused connections on stderr unless its log level is lowered
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.admin_properties})
        try:
            return self._node.node in admin.list_topics(timeout=2).brokers
        except KafkaException:
            return False
