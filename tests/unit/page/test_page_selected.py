"""The page shows the columns of a select list, whatever their names."""

import numpy as np
import pyarrow as pa

from spojoin.model import Output
from spojoin.page.latest import result_rows, rows_of
from spojoin.ports.interfaces import LogPartition, LogRecord
from spojoin.wire.records import Result
from spojoin.wire.result_forms import JSON
from spojoin.wire.results import result_messages_rows, result_to_message
from spojoin.wire.row_values import json_objects

ROWS = pa.RecordBatch.from_pydict({"pairs": [1, 2], "as_left": ["x", "y"], "matches": [0.5, None]})
MADE = Result(
    0, 0, 2, True, ROWS, np.empty(0, np.int64), np.empty(0, np.uint32), probes=np.array([7, 7]), matches=2
)  # fmt: skip


def shown(messages):
    records = [LogRecord(LogPartition("t", 0), 0, 0, each.value, tuple(each.headers.items())) for each in messages]
    return result_rows([row for record in records for row in rows_of(record, Output.ROWS)], Output.ROWS)


def test_columns_and_rows_the_latest_first():
    json_rows = result_messages_rows(MADE, json_objects(ROWS), JSON.content_type)
    for messages in (json_rows, [result_to_message(MADE)]):
        table = shown(messages)
        assert table.columns == ["pairs", "as_left", "matches"]
        assert table.rows == [["2", "y", ""], ["1", "x", "0.5"]]
