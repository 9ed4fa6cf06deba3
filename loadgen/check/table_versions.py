"""The files of a table as messages that the checker can read: Arrow IPC streams, or lines of JSON."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, feather, parquet

from loadgen.check.ordering import Place, StreamRows
from loadgen.check.rows import MISSING
from loadgen.check.table_log import NamedVersion
from spojoin.arrays import I64, Flags
from spojoin.errors import ConfigurationError
from spojoin.model import Stream, TypeName

#: Rows of a message, which one Spark task reads.
ROWS_MAX = 65_536
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".bz2", ".zst")
#: In columns of these types only an empty cell is a missing value.
_TEXTS = (TypeName.STRING, TypeName.BINARY, TypeName.UUID)


def files_of(path: Path) -> list[Path]:
    """The file, or the files that match a pattern, by name. Raises ConfigurationError if there is none."""
    found = [path] if path.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
    if not found:
        raise ConfigurationError(f"{path}: there is no such file, of which the query's table was made")
    return found


def messages_of(file: Path, stream: Stream) -> Iterator[bytes]:
    """The rows of a file in their order. Raises ConfigurationError for a format that the checker doesn't read."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    suffix = next((each for each in reversed(suffixes) if each not in _COMPRESSED), "")
    if suffix in (".jsonl", ".ndjson", ".json"):
        with pa.input_stream(str(file)) as lines:
            yield from (line for line in lines.read().split(b"\n") if line.strip())
        return
    for batch in _table(file, suffix, stream).to_batches(ROWS_MAX):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield bytes(sink.getvalue())


def _table(file: Path, suffix: str, stream: Stream) -> pa.Table:
    if suffix in _DELIMITERS:
        return _cells(file, _DELIMITERS[suffix], stream)
    if suffix in (".parquet", ".pq"):
        return parquet.read_table(file)
    if suffix in (".arrow", ".arrows", ".feather"):
        return _arrow(file)
    raise ConfigurationError(
        f"{file}: the checker doesn't read this format: expected CSV, JSON lines, Parquet or Arrow, by its ending"
    )


def _arrow(file: Path) -> pa.Table:
    try:
        return feather.read_table(file)
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(file.read_bytes()).read_all()


def _cells(file: Path, delimiter: str, stream: Stream) -> pa.Table:
    """The cells of a CSV file as text; NULL for empty cells and other spellings of a missing value."""
    with pa.input_stream(str(file)) as source:
        names = csv.open_csv(source, parse_options=csv.ParseOptions(delimiter=delimiter)).schema.names
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    table = csv.read_csv(file, parse_options=parse, convert_options=convert)
    for at, name in enumerate(table.column_names):
        if name in stream.schema and stream.schema[name].name not in _TEXTS:
            cells = pc.utf8_trim_whitespace(table[name])
            table = table.set_column(at, name, pc.if_else(pc.is_in(cells, pa.array(sorted(MISSING))), None, cells))
    return table


#: Columns of a topic's messages: partition, offset, key, and the CRC-32 of the value.
TOPIC_SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("crc", pa.int64())])
#: More messages than any partition has.
_OFFSETS = 1 << 48


class VersionRows(NamedTuple):
    """The source's rows of a version, in order; fault: the difference from the log's version."""

    rows: I64
    fault: str | None = None


class VersionSource(Protocol):
    """A source of a table's rows. rows: all readable rows, filtered or not; letters: dead letters of refused rows."""

    rows: StreamRows
    letters: Mapping[Place, str]

    def version(self, named: NamedVersion) -> VersionRows:
        """A version that the log names. Raises ConfigurationError if the source no longer has it."""
        ...

    def unread(self, last: NamedVersion) -> str | None:
        """The part of the current source that the log's last version lacks, in words; None if it lacks nothing."""
        ...


class TopicVersions:
    """The messages that a topic still has (TOPIC_SCHEMA), with their rows and dead letters."""

    def __init__(self, topic: str, messages: pa.Table, parsed: StreamRows, letters: Mapping[Place, str]) -> None:
        messages = messages.sort_by([("partition", "ascending"), ("offset", "ascending")])
        self._topic = topic
        self._partitions, self._offsets, self._crcs = (
            messages[name].to_numpy().astype(np.int64) for name in ("partition", "offset", "crc")
        )
        places = self._partitions * _OFFSETS + self._offsets
        keys = messages["key"].combine_chunks()
        self._keys = keys.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
        self.rows = self._readable(parsed, places)
        self._messages = _numbers_of(self.rows, places)
        self._has_rows = np.isin(np.arange(len(places)), self._messages)
        # Compaction may remove an unreadable message; its dead letter stays.
        there = set(places.tolist())
        self.letters: Mapping[Place, str] = {
            place: reason for place, reason in letters.items() if place[0] * _OFFSETS + place[1] in there
        }

    def _readable(self, parsed: StreamRows, places: I64) -> StreamRows:
        """The rows of messages with a key; others are refused."""
        keyless = np.flatnonzero(self._keys < 0)
        at = zip(self._partitions[keyless].tolist(), self._offsets[keyless].tolist(), strict=True)
        refused = {(*place, 0): parsed.reasons.get((*place, 0), frozenset()) | {"no-key"} for place in at}
        kept = np.flatnonzero(~np.isin(_numbers_of(parsed, places), keyless))
        return replace(parsed.at(kept), reasons=parsed.reasons | refused)

    def version(self, named: NamedVersion) -> VersionRows:
        """For each key, the rows of its last message before the places in the log."""
        ends = dict(named.read)
        kept = self._kept(ends)
        found = np.flatnonzero(kept[self._messages])
        if self._digest(kept, ends) == named.content:
            return VersionRows(found)
        what = f"version {named.content:016x} of the table"
        if not ends:
            raise ConfigurationError(
                f"the log doesn't say how far the topic {self._topic} was read for {what}, as programs older than this "
                "one wrote it: expected a log that this one began"
            )
        what += f", for which the topic {self._topic} was read to {_words(named)}"
        if int(self._before(ends).sum()) < sum(ends.values()):
            raise ConfigurationError(
                f"{what}, can't be told any more, since messages before that place are gone: check before the topic "
                "is compacted, for which its min.compaction.lag.ms gives time"
            )
        return VersionRows(found, f"{what}, isn't what the topic holds up to there")

    def unread(self, last: NamedVersion) -> str | None:
        """Whether the topic has changed since it was read for that version."""
        ends = dict(last.read) | dict.fromkeys(self._partitions.tolist(), _OFFSETS)
        if self._digest(self._kept(ends), ends) == last.content:
            return None
        return f"the topic {self._topic} was read to {_words(last)} for the log's last version, and has changed since"

    def _before(self, ends: Mapping[int, int]) -> Flags:
        """Whether messages lie before these places, by partition."""
        inside = np.zeros(len(self._offsets), np.bool_)
        for partition, end in ends.items():
            inside |= (self._partitions == partition) & (self._offsets < end)
        return inside

    def _kept(self, ends: Mapping[int, int]) -> Flags:
        """The messages of a version that was read to these places: each key's last message, if it has rows."""
        keyed = np.flatnonzero(self._before(ends) & (self._keys >= 0))
        keys = np.stack((self._partitions[keyed], self._keys[keyed]))[:, ::-1]
        last = len(keyed) - 1 - np.unique(keys, axis=1, return_index=True)[1]
        kept = np.zeros(len(self._offsets), np.bool_)
        kept[keyed[last]] = True
        return kept & self._has_rows

    def _digest(self, kept: Flags, partitions: Iterable[int]) -> int:
        """A version's digest: BLAKE2b of partitions, offsets and checksums (P17)."""
        digest = hashlib.blake2b(digest_size=8)
        for partition in sorted(partitions):
            own = np.flatnonzero(kept & (self._partitions == partition))
            numbers = (np.array([partition, len(own)]), self._offsets[own], self._crcs[own])
            digest.update(np.concatenate(numbers).astype("<i8").tobytes())
        return _number(digest)


def _numbers_of(rows: StreamRows, places: I64) -> I64:
    """For each row, the number of its message among the messages at these places."""
    return np.searchsorted(places, rows.places[0] * _OFFSETS + rows.places[1]).astype(np.int64)


def _words(named: NamedVersion) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in named.read)


def _number(digest: hashlib.blake2b) -> int:
    return int.from_bytes(digest.digest(), "little")


class FileVersions:
    """The files of all versions of a table; the partition of a row is its version's number."""

    def __init__(self, versions: Sequence[Sequence[Path]], rows: StreamRows) -> None:
        self._versions = versions
        self._contents = [_content(files) for files in versions]
        self.rows = rows
        self.letters: Mapping[Place, str] = {}

    def version(self, named: NamedVersion) -> VersionRows:
        if named.content not in self._contents:
            files = ", ".join(str(file) for files in self._versions for file in files)
            raise ConfigurationError(
                f"rows were answered about version {named.content:016x} of the table, which {files} isn't: name the "
                "file as it was then by --table-file"
            )
        number = self._contents.index(named.content)
        return VersionRows(np.flatnonzero(self.rows.places[0] == number))

    def unread(self, last: NamedVersion) -> str | None:
        """Nothing: a file is read once."""
        return None


def _content(files: Sequence[Path]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        digest.update(file.read_bytes())
    return _number(digest)
