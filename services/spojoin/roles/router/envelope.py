"""Rows within another message: a stream's option `envelope` names the field that holds the row, as Debezium's `after`.

Where that field has no value, the message tells of a row that is gone, and its dead letter says so. A message without
any value, which Kafka calls a tombstone, says the same.
"""

from __future__ import annotations

#: The reason of a message that takes a row away: windows are over what has arrived, so nothing is taken back.
DELETE = "delete"
#: Debezium's field of what was done, and its word for a row taken away.
OPERATION, DELETED = "op", "d"
#: Where JSON has its schema with it, as Kafka Connect writes it, the message is within this field.
PAYLOAD = "payload"


def no_row(field: str, operation: object) -> tuple[str, str]:
    """Why a message without a value in its envelope's field gives no row: reason and detail."""
    if operation in (None, DELETED):
        return DELETE, f"envelope {field}: no row, the message tells of one that was deleted"
    return "null", f"envelope {field}: no row in a message with {OPERATION} {operation!r}"


def not_a_row(field: str, found: str) -> tuple[str, str]:
    """Why a message whose envelope's field holds no row can't be read: reason and detail."""
    return "type", f"envelope {field}: expected a row with fields, found {found}"


def no_envelope(field: str, found: str) -> tuple[str, str]:
    """Why a message without the envelope's field gives no row: reason and detail."""
    return "missing-field", f"envelope {field}: missing, the message has {found}"
