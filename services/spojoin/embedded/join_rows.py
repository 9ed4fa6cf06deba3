"""The rows of a join, made while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.fed_files import fed
from spojoin.embedded.inputs import is_sorted, may_be_sorted, open_inputs
from spojoin.embedded.refused import RefusedRows
from spojoin.embedded.run import joiner_for
from spojoin.embedded.statements import BareStatement
from spojoin.embedded.writers import result_schema


class JoinRows(ArrowRows):
    """What a statement's join gives. threads: how many share the work; None takes one for each core."""

    def __init__(self, found: BareStatement, threads: int | None = None) -> None:
        super().__init__(result_schema(found.query, []), found.sources.values())
        self._found = found
        self._threads = threads

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        query = self._found.query
        sources = self._found.sources
        inputs = open_inputs(query, sources, sorts=may_be_sorted(query) and not is_sorted(query, sources))
        refused = RefusedRows(inputs, self.rejects.begin())
        with closing(joiner_for(query, threads=self._threads)) as engine:
            try:
                for _, found in fed(engine, inputs):
                    yield from found
                    refused.write(engine.take_rejects())
                yield from engine.finish()
            finally:
                refused.write(engine.take_rejects())
                self._note(refused.figures())
