"""Results as Kafka messages that clients can read without this package.

Frames form: one message for each result; the value is a plain Arrow IPC stream. JSON form: one message for each probe.
Row forms: one message for each row, as Avro or JSON Schema in Confluent's wire format, or plain JSON for a select
list; with a key if the query names one. Except in the frames form, a result without rows is one message without a
value, so that the output always shows its progress. The headers hold all that services need to know about a message,
with numbers as decimal text:

    spojoin-generation              the generation of the query that answered, from 1; it has its own frames and seqs
    spojoin-sinks                   only if there are several: how many partitions the generation's results have; each
                                    holds every such frame, and counts its own matches
    spojoin-by-key                  1 if each of them has the rows with its keys of every frame instead
    spojoin-frame, spojoin-begin    the frame, and the position where the result starts
    spojoin-end, spojoin-last       the position where it ends, and 1 if that is the frame's end, otherwise 0; only on
                                    the last message of a result
    spojoin-seq                     JSON and row forms: the probe of this message; the output ascends by it
    spojoin-row                     row forms: the row's number within its probe, from 0; not on the probe's last row,
                                    unless by key
    traceparent                     row forms: the one of the probe's input record, if the query asks for it
    spojoin-produced                when the inputs were produced, run-length coded (see `pack_produced`)
    spojoin-matches                 for people: matches in all results up to the message's end, or if it is not the
                                    last message of its result, up to the result's start
    spojoin-takeover                on the last message of a frame: how far the inputs are answered, a `Takeover` record
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.arrays import I64, U32
from spojoin.errors import WireError
from spojoin.model import TRACEPARENT
from spojoin.wire.codec import decode, encode
from spojoin.wire.columns import ipc_batch, ipc_bytes
from spojoin.wire.headers import FORMS
from spojoin.wire.invariants import SINKS_MAX, TUPLES_MAX
from spojoin.wire.records import Result, Takeover
from spojoin.wire.result_forms import FRAMES, JSON

Headers = dict[str, bytes]

GENERATION = "spojoin-generation"
SINKS = "spojoin-sinks"
BY_KEY = "spojoin-by-key"
FRAME = "spojoin-frame"
BEGIN = "spojoin-begin"
END = "spojoin-end"
LAST = "spojoin-last"
SEQ = "spojoin-seq"
ROW = "spojoin-row"
PRODUCED = "spojoin-produced"
MATCHES = "spojoin-matches"
TAKEOVER = "spojoin-takeover"
CONTENT_TYPE = "content-type"

_FORM = FORMS[Result]
_ALL_ROWS = 2**63 - 1

#: number of runs, first time in ms, and the widths in bytes of the time differences and of the run lengths
_PRODUCED = struct.Struct("<IqBB")
_SIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("i1"), 2: np.dtype("<i2"), 4: np.dtype("<i4"), 8: np.dtype("<i8")}
_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}


class OutputMessage(NamedTuple):
    """A message of the results topic."""

    headers: Headers
    value: bytes
    key: bytes | None = None


class ResultProgress(NamedTuple):
    """The progress of the output up to a message.

    Results are out for the positions of `frame_id` before `position`, which is the frame's end if `is_last`. In the
    forms with several messages a result, the messages of probes up to `seq` are out too; if `row` is given, probe
    `seq` is out only up to that row. Messages that are out must not be written again. `matches` counts the matches of
    all results that are out; 0 if the message has no count. Of `sinks` partitions, each holds every such frame; if
    `by_key`, each holds its rows of every frame.
    """

    frame_id: int
    position: int
    is_last: bool
    seq: int | None
    generation: int = 1
    matches: int = 0
    row: int | None = None
    sinks: int = 1
    by_key: bool = False

    @property
    def step(self) -> int:
        """To the next frame in the partition."""
        return 1 if self.by_key else self.sinks

    @property
    def following(self) -> tuple[int, int]:
        """The frame and the position that the partition lacks next."""
        return (self.frame_id + self.step, 0) if self.is_last else (self.frame_id, self.position)

    @property
    def place(self) -> tuple[int, int]:
        """The last probe and row that are out, ascending with the output; (-1, 0) if no probe is named."""
        return (-1, 0) if self.seq is None else (self.seq, _ALL_ROWS if self.row is None else self.row)


def matches_of(result: Result) -> int:
    """The number of matches: the sum of column `matches`, one for each pair, or the result's own number."""
    if result.probes is not None:  # the columns are the user's and may have any name
        return result.matches
    names = result.rows.schema.names
    if "matches" in names and not result.matches:
        return int(result.rows.column("matches").to_numpy().sum())
    return result.rows.num_rows if names[:1] == ["probe_seq"] else result.matches


def result_to_message(result: Result, matches_before: int = 0) -> OutputMessage:
    """The frames form of a result; `matches_before` counts the matches of all earlier results."""
    _FORM.check(result)
    headers = {**_start(result), **_close(result, matches_before), CONTENT_TYPE: FRAMES.content_type}
    return OutputMessage(headers, ipc_bytes(result.rows).to_pybytes())


def result_from_message(headers: Mapping[str, bytes], value: bytes) -> Result:
    """The result of a message in frames form, with rows that view `value`; WireError if either is invalid."""
    produced_ms, produced_runs = unpack_produced(_get(headers, PRODUCED))
    result = Result(
        frame_id=_number(headers, FRAME),
        begin=_number(headers, BEGIN, TUPLES_MAX),
        end=_number(headers, END, TUPLES_MAX),
        is_last=bool(_number(headers, LAST, 1)),
        rows=ipc_batch(value),
        produced_ms=produced_ms,
        produced_runs=produced_runs,
        generation=_generation(headers),
        sinks=_sinks(headers),
    )
    _FORM.check(result)
    return result


def result_messages_json(result: Result, matches_before: int = 0) -> list[OutputMessage]:
    """The JSON form: an object per probe, with a list of `pairs` for a pairs result; binaries as base64.

    A result without rows gives one message with an empty value. `matches_before`: the matches of all earlier results.
    """
    _FORM.check(result)
    start = {**_start(result), CONTENT_TYPE: JSON.content_type, MATCHES: _decimal(matches_before)}
    messages = [
        OutputMessage({**start, SEQ: _decimal(seq)}, orjson.dumps(probe)) for seq, probe in _probes(result.rows)
    ] or [OutputMessage(start, b"")]
    messages[-1].headers.update(_close(result, matches_before))
    return messages


def result_messages_rows(
    result: Result,
    values: Sequence[bytes],
    content_type: bytes,
    matches_before: int = 0,
    keys: Sequence[bytes | None] | None = None,
) -> list[OutputMessage]:
    """A row form: a message for each row, with the values and keys given. See `result_messages_json` for the rest."""
    _FORM.check(result)
    start = {**_start(result), CONTENT_TYPE: content_type, MATCHES: _decimal(matches_before)}
    messages = [
        OutputMessage({**start, **place}, value, key)
        for place, value, key in zip(_places(result), values, keys or [None] * len(values), strict=True)
    ] or [OutputMessage(start, b"")]
    messages[-1].headers.update(_close(result, matches_before))
    return messages


def progress(headers: Mapping[str, bytes]) -> ResultProgress:
    """The progress of the output up to and including a message of any form; WireError if spojoin didn't write it."""
    at = END if END in headers else BEGIN
    return ResultProgress(
        frame_id=_number(headers, FRAME),
        position=_number(headers, at, TUPLES_MAX),
        is_last=END in headers and bool(_number(headers, LAST, 1)),
        seq=_number(headers, SEQ) if SEQ in headers else None,
        generation=_generation(headers),
        matches=_number(headers, MATCHES) if MATCHES in headers else 0,
        row=_number(headers, ROW) if ROW in headers else None,
        sinks=_sinks(headers),
        by_key=BY_KEY in headers,
    )


def takeover_of(headers: Mapping[str, bytes]) -> Takeover | None:
    """Where a generation that continues after a message would begin; None if the message doesn't contain this."""
    if TAKEOVER not in headers:
        return None
    found = decode(headers[TAKEOVER])
    if not isinstance(found, Takeover):
        raise WireError(f"header {TAKEOVER} holds a {type(found).__name__}")
    return found


def pack_produced(produced_ms: I64, produced_runs: U32) -> bytes:
    """Times, as differences, and run lengths as bytes; each column has the smallest width that holds all its values."""
    if not len(produced_ms):
        return b""
    steps = _narrowed(np.diff(produced_ms), _SIGNED)
    runs = _narrowed(produced_runs, _UNSIGNED)
    head = _PRODUCED.pack(len(runs), int(produced_ms[0]), steps.itemsize, runs.itemsize)
    return head + steps.tobytes() + runs.tobytes()


def unpack_produced(data: bytes) -> tuple[I64, U32]:
    """The inverse of `pack_produced`: int64 (k,) and uint32 (k,)."""
    if not data:
        return np.zeros(0, np.int64), np.zeros(0, np.uint32)
    if len(data) < _PRODUCED.size:
        raise WireError(f"header {PRODUCED} has {len(data)} bytes, expected at least {_PRODUCED.size}")
    count, first, step_size, run_size = _PRODUCED.unpack_from(data)
    if step_size not in _SIGNED or run_size not in _UNSIGNED:
        raise WireError(f"header {PRODUCED} claims widths of {step_size} and {run_size} bytes")
    runs_at = _PRODUCED.size + (count - 1) * step_size
    if not count or runs_at + count * run_size != len(data):
        raise WireError(f"header {PRODUCED} has {len(data)} bytes, which {count} runs do not fill")
    times = np.full(count, first, np.int64)
    times[1:] += np.cumsum(np.frombuffer(data, _SIGNED[step_size], count - 1, _PRODUCED.size), dtype=np.int64)
    return times, np.frombuffer(data, _UNSIGNED[run_size], count, runs_at).astype(np.uint32)


def _narrowed(values: NDArray[Any], widths: dict[int, np.dtype[Any]]) -> NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    fits = next(d for d in widths.values() if np.iinfo(d).min <= low and high <= np.iinfo(d).max)
    return values.astype(fits)


def _start(result: Result) -> Headers:
    several = {SINKS: _decimal(result.sinks)} if result.sinks > 1 else {}
    if result.numbers is not None:
        several[BY_KEY] = b"1"
    return {
        GENERATION: _decimal(result.generation),
        **several,
        FRAME: _decimal(result.frame_id),
        BEGIN: _decimal(result.begin),
    }


def _close(result: Result, matches_before: int) -> Headers:
    behind = {} if result.behind is None else {TAKEOVER: encode(result.behind)}
    return {
        **behind,
        MATCHES: _decimal(matches_before + matches_of(result)),
        END: _decimal(result.end),
        LAST: _decimal(int(result.is_last)),
        PRODUCED: pack_produced(result.produced_ms, result.produced_runs),
    }


def _decimal(number: int) -> bytes:
    return b"%d" % number


def _get(headers: Mapping[str, bytes], name: str) -> bytes:
    value = headers.get(name)
    if value is None:
        raise WireError(f"a result's message lacks the header {name}")
    return value


def _generation(headers: Mapping[str, bytes]) -> int:
    """The generation that answered; 1 for results from versions that had no generations."""
    return _number(headers, GENERATION) if GENERATION in headers else 1


def _sinks(headers: Mapping[str, bytes]) -> int:
    """How many partitions the generation's results have."""
    return max(1, _number(headers, SINKS, SINKS_MAX)) if SINKS in headers else 1


def _number(headers: Mapping[str, bytes], name: str, most: int = 2**63 - 1) -> int:
    text = _get(headers, name)
    if not text.isdigit() or len(text) > 19 or int(text) > most:
        raise WireError(f"header {name} is {text!r}, expected a decimal number from 0 to {most}")
    return int(text)


def _places(result: Result) -> Iterator[Headers]:
    """For each row, the headers with its probe, its number within the probe, and the probe's trace."""
    probes = _probes_of_rows(result)
    traces = repeat(None) if result.traces is None else result.traces.to_pylist()
    numbers = _numbered(probes) if result.numbers is None else result.numbers.tolist()
    for probe, row, trace in zip(probes, numbers, traces, strict=False):
        place = {SEQ: _decimal(probe)} if row is None else {SEQ: _decimal(probe), ROW: _decimal(row)}
        yield place if trace is None else {**place, TRACEPARENT: trace.encode()}


def _numbered(probes: list[int]) -> Iterator[int | None]:
    """The number of each row within its probe; None for the last one, which shows that the probe's rows are out."""
    row = 0
    for probe, following in zip(probes, [*probes[1:], None], strict=True):
        yield row if probe == following else None
        row = row + 1 if probe == following else 0


def _probes_of_rows(result: Result) -> list[int]:
    rows = result.rows
    if result.probes is None and not rows.num_rows:
        return []
    # in other outputs they are the first column
    found: list[int] = (rows.column(0).to_numpy() if result.probes is None else result.probes).tolist()
    return found


def _probes(rows: pa.RecordBatch) -> Iterator[tuple[int, dict[str, Any]]]:
    names = rows.schema.names
    cells = [_json_cells(column) for column in rows.columns]
    if names[0] == "probe_seq":
        yield from _grouped(rows.column(0).to_numpy(), names[1:], cells[1:])
    else:
        for row in zip(*cells, strict=True):
            yield row[0], dict(zip(names, row, strict=True))


def _grouped(probes: I64, names: list[str], cells: list[list[Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    bounds = [0, *(np.flatnonzero(np.diff(probes)) + 1).tolist(), len(probes)]
    for begin, end in pairwise(bounds):
        if begin < end:
            rows = zip(*(column[begin:end] for column in cells), strict=True)
            pairs = [dict(zip(names, row, strict=True)) for row in rows]
            yield int(probes[begin]), {"probe_seq": int(probes[begin]), "pairs": pairs}


def _json_cells(column: pa.Array[Any]) -> list[Any]:
    cells: list[Any] = column.to_pylist()
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [None if cell is None else base64.b64encode(cell).decode() for cell in cells]
    return cells


class ResultSequence:
    """Accepts a record of a partition iff it is the first or begins where the partition's output so far ends."""

    def __init__(self) -> None:
        self._next: tuple[int, int] | None = None
        self._place = (-1, 0)
        self._generation = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Where the output so far ends: generation, frame, and position in it; zeros before the first record."""
        return (self._generation, *(self._next or (0, 0)))

    def accepts(self, begin: int, progress: ResultProgress) -> bool:
        """Whether a record is new; `begin` is the position in its frame where it starts.

        In the forms with several messages a result, these begin at the same position; probe and row distinguish them.
        """
        if progress.generation < self._generation:
            return False
        if progress.generation > self._generation:
            self._go_over(progress)
        if self._next is not None and (progress.frame_id, begin) != self._next:
            return False
        if progress.seq is not None:
            if progress.place <= self._place:
                return False
            self._place = progress.place
        self._next = progress.following
        return True

    def _go_over(self, found: ResultProgress) -> None:
        """Go over to a new generation, which counts frames and seqs anew, from the partition's first frame on."""
        if self._generation:
            self._next, self._place = (found.frame_id % found.step, 0), (-1, 0)
        self._generation = found.generation
