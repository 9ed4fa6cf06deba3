"""Values as Kafka Connect's schema tells them, which a JSON message may carry: Debezium's decimals, dates and times.

Without that schema, a decimal is bytes as base64, which may look like a number: "1000" is -26672.12 at two digits. So
text of a decimal with a fraction must have a point, as Debezium's own text of it has.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from spojoin.model import ColumnType, TypeName

#: Texts that may be a number as well as bytes: of whole groups of four characters, and without a point.
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
_NUMBERS = (TypeName.DECIMAL, TypeName.INT, TypeName.LONG, TypeName.FLOAT, TypeName.DOUBLE)
_MOMENTS = (TypeName.DATE, TypeName.TIMESTAMP)
WAY_OUT = (
    "set decimal.handling.mode=string in Debezium's connector, or let its messages carry their schema "
    "(value.converter.schemas.enable=true)"
)


class Told(NamedTuple):
    """What a schema says of a field: the name of its type, and of a decimal the digits after the point."""

    name: str
    scale: int


def told_fields(schema: object, envelope: str) -> dict[str, Told]:
    """The fields of a row within `envelope` whose type has a name, by their own names; schema: as JSON has it."""
    holders = [each for each in _fields(schema) if each.get("field") == envelope]
    rows = _fields(holders[0]) if holders else []
    return {str(each["field"]): _told(each) for each in rows if "field" in each and isinstance(each.get("name"), str)}


def _fields(schema: object) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _told(field: Mapping[str, Any]) -> Told:
    parameters = field.get("parameters")
    scale = str(parameters.get("scale", "")) if isinstance(parameters, Mapping) else ""
    return Told(field["name"], int(scale) if re.fullmatch(r"-?\d{1,4}", scale) else 0)


def told_value(value: str, told: Told | None, kind: ColumnType, *, is_text: bool) -> str | None:
    """A value as text that says itself what it is; None of text that may be bytes, where nothing says which.

    is_text: whether JSON has it as text, not as a number
    """
    if told is not None and told.name == _DECIMAL and is_text and kind.name in _NUMBERS:
        return _decimal(value, told.scale)
    if told is not None and not is_text and kind.name in _MOMENTS and re.fullmatch(r"-?\d{1,18}\d?", value):
        unit = "D" if told.name in _DAYS else _TICKS.get(told.name)
        return value if unit is None else str(np.array([int(value)]).astype(f"datetime64[{unit}]")[0])
    is_doubtful = told is None and is_text and kind.name is TypeName.DECIMAL and kind.scale > 0
    return None if is_doubtful and may_be_bytes(value) else value


def may_be_bytes(text: str) -> bool:
    """Whether text of a number may as well be bytes as base64."""
    return len(text) % 4 == 0 and _NUMBER.fullmatch(text) is not None


def are_bytes(text: str) -> bool:
    """Whether text is bytes as base64, and no number."""
    return bool(text) and _BASE64.fullmatch(text) is not None and not text.isdigit()


def _decimal(text: str, scale: int) -> str:
    """The decimal that Connect writes as bytes, the highest first; text that is none is left as it is."""
    if not _BASE64.fullmatch(text):
        return text
    whole = int.from_bytes(base64.b64decode(text), "big", signed=True)
    return format(Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -scale)), "f")
