"""The rows of a join, made while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pyarrow as pa

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.engine import Engine
from spojoin.embedded.fed_files import fed
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.refused import RefusedRows
from spojoin.embedded.refused_words import tell_refused
from spojoin.embedded.reject_limit import RejectLimit


class JoinRows(ArrowRows):
    """What a join gives; start: opens its engine and inputs for a reading.

    limit: how many rows may be refused
    """

    def __init__(
        self, schema: pa.Schema, start: Callable[[], tuple[Engine, list[InputFile]]], limit: RejectLimit
    ) -> None:
        super().__init__(schema)
        self._start = start
        self._limit = limit

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. Raises BadData at the end if more rows were refused than the limit allows."""
        engine, inputs = self._start()
        refused = RefusedRows(inputs, None)
        with closing(engine):
            for _, found in fed(engine, inputs):
                yield from found
                refused.write(engine.take_rejects())
            yield from engine.finish()
        refused.write(engine.take_rejects())
        report = refused.figures()
        self.rejected = report["rejected_by_reason"]
        tell_refused(report, engine.query, self._limit)
