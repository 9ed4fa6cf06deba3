"""Fuzzes the wire format: each mutated message must be refused, or decode to a record that encodes again.

    python -m tests.support.wire_fuzz --frames 10000000

A frame is drawn from its number alone, so `--from` and `--frames 1` replay one. Most have valid checksums, since
otherwise no code after the checks would run.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import resource
import secrets
import struct
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from random import Random
from typing import NamedTuple

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings

from spojoin.errors import WireError
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.codec import decode, encode, peek
from tests.support import samples

PREFIX = struct.Struct("<4sIIIII")
CORPUS = 1_000
CHUNK = 5_000
#: Most frames take less than a millisecond; a chunk that takes this long hangs, and its process ends with a traceback.
CHUNK_S = 120
#: How much a process may allocate after its start; frames of the corpus have some kilobytes.
ALLOCATED_BYTES_MAX = 1 << 30
EXTREMES = (0, 1, 2, 7, 8, 255, 1 << 15, (1 << 16) - 1, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)


class Parts(NamedTuple):
    """A message without its checksums."""

    header: bytes
    body: bytes


class Broken(NamedTuple):
    """A frame that was neither refused nor a record: its number, its bytes, and the fault."""

    number: int
    frame: bytes
    what: str


def corpus(count: int = CORPUS) -> list[bytes]:
    """Valid messages of all kinds, the same in each run."""
    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(samples.records)
    def collect(record):
        found.append(encode(record))

    collect()
    return found


def taken_apart(message: bytes) -> Parts:
    """Header and body of a valid message."""
    _, _, _, header_size, body_size, _ = PREFIX.unpack_from(message)
    return Parts(message[PREFIX.size : PREFIX.size + header_size], message[len(message) - body_size :])


def sealed(parts: Parts) -> bytes:
    """A message with valid lengths and checksums around any content."""
    header, body = parts
    head = struct.pack("<IIII", 1, len(header), len(body), zlib.crc32(body)) + header
    head += bytes(-len(head) % 8)
    return b"SPJ1" + struct.pack("<I", zlib.crc32(head)) + head + body


# --- mutations of bytes -----------------------------------------------------------------------------------------------


def flipped(rng: Random, data: bytes) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncated(rng: Random, data: bytes) -> bytes:
    """Keep only the beginning."""
    return data[: rng.randint(0, len(data))]


def spliced(rng: Random, data: bytes, other: bytes) -> bytes:
    """Join the beginning of one message and the end of another."""
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


def repeated(rng: Random, data: bytes) -> bytes:
    """Duplicate or remove a piece."""
    begin = rng.randint(0, len(data))
    end = min(len(data), begin + rng.choice((1, 2, 8, 64)))
    return data[:end] + data[begin:] if rng.random() < 0.5 else data[:begin] + data[end:]


def overwritten(rng: Random, data: bytes) -> bytes:
    """Replace a number (a length, a count, an offset) by an extreme one."""
    number = rng.choice(EXTREMES)
    size = rng.choice((4, 8))
    written = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    at = rng.randint(0, max(0, len(data) - size) // 4) * 4
    return data[:at] + written + data[at + size :]


def bytes_changed(rng: Random, data: bytes, other: bytes) -> bytes:
    """One mutation of bytes."""
    kind = rng.randrange(5)
    if kind == 0:
        return truncated(rng, data)
    if kind == 1:
        return spliced(rng, data, other)
    return (flipped, repeated, overwritten)[kind - 2](rng, data)


# --- mutations of the envelope ----------------------------------------------------------------------------------------


def envelope_changed(rng: Random, header: bytes, other: bytes) -> bytes:
    """Make an envelope field extreme, duplicate or remove a repeated one, or swap columns."""
    envelope = pb.Envelope.FromString(header)
    target = rng.choice([envelope, getattr(envelope, envelope.WhichOneof("record"))])
    fields = list(target.DESCRIPTOR.fields)
    for _ in range(rng.choice((1, 1, 2))):
        field_changed(rng, target, rng.choice(fields))
    if rng.random() < 0.1:
        envelope.MergeFromString(other)
    return envelope.SerializeToString()


def field_changed(rng: Random, target, field) -> None:
    """Change one field of a protobuf message, of any kind."""
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map or (field.containing_oneof is not None and field.message_type is not None):
        return
    if field.is_repeated:
        repeated_changed(rng, getattr(target, field.name), field)
    elif field.message_type is not None:
        inner = getattr(target, field.name)
        field_changed(rng, inner, rng.choice(list(inner.DESCRIPTOR.fields)))
    else:
        setattr(target, field.name, scalar(rng, field))


def repeated_changed(rng: Random, values, field) -> None:
    """Duplicate, remove, move or replace an entry."""
    kind = rng.randrange(4)
    if not len(values):
        return
    at = rng.randrange(len(values))
    if kind == 0:
        values.append(values[at])
    elif kind == 1:
        del values[at]
    elif kind == 2:
        values.insert(0, values[at])
    elif field.message_type is not None:
        field_changed(rng, values[at], rng.choice(list(values[at].DESCRIPTOR.fields)))
    else:
        values[at] = scalar(rng, field)


def scalar(rng: Random, field):
    """A value of a scalar field's type."""
    if field.cpp_type == field.CPPTYPE_STRING:
        drawn = rng.choice(("", "x", "é" * 9, "y" * 2_000))
        return drawn.encode() if field.type == field.TYPE_BYTES else drawn
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    bits = 31 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32, field.CPPTYPE_ENUM) else 63
    number = rng.choice(EXTREMES) & ((1 << bits) - 1)
    is_signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
    return -number if is_signed and rng.random() < 0.3 else number


# --- frames -----------------------------------------------------------------------------------------------------------


def fuzzed(number: int, valid: list[bytes]) -> bytes:
    """The frame with a number."""
    rng = Random(number)
    message, other = rng.choice(valid), rng.choice(valid)
    kind = rng.random()
    if kind < 0.1:
        return bytes_changed(rng, message, other)
    parts, others = taken_apart(message), taken_apart(other)
    if kind < 0.35:
        parts = parts._replace(header=bytes_changed(rng, parts.header, others.header))
    elif kind < 0.65:
        parts = parts._replace(header=envelope_changed(rng, parts.header, others.header))
    elif kind < 0.95:
        body = bytes_changed(rng, parts.body, others.body)
        parts = parts._replace(body=body + bytes(-len(body) % 8))
    else:
        parts = parts._replace(body=others.body)
    return sealed(parts)


def fault(frame: bytes) -> str | None:
    """The fault of a frame's decoding; None if it is refused, or a record with one canonical form."""
    try:
        record = decode(frame)
    except WireError:
        record = None
    except Exception:  # noqa: BLE001  (a reader must never raise this)
        return traceback.format_exc()
    try:
        if record is None:
            return _fault_of_peek(frame)
        for column in arrow_columns(record):
            column.validate(full=True)
        canonical = encode(record)
        again = encode(decode(canonical))
        kind = peek(frame).kind
    except Exception:  # noqa: BLE001
        return f"it was taken for a {type(record).__name__}\n{traceback.format_exc()}"
    if again != canonical:
        return f"a {type(record).__name__} has two forms"
    return None if kind is type(record) else f"peek says {kind.__name__}, decode {type(record).__name__}"


def arrow_columns(record) -> Iterator[pa.Array]:
    """A record's Arrow columns, which readers take unchecked."""
    for carrier in (record, *getattr(record, "slices", ()), *getattr(record, "unjoined", ())):
        for name in ("keys", "traces", "payload", "rows"):
            held = getattr(carrier, name, None)
            if isinstance(held, pa.RecordBatch):
                yield from held.columns
            elif isinstance(held, pa.Array):
                yield held


def _fault_of_peek(frame: bytes) -> None:
    try:
        peek(frame)
    except WireError:
        return


def fuzz(numbers: range, valid: list[bytes]) -> tuple[Counter[str], list[Broken]]:
    """The numbers of refused and accepted frames, and the frames that were neither."""
    counts: Counter[str] = Counter()
    broken = []
    for number in numbers:
        frame = fuzzed(number, valid)
        what = fault(frame)
        if what is not None:
            broken.append(Broken(number, frame, what))
        counts["frames"] += 1
    return counts, broken


# --- in processes -----------------------------------------------------------------------------------------------------

_valid: list[bytes] = []


def _begin() -> None:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (size + ALLOCATED_BYTES_MAX, resource.RLIM_INFINITY))


def _run(numbers: range) -> tuple[Counter[str], list[Broken]]:
    faulthandler.dump_traceback_later(CHUNK_S, exit=True)
    try:
        return fuzz(numbers, _valid)
    finally:
        faulthandler.cancel_dump_traceback_later()


def fuzz_all(numbers: range, jobs: int) -> Iterator[tuple[range, list[Broken]]]:
    """Each chunk with its broken frames, in order. Raises BrokenProcessPool if a frame ends its process."""
    _valid[:] = corpus()
    chunks = [numbers[at : at + CHUNK] for at in range(0, len(numbers), CHUNK)]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, _begin) as pool:
        for chunk, (_, broken) in zip(chunks, pool.map(_run, chunks), strict=True):
            yield chunk, broken


def main(say: Callable[[str], object] = print) -> int:
    """Fuzz by the command line's options; the exit status is 1 if a frame was neither refused nor a record."""
    parser = argparse.ArgumentParser(description="Fuzz the wire format.")
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--from", dest="start", type=int, default=secrets.randbelow(1 << 62))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    say(f"{options.frames:,} frames from {options.start} on")
    begun, shown, done, broken = time.monotonic(), 0.0, options.start, []
    try:
        for chunk, found in fuzz_all(range(options.start, options.start + options.frames), options.jobs):
            broken += found
            done = chunk.stop
            if (spent := time.monotonic() - begun) - shown > 60:
                shown = spent
                say(f"{done - options.start:,} frames, {(done - options.start) / spent:,.0f} a second")
    except BrokenProcessPool:
        say(f"a process died or hung; its frame is one of {done}..{done + CHUNK * options.jobs}")
        return 1
    for each in broken[:5]:
        say(f"frame {each.number}, {each.frame.hex()}\n{each.what}\nreplay: --from {each.number} --frames 1")
    say(f"{options.frames:,} frames in {time.monotonic() - begun:.0f} s: {len(broken)} neither refused nor records")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
