"""CSV lines as rows: the declared columns in order, then time and key where they are not among them."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from spojoin.model import Stream
from spojoin.query.csv_options import NULL_WORDS
from spojoin.query.extract import Extracted
from spojoin.roles.router.columns import columns_needed, columns_of_a_line
from spojoin.roles.router.line_reader import BadLine, Ids, LineReader, Parsed, Readout, whole
from spojoin.wire.columns import Keys


class CsvLines(LineReader):
    """A message is any number of lines, without a header line. All cells are read as text, exactly."""

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
        """Its lines; a line end within quotes ends the line all the same."""
        return [line for line in value.splitlines() if line.strip()]

    def parse(self, lines: Sequence[bytes]) -> Parsed | None:
        """Arrow's reading, if its good and bad rows are as many as the lines.

        A line without line ends gives one row at most, so that as many rows as lines mean one each.
        """
        bad: list[pa_csv.InvalidRow] = []
        try:
            b"\n".join(lines).decode()  # Arrow looks at the text of needed cells alone
            batch = self._batch(lines, bad)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if batch.num_rows + len(bad) != len(lines) + 1:
            return None
        return Parsed(batch[:-1], [self._fault(row.number - 1, f"it has {row.actual_columns} cells") for row in bad])

    def read_one_by_one(self, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        """Lines that Arrow refuses: say why."""
        readout.faults += [self._fault(id_, self._why(line)) for id_, line in zip(ids.tolist(), lines, strict=True)]

    def look_again(self, ids: Ids, lines: Sequence[bytes], extracted: Extracted, readout: Readout) -> None:
        """What the extraction says stands."""
        readout.faults += [BadLine(int(ids[r.row]), r.reason, r.detail) for r in extracted.refused]

    def _batch(self, lines: Sequence[bytes], bad: list[pa_csv.InvalidRow]) -> pa.RecordBatch:
        """The rows of as many columns as expected, as text, and a last one; the others are appended to `bad`.

        The last row is a line put after all others: one that leaves a quote open swallows the next, and so is found.
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
        columns = [self._without_null_spellings(name, whole(table.column(name))) for name in self._needed]
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
