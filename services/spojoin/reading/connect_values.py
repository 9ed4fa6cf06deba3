"""Values by Kafka Connect's schema, which a JSON message may contain: Debezium's decimals, dates and times.

Without that schema, a decimal is bytes as base64, which may look like a number: "1000" is -26672.12 at two digits. So
text of a decimal with a fraction must have a point, as in Debezium's own text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from spojoin.model import MOMENTS, NUMBERS, ColumnType, TypeName

#: Texts that may be a number or bytes: whole groups of four characters, without a point.
NUMBER_OR_BYTES = r"^(?:.{4})*$"
_NUMBER = re.compile(r"\+?\d+([eE]\+?\d+)?", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_TICKS = {
    "io.debezium.time.Timestamp": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}
DECIMAL_ADVICE = (
    "set decimal.handling.mode=string in Debezium's connector, or let its messages carry their schema "
    "(value.converter.schemas.enable=true)"
)


class DeclaredType(NamedTuple):
    """A field's type in a schema: its name, and for a decimal, the number of digits after the point."""

    name: str
    scale: int


def declared_fields(schema: object, envelope: str) -> dict[str, DeclaredType]:
    """The fields of a row within `envelope` that have a named type, by field name; schema: as JSON values."""
    holders = [each for each in _fields(schema) if each.get("field") == envelope]
    rows = _fields(holders[0]) if holders else []
    return {str(each["field"]): _told(each) for each in rows if "field" in each and isinstance(each.get("name"), str)}


def _fields(schema: object) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _told(field: Mapping[str, Any]) -> DeclaredType:
    parameters = field.get("parameters")
    scale = str(parameters.get("scale", "")) if isinstance(parameters, Mapping) else ""
    return DeclaredType(field["name"], int(scale) if re.fullmatch(r"-?\d{1,4}", scale) else 0)


def value_as_declared(value: str, told: DeclaredType | None, kind: ColumnType, *, is_text: bool) -> str | None:
    """A value as unambiguous text; None for text that may be bytes if no schema declares which.

    is_text: whether the value is text in JSON, not a number
    """
    if told is not None and told.name == _DECIMAL and is_text and kind.name in NUMBERS:
        return _decimal(value, told.scale)
    if told is not None and not is_text and kind.name in MOMENTS and re.fullmatch(r"-?\d{1,18}\d?", value):
        unit = "D" if told.name in _DAYS else _TICKS.get(told.name)
        return value if unit is None else str(np.array([int(value)]).astype(f"datetime64[{unit}]")[0])
    is_doubtful = told is None and is_text and kind.name is TypeName.DECIMAL and kind.scale > 0
    return None if is_doubtful and may_be_bytes(value) else value


def may_be_bytes(text: str) -> bool:
    """Whether text of a number may also be bytes as base64."""
    return len(text) % 4 == 0 and _NUMBER.fullmatch(text) is not None


def are_bytes(text: str) -> bool:
    """Whether text is bytes as base64, not a number."""
    return bool(text) and _BASE64.fullmatch(text) is not None and not text.isdigit()


def _decimal(text: str, scale: int) -> str:
    """The decimal that Connect writes as big-endian bytes; other text is returned unchanged."""
    if not _BASE64.fullmatch(text):
        return text
    whole = int.from_bytes(base64.b64decode(text), "big", signed=True)
    return format(Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale)), "f")
