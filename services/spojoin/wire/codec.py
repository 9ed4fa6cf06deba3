"""Bytes <-> records.

A message is

    prefix (24 bytes)   magic "SPJ1", CRC-32 of prefix and header, version, header length, body length,
                        CRC-32 of the body
    header              protobuf Envelope (protos/spojoin.proto): scalars and the column directory
    zeros               to a multiple of 8
    body                the columns, raw and little-endian, each zero-filled to a multiple of 8

All integers are little-endian. The first CRC covers everything from the version to the header's padding, the second
one the body: each bit is covered, and `peek` need not read the body. Decoded arrays are read-only views of the message
and keep it alive.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError, EncodeError

from spojoin.errors import WireError
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.columns import ALIGNMENT_BYTES, ColumnReader, ColumnWriter, padding
from spojoin.wire.headers import FORMS, Form
from spojoin.wire.records import Record

try:
    from zlib_ng.zlib_ng import crc32
except ModuleNotFoundError:  # an installation without services has few records to check
    from zlib import crc32

MAGIC = b"SPJ1"
VERSION = 1
SIZE_BYTES_MAX = 64 << 20

_PREFIX = struct.Struct("<4sIIIII")
_CHECKED = struct.Struct("<IIII")
_CHECKED_FROM = _PREFIX.size - _CHECKED.size
_FORMS = {form.field: form for form in FORMS.values()}


class Peek(NamedTuple):
    """What a message's header alone contains; a field is None if records of that type have no such field."""

    kind: type[Record]
    epoch: int | None
    frame_id: int | None


def encode(record: Record, *, size_bytes_max: int = SIZE_BYTES_MAX) -> bytes:
    """A record as one message; WireError if its parts contradict each other or it would exceed `size_bytes_max`."""
    form = FORMS.get(type(record))
    if form is None:
        raise WireError(f"a {type(record).__name__} is no record of the wire format")
    form.check(record)
    envelope = pb.Envelope()
    columns = ColumnWriter(envelope.columns)
    header = _header(form, record, envelope, columns)
    pad = padding(len(header))
    size = _PREFIX.size + len(header) + len(pad) + columns.size
    if size > size_bytes_max:
        raise WireError(f"a {type(record).__name__} takes {size} bytes, more than the limit of {size_bytes_max}")
    body_crc = 0
    for chunk in columns.chunks:
        body_crc = crc32(chunk, body_crc)
    checked = _CHECKED.pack(VERSION, len(header), columns.size, body_crc)
    head = b"".join((checked, header, pad))
    return b"".join((MAGIC, crc32(head).to_bytes(4, "little"), head, *columns.chunks))


def _header(form: Form, record: Record, envelope: pb.Envelope, columns: ColumnWriter) -> bytes:
    header = getattr(envelope, form.field)
    header.SetInParent()
    try:
        form.write(record, header, columns)
        data: bytes = envelope.SerializeToString(deterministic=True)
    except (ValueError, TypeError, EncodeError) as error:
        raise WireError(f"a field of a {type(record).__name__} does not fit its header: {error}") from error
    return data


def decode(data: bytes | memoryview, *, size_bytes_max: int = SIZE_BYTES_MAX) -> Record:
    """The record of a message, with views as arrays; WireError unless the message is complete and intact."""
    view = _aligned(data)
    envelope, body_at, body_crc = _open(view, size_bytes_max)
    body = view[body_at:]
    if crc32(body) != body_crc:
        raise WireError(f"the columns of a message of {len(view)} bytes do not match their CRC-32: they were altered")
    form = _form(envelope)
    columns = ColumnReader(envelope.columns, body, form.kind.__name__)
    record: Record = form.read(getattr(envelope, form.field), columns)
    columns.finish()
    form.check(record)
    return record


def peek(data: bytes | memoryview, *, size_bytes_max: int = SIZE_BYTES_MAX) -> Peek:
    """Type, epoch and frame of a message from its header alone; the body is neither read nor checked."""
    envelope, _, _ = _open(memoryview(data), size_bytes_max)
    form = _form(envelope)
    header = getattr(envelope, form.field)
    return Peek(form.kind, getattr(header, "epoch", None), getattr(header, "frame_id", None))


def _aligned(data: bytes | memoryview) -> memoryview:
    """A read-only view of the message, or of a copy if the message's address isn't a multiple of 8."""
    view = memoryview(data).cast("B") if isinstance(data, memoryview) else memoryview(data)
    if np.frombuffer(view, np.uint8).ctypes.data % ALIGNMENT_BYTES:
        view = memoryview(bytes(view))
    return view.toreadonly()


def _open(view: memoryview, size_bytes_max: int) -> tuple[pb.Envelope, int, int]:
    """The envelope, the offset of the body, and the body's CRC-32."""
    if len(view) > size_bytes_max:
        raise WireError(f"a message has {len(view)} bytes, more than the limit of {size_bytes_max}")
    if len(view) < _PREFIX.size:
        raise WireError(f"a message has {len(view)} bytes, fewer than its prefix of {_PREFIX.size}: it was truncated")
    magic, crc, version, header_size, body_size, body_crc = _PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise WireError(f"a message starts with {magic!r}, expected {MAGIC!r}: no spojoin record")
    if version != VERSION:
        raise WireError(
            f"a message has version {version}, expected {VERSION}: run the version of spojoin that wrote it, or a "
            "later one that reads it; to start afresh with this one, delete the query's internal topics"
        )
    header_end = _PREFIX.size + header_size
    body_at = header_end + -header_end % ALIGNMENT_BYTES
    if body_at + body_size != len(view):
        raise WireError(f"a message has {len(view)} bytes, but claims {body_at + body_size}: truncated or altered")
    if crc32(view[_CHECKED_FROM:body_at]) != crc:
        raise WireError(f"the header of a message of {len(view)} bytes does not match its CRC-32: it was altered")
    return _envelope(view[_PREFIX.size : header_end]), body_at, body_crc


def _envelope(data: memoryview) -> pb.Envelope:
    try:
        return pb.Envelope.FromString(bytes(data))
    except DecodeError as error:
        raise WireError(f"a message's header is no Envelope: {error}") from error


def _form(envelope: pb.Envelope) -> Form:
    field = envelope.WhichOneof("record")
    if field is None:
        raise WireError("a message holds a type of record that this version does not know, or none")
    return _FORMS[field]
