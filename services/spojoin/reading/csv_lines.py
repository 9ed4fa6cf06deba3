"""CSV lines as rows: the declared columns in order, then time and key if they aren't among them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.columns.csv_options import NULL_WORDS
from spojoin.columns.extract import Extracted
from spojoin.model import Stream
from spojoin.reading.lines import LineReader, Parsed, one_chunk
from spojoin.reading.readout import BadLine, Ids, Readout, columns_needed, columns_of_a_line
from spojoin.wire.columns import Keys


class CsvLines(LineReader):
    """Reads messages of any number of lines, without a header line; all cells are read as text, exactly."""

    few = 1

    def __init__(self, stream: Stream, needs_time: bool, number: int = 0) -> None:
        super().__init__(stream, needs_time, number)
        self._names = columns_of_a_line(stream)
        self._needed = columns_needed(stream, needs_time)
        self._nulls = pa.array(NULL_WORDS)
        self._last = b",".join([b"x"] * len(self._names))
        self._convert = pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in self._names},
            include_columns=self._needed,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    @staticmethod
    def split(value: bytes) -> list[bytes]:
        """The lines of a message; a line end within quotes also ends the line."""
        return [line for line in value.splitlines() if line.strip()]

    def parse(self, lines: Sequence[bytes]) -> Parsed | None:
        """Arrow's reading, if it has as many good and bad rows as there are lines.

        A line without line ends has at most one row, so as many rows as lines mean one each.
        """
        bad: list[pa_csv.InvalidRow] = []
        try:
            b"\n".join(lines).decode()  # Arrow only checks the text of needed cells
            batch = self._batch(lines, bad)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if batch.num_rows + len(bad) != len(lines) + 1:
            return None
        return Parsed(batch[:-1], [self._fault(row.number - 1, f"it has {row.actual_columns} cells") for row in bad])

    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """Add a fault with the reason for each line that Arrow refuses."""
        readout.faults += [self._fault(id_, self._why(line)) for id_, line in zip(ids.tolist(), lines, strict=True)]

    def judge_refused(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:
        """Keep the reasons of the extraction."""
        readout.faults += [BadLine(int(ids[r.row]), r.reason, r.detail) for r in extracted.refused]

    def _batch(self, lines: Sequence[bytes], bad: list[pa_csv.InvalidRow]) -> pa.RecordBatch:
        """The rows with the expected number of columns, as text, and an added last row; others are appended to `bad`.

        The last row is an added line: a line with an open quote swallows the next line, and so is found.
        """

        def skip(row: pa_csv.InvalidRow) -> str:
            bad.append(row)
            return "skip"

        text = b"\n".join((*lines, self._last))
        table = pa_csv.read_csv(
            io.BytesIO(text),
            pa_csv.ReadOptions(use_threads=False, column_names=self._names, block_size=len(text)),
            pa_csv.ParseOptions(invalid_row_handler=skip),
            self._convert,
        )
        columns = [self._without_null_spellings(name, one_chunk(table.column(name))) for name in self._needed]
        return pa.RecordBatch.from_arrays(columns, names=self._needed)

    def _without_null_spellings(self, name: str, cells: Keys) -> Keys:
        if name == self.stream.key:
            return cells
        choose: Callable[..., Keys] = pc.if_else
        return choose(pc.is_in(cells, value_set=self._nulls), pa.scalar(None, pa.string()), cells)

    def _fault(self, id_: int, why: str) -> BadLine:
        return BadLine(id_, "malformed", f"expected a CSV line of {', '.join(self._names)}: {why}")

    def _why(self, line: bytes) -> str:
        try:
            line.decode()
            self._batch([line], [])
        except UnicodeDecodeError:
            return "its text isn't UTF-8"
        except pa.ArrowInvalid as error:
            return str(error)
        return "it leaves a quote open"
