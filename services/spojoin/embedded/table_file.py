"""A table's file as services take it: its rows, read once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spojoin.embedded.fed_files import whole
from spojoin.embedded.file_reader import Reader
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.patterns import files_of
from spojoin.embedded.readers import open_reader
from spojoin.embedded.taken_rows import table_rows
from spojoin.model import Query
from spojoin.protocol.machine import TableRows
from spojoin.query.schema import arrow_schema


class FileTable:
    """The table of a query in a file, or in the files of a pattern.

    Raises ConfigurationError where it is missing, or lacks a column.
    """

    def __init__(self, query: Query, path: Path) -> None:
        self.refresh_ms = 0
        self._query = query
        self._path = path
        self._opened()

    def add(self, partition: int, messages: Sequence[Any]) -> None:
        """A file has no messages."""
        raise AssertionError("only the messages of a topic are added")

    def version(self) -> TableRows:
        """The file's rows, told from those of other files by its bytes. Raises ConfigurationError or BadData."""
        digest = hashlib.blake2b(digest_size=8)
        number = len(self._query.inputs) - 1
        stream = self._query.inputs[number]
        reader = self._opened()
        batch = whole(InputFile(number, stream, reader, iter(reader), reader.key_type, needs_time=False))
        for file in files_of(self._path):
            digest.update(file.read_bytes())
        return TableRows(table_rows(self._query, batch, f"table {stream.name}, {self._path}"), _number(digest.digest()))

    def _opened(self) -> Reader:
        stream = self._query.inputs[-1]
        return open_reader(self._path, arrow_schema(stream, needs_time=False), None, stream.file.csv)


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "little")
