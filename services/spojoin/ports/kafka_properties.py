"""Properties of Kafka's clients, checked by librdkafka itself before anything connects."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, cimpl, libversion
from confluent_kafka.admin import AdminClient

from spojoin.errors import ConfigurationError
from spojoin.ports.client_logger import CLIENT_LOGGER
from spojoin.suggest import closest

PROTOCOL = "security.protocol"
#: With this no file that others name is opened, and no login is asked for.
_OPEN: dict[str, object] = {PROTOCOL: "plaintext"}
#: With this any protocol has what it asks for.
_LOGIN: dict[str, object] = {"sasl.mechanism": "PLAIN", "sasl.username": "user", "sasl.password": "password"}
#: Of librdkafka's own table: a property's name, and what it may be.
_ROW = re.compile(r"^(?P<name>[a-z][\w.]+) +\| *\S+ *\|(?P<range>[^|]*)\|", re.MULTILINE)


def check_properties(properties: Mapping[str, object], *, opens_files: bool = True) -> None:
    """Raise ConfigurationError for a property that librdkafka doesn't know, or one whose value it doesn't take.

    opens_files: whether the files that properties name are here, and the login is among them
    """
    if opens_files and _why_not(properties) is None:
        return
    for name, value in properties.items():
        reason = _why_not({**(_LOGIN if name == PROTOCOL else _OPEN), name: value})
        if reason is not None:
            raise ConfigurationError(f"kafka: {_about(name, reason)}")
    if opens_files and (reason := _why_not(properties)) is not None:
        raise ConfigurationError(f"kafka's properties can't be used: {reason}")


def _why_not(properties: Mapping[str, object]) -> str | None:
    """What librdkafka says against them; it connects to nobody."""
    to_nobody: dict[str, Any] = {**properties, "bootstrap.servers": "", "log_level": 2}
    try:
        AdminClient(to_nobody, logger=CLIENT_LOGGER)
    except KafkaException as error:
        return str(error.args[0].str()).strip().removeprefix("Failed to create admin client: ")
    except (TypeError, ValueError, AttributeError) as error:
        return str(error)
    return None


def _about(name: str, reason: str) -> str:
    ranges = property_ranges()
    if reason == f'No such configuration property: "{name}"':
        meant = closest(name, ranges)
        asked = f"; did you mean {meant}?" if meant else ""
        return f"librdkafka {libversion()[0]} has no property {name}{asked}"
    expected = ranges.get(name)
    return f"{reason}; expected {expected}" if expected and reason.startswith("Invalid value") else reason


@cache
def property_ranges() -> dict[str, str]:
    """What each property of this librdkafka may be, by its name, as its own table says; empty if that isn't at hand."""
    try:
        library, libc = ctypes.CDLL(cimpl.__file__), ctypes.CDLL(None)
        show, libc.fopen.restype = library.rd_kafka_conf_properties_show, ctypes.c_void_p
    except (OSError, AttributeError):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "properties"
        file = ctypes.c_void_p(libc.fopen(str(table).encode(), b"w"))
        if not file:
            return {}
        show(file)
        libc.fclose(file)
        return {found["name"]: found["range"].strip() for found in _ROW.finditer(table.read_text())}
