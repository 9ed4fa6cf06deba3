"""A JVM that ends is one sentence, however its connection ends: Py4J has an error, and a log, for each way."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from spojoin.errors import ConfigurationError
from spojoin.spark.session import sentences

RESET = struct.pack("ii", 1, 0)  # lingering for 0 s


def closed(connection: socket.socket) -> None:
    connection.close()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def answering(connection: socket.socket) -> None:
    connection.sendall(b"!xsno such method\n")
    connection.close()


def gateway(end: Callable[[socket.socket], None]) -> JavaGateway:
    """Of a server that reads a command of its first connection, and ends."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        server.close()
        connection.recv(1 << 16)
        end(connection)

    threading.Thread(target=serve, daemon=True).start()
    return JavaGateway(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))


@pytest.mark.parametrize("end", [closed, reset])
def test_an_end_is_a_sentence_without_a_log(end: Callable[[socket.socket], None], caplog) -> None:
    caplog.set_level(logging.WARNING)
    with pytest.raises(ConfigurationError, match="Spark's Java process ended"), sentences():
        gateway(end).jvm.System.currentTimeMillis()
    assert caplog.records == []


def test_what_a_jvm_has_answered_is_no_end_of_it() -> None:
    with pytest.raises(Py4JError, match="no such method"), sentences():
        gateway(answering).jvm.System.currentTimeMillis()


def test_other_logs_are_left_as_they_were(caplog) -> None:
    with sentences():
        logging.getLogger().error("by another")
    assert [record.message for record in caplog.records] == ["by another"]
