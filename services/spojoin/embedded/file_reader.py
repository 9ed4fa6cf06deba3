"""The base of the readers of all formats: columns, keys, and the lines that were not rows.

Readers don't convert text to other types: the extraction that follows converts it exactly and refuses bad rows one by
one. A line that isn't a row at all, or whose text isn't UTF-8, keeps its position as a row of nulls and is remembered
in `malformed`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.embedded.batches import rows_at
from spojoin.embedded.file_content import COMPRESSED_SUFFIXES, BadCell, cells_not_utf8
from spojoin.errors import ConfigurationError

#: Bytes of text parsed at once. A line must fit; a column's text stays far below Arrow's limit of 2 GiB.
BLOCK_BYTES = 4 << 20
#: Bytes shown of a line that can't be read.
SHOWN_BYTES = 20


class Reader(ABC):
    """The rows of one file, in order, as record batches with the columns of `schema`.

    schema: the columns to read with their declared types; the null type where none is declared
    key: the column with the user's key, if any; int64 or string throughout the file, see `key_type`
    malformed: the text of lines that weren't rows, by position; the code that uses an entry removes it
    malformed_because: for some of these lines, a sentence that says why, by position
    found: the file's columns; places: the rows' positions in the file, if they are given in another order
    """

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        self.path = path
        self.schema = schema
        self.key = key
        self.malformed: dict[int, str] = {}
        self.malformed_because: dict[int, str] = {}
        self.found: list[str] = []
        self.places: NDArray[np.int64] | None = None

    @property
    @abstractmethod
    def key_type(self) -> pa.DataType:
        """The type of the key column, or int64 where positions are the keys."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Read the file; a reader is read once."""

    @property
    @abstractmethod
    def fraction(self) -> float:
        """The approximate fraction of the file that has been read, 0 to 1."""

    def why_malformed(self, first: int, rows: int) -> dict[int, str]:
        """Why some of the `rows` lines from position `first` on are not rows, by their places among these lines."""
        plain = f"the line is no row with the columns of {self.path.name}"
        return {
            at - first: self.malformed_because.get(at, plain) for at in self.malformed if first <= at < first + rows
        }

    def _without_bad_text(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The batch with nulls in the rows in which some text isn't UTF-8; `first` is the position of its first row."""
        bad = cells_not_utf8(batch)
        return self._refused(batch, first, bad) if bad else batch

    def _refused(self, batch: pa.RecordBatch, first: int, bad: Mapping[int, BadCell]) -> pa.RecordBatch:
        for row, cell in bad.items():
            self.malformed[first + row] = cell.text
            self.malformed_because[first + row] = cell.sentence(self.path)
        is_bad = np.zeros(batch.num_rows, bool)
        is_bad[list(bad)] = True
        places: pa.Int64Array = pa.array(np.arange(batch.num_rows), pa.int64(), mask=is_bad)
        return rows_at(batch, places)

    def check_has(self, name: str) -> None:
        """Raises ConfigurationError if the file lacks a column, whether or not it is read."""
        self._check_columns(self.found, [name])

    def _check_columns(self, found: Iterable[str], needed: Sequence[str] | None = None) -> None:
        names = self.found = list(found)
        missing = [name for name in (self.schema.names if needed is None else needed) if name not in names]
        if missing:
            raise ConfigurationError(
                f"{self.path} has no column {', '.join(map(repr, missing))}; its columns are {', '.join(names)}. "
                "Rename the column in the file or in the query's schema"
            )
        repeated = [name for name in self.schema.names if names.count(name) > 1]
        if repeated:
            raise ConfigurationError(f"{self.path} has the column {repeated[0]!r} more than once; rename all but one")


class TextReader(Reader):
    """A file of lines, plain or compressed."""

    def __init__(self, path: Path, schema: pa.Schema, key: str | None) -> None:
        super().__init__(path, schema, key)
        self._raw = pa.OSFile(str(path), "rb")
        self._size = self._raw.size()

    @property
    def fraction(self) -> float:
        """The fraction of the file's stored bytes that has been read."""
        return 1.0 if self._raw.closed or not self._size else self._raw.tell() / self._size

    def _open(self) -> pa.NativeFile:
        codec = COMPRESSED_SUFFIXES.get(self.path.suffix.lower())
        return pa.CompressedInputStream(self._raw, codec) if codec else self._raw


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names of columns, made distinct: the second `a` becomes `a_1`."""
    found: list[str] = []
    for name in names:
        used = {*found, *(names if name in found else ())}
        others = (f"{name}_{number}" for number in range(1, len(names) + 1))
        found.append(name if name not in found else next(each for each in others if each not in used))
    return found
