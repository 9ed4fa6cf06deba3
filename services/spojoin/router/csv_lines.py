"""CSV lines as rows: the declared columns in order, then time and key where they are not among them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.query.extract import Extracted
from spojoin.query.model import Stream
from spojoin.router.columns import columns_needed, columns_of_a_line
from spojoin.router.line_reader import Fault, Ids, LineReader, Readout

#: How a missing value is spelled besides by nothing at all; NaN isn't among them, it has a reason of its own.
NULLS = pa.array(["NA", "N/A", "#N/A", "n/a", "<NA>", "NULL", "Null", "null", "None"])


class CsvLines(LineReader):
    """A message is any number of lines, without a header line. All cells are read as text, exactly."""

    few = 1

    def __init__(self, stream: Stream, needs_time: bool) -> None:
        super().__init__(stream, needs_time)
        self._names = columns_of_a_line(stream)
        self._needed = columns_needed(stream, needs_time)
        self._read_options = pa_csv.ReadOptions(use_threads=False, column_names=self._names, block_size=1 << 30)
        self._convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in self._names},
            include_columns=self._needed,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def split(self, value: bytes) -> list[bytes]:
        """Its lines; a line end within quotes ends the line all the same."""
        return [line for line in value.splitlines() if line.strip()]

    def parse(self, lines: Sequence[bytes]) -> pa.RecordBatch | None:
        """Arrow's reading, if it found one row a line.

        A line without line ends gives one row at most, so as many rows as lines mean one each.
        """
        try:
            table = self._table(lines)
        except pa.ArrowInvalid:
            return None
        return table.combine_chunks().to_batches()[0] if table.num_rows == len(lines) else None

    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """The one line that Arrow refused: say why."""
        for id_, line in zip(ids.tolist(), lines, strict=True):
            readout.faults.append(Fault(id_, "malformed", f"no CSV line of {', '.join(self._names)}: {self._why(line)}"))

    def look_again(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:  # noqa: ARG002
        """What the extraction says stands."""
        readout.faults += [Fault(int(ids[r.row]), r.reason, r.detail) for r in extracted.refused]

    def _table(self, lines: Sequence[bytes]) -> pa.Table:
        text = io.BytesIO(b"\n".join(lines) + b"\n")
        table = pa_csv.read_csv(text, self._read_options, convert_options=self._convert)
        return pa.table({name: self._without_null_spellings(name, table.column(name)) for name in self._needed})

    def _without_null_spellings(self, name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        if name == self.stream.key:
            return cells
        return pc.if_else(pc.is_in(cells, value_set=NULLS), pa.scalar(None, pa.string()), cells)

    def _why(self, line: bytes) -> str:
        try:
            found = self._table([line]).num_rows
        except pa.ArrowInvalid as error:
            return str(error)
        return f"it gives {found} rows"
