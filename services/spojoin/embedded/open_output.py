"""An output of results, opened by what stands for it on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from spojoin.embedded.formats import ResultFormat, format_of, real_path
from spojoin.embedded.named_files import NamedFile, check_outputs
from spojoin.embedded.outputs import Outputs
from spojoin.embedded.table_writer import TableWriter
from spojoin.embedded.writers import open_writer


@contextmanager
def open_output(path: Path, schema: pa.Schema, chosen: ResultFormat | None = None) -> Iterator[TableWriter]:
    """A writer for a file, which appears whole at the end of the block or not at all, or for standard output (`-`).

    chosen: the format; None takes that of the extension, on a terminal a table for people, into a pipe JSON lines.

    Raises ConfigurationError where the format is unknown or nothing can be written there.
    """
    format_of(path, chosen)
    file = NamedFile("", real_path(path))
    check_outputs([file])
    with Outputs() as outputs, open_writer(path, schema, outputs.open(file), chosen) as writer:
        yield writer
