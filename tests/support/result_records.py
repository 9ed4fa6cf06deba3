"""Results as the sink writes them: a column x of whole numbers in frames of the test's choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spojoin.wire.records import Result
from spojoin.wire.results import OutputMessage, result_to_message


def result(
    frame: int, values: Sequence[int], begin: int = 0, end: int = 4, is_last: bool = True, generation: int = 1
) -> Result:
    rows = pa.RecordBatch.from_pydict({"x": pa.array(values, pa.int64())})
    nothing = np.empty(0, np.int64), np.empty(0, np.uint32)
    probes = np.arange(len(values))
    return Result(frame, begin, end, is_last, rows, *nothing, generation, probes=probes, matches=len(values))


def with_rows(found: Result, rows: pa.RecordBatch) -> Result:
    return replace(found, rows=rows, probes=np.arange(rows.num_rows), matches=rows.num_rows)


def messages(results: Iterable[Result]) -> list[OutputMessage]:
    return [result_to_message(each) for each in results]
