"""A Kafka node or a Redis for development, as the first process of a container.

    python3 dev.py broker      SPOJOIN_BROKER_HOST is the name to which clients connect (default: the host's name)
    python3 dev.py store

SPOJOIN_DATA_FOLDER holds the data (default /data). The server replaces this process, so signals reach it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from spojoin.local.broker_config import KafkaNode

BROKER_PORT, CONTROLLER_PORT, STORE_PORT = 9092, 9093, 6379
JARS = Path("/opt/kafka")


def main(arguments: list[str]) -> None:
    """Replace this process by the requested server."""
    folder = Path(os.environ.get("SPOJOIN_DATA_FOLDER", "/data"))
    if arguments == ["broker"]:
        become(broker(folder))
    if arguments == ["store"]:
        become(store(folder))
    sys.exit(f"{' '.join(arguments) or 'nothing'} was requested; expected broker or store")


def broker(folder: Path) -> list[str]:
    """Prepare the folder if needed, and return the broker's command."""
    host = os.environ.get("SPOJOIN_BROKER_HOST") or socket.gethostname()
    node = KafkaNode("java", JARS, folder, host, BROKER_PORT, CONTROLLER_PORT, listen="")
    node.configure()
    if not node.is_formatted:
        subprocess.run(node.format_command(), check=True)
    return node.command()


def store(folder: Path) -> list[str]:
    """The command of a Redis that keeps nothing on disk."""
    options = {"port": STORE_PORT, "dir": folder, "save": "", "appendonly": "no", "maxmemory": "64mb"}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    # Containers reach this Redis by the address of the pod or the network. It holds no secrets.
    return ["redis-server", *arguments, "--protected-mode", "no", "--bind", "*", "-::*"]


def become(command: list[str]) -> None:
    """Replace this process."""
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
