"""The versions of a table, from where its rows come: the messages of a compacted topic, or files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.check.ordering import Place, StreamRows
from loadgen.check.table_log import NamedVersion
from spojoin.errors import ConfigurationError

I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Columns of a topic's messages: where each is, its key, and the CRC-32 of its value.
TOPIC_SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("crc", pa.int64())])
#: More messages than a partition has.
_OFFSETS = 1 << 48


class VersionRows(NamedTuple):
    """Which rows of its source a version has, in their order; fault: why it isn't what the log calls so."""

    rows: I64
    fault: str | None = None


class VersionSource(Protocol):
    """Where the rows of a table come from. rows: all that can be read, filtered or not; letters: of refused ones."""

    rows: StreamRows
    letters: Mapping[Place, str]

    def version(self, named: NamedVersion) -> VersionRows:
        """The version of that name. Raises ConfigurationError where the source no longer has it."""
        ...

    def unread(self, last: NamedVersion) -> str | None:
        """What the log's last version lacks of the source as it is now, in words; None where nothing."""
        ...


class TopicVersions:
    """The messages that a topic still has (TOPIC_SCHEMA), with the rows that were read of them and the dead letters."""

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
        # Compaction may take away a message that can't be read; its letter stays.
        there = set(places.tolist())
        self.letters: Mapping[Place, str] = {
            place: reason for place, reason in letters.items() if place[0] * _OFFSETS + place[1] in there
        }

    def _readable(self, parsed: StreamRows, places: I64) -> StreamRows:
        """Without the rows of messages that have no key: each such message is refused."""
        keyless = np.flatnonzero(self._keys < 0)
        at = zip(self._partitions[keyless].tolist(), self._offsets[keyless].tolist(), strict=True)
        refused = {(*place, 0): parsed.reasons.get((*place, 0), frozenset()) | {"no-key"} for place in at}
        kept = np.flatnonzero(~np.isin(_numbers_of(parsed, places), keyless))
        return replace(parsed.at(kept), reasons=parsed.reasons | refused)

    def version(self, named: NamedVersion) -> VersionRows:
        """Of each key the rows of the last message before the places that the log names."""
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

    def _before(self, ends: Mapping[int, int]) -> Mask:
        """Which messages lie before these places, by partition."""
        inside = np.zeros(len(self._offsets), np.bool_)
        for partition, end in ends.items():
            inside |= (self._partitions == partition) & (self._offsets < end)
        return inside

    def _kept(self, ends: Mapping[int, int]) -> Mask:
        """Which messages a version has that was read to these places: each key's last one, if it has rows."""
        keyed = np.flatnonzero(self._before(ends) & (self._keys >= 0))
        keys = np.stack((self._partitions[keyed], self._keys[keyed]))[:, ::-1]
        last = len(keyed) - 1 - np.unique(keys, axis=1, return_index=True)[1]
        kept = np.zeros(len(self._offsets), np.bool_)
        kept[keyed[last]] = True
        return kept & self._has_rows

    def _digest(self, kept: Mask, partitions: Iterable[int]) -> int:
        """What tells a version from others: BLAKE2b of partitions, offsets and checksums (P17)."""
        digest = hashlib.blake2b(digest_size=8)
        for partition in sorted(partitions):
            own = np.flatnonzero(kept & (self._partitions == partition))
            numbers = (np.array([partition, len(own)]), self._offsets[own], self._crcs[own])
            digest.update(np.concatenate(numbers).astype("<i8").tobytes())
        return _number(digest)


def _numbers_of(rows: StreamRows, places: I64) -> I64:
    """Of each row the number of its message, of messages at these places."""
    return np.searchsorted(places, rows.places[0] * _OFFSETS + rows.places[1]).astype(np.int64)


def _words(named: NamedVersion) -> str:
    return ", ".join(f"{partition}:{offset}" for partition, offset in named.read)


def _number(digest: hashlib.blake2b) -> int:
    return int.from_bytes(digest.digest(), "little")


class FileVersions:
    """Files that the table was, each version's together; the partition of their rows is the version's number here."""

    def __init__(self, versions: Sequence[Sequence[Path]], rows: StreamRows) -> None:
        self._versions = versions
        self._contents = [_content(files) for files in versions]
        self.rows = rows
        self.letters: Mapping[Place, str] = {}

    def version(self, named: NamedVersion) -> VersionRows:
        """The rows of the files that are that version."""
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
