"""Rows that the engine refuses: counted by reason, with an example each, and written if there is a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spojoin.embedded.arrow_rows import ArrowRows
from spojoin.embedded.inputs import InputFile
from spojoin.embedded.reasons import Reasons
from spojoin.embedded.rejects import Reject, RejectsOfReadings, RejectsWriter
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.wire.records import DeadLetter

MALFORMED = "malformed"


class RefusedRows(WholeOrNothing):
    """The engine's dead letters as rejects; lines that were no rows get their own reason."""

    def __init__(self, files: Sequence[InputFile], writer: RejectsWriter | RejectsOfReadings | None) -> None:
        self._files = files
        self._writer = writer
        self._reasons = Reasons()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Count refused rows and write them to the file, if there is one."""
        rejects = [self._reject(letter) for letter in letters]
        self._reasons.note(rejects)
        if self._writer:
            self._writer.write(rejects)

    def take_of(self, rows: ArrowRows) -> None:
        """Write what other rows refuse as well, if there is a file."""
        if isinstance(self._writer, RejectsWriter):
            rows.write_rejects(self._writer)

    def figures(self) -> dict[str, Any]:
        """As those of Reasons, of the rows of all files."""
        return self._reasons.figures(sum(file.rows for file in self._files))

    def _reject(self, letter: DeadLetter) -> Reject:
        file = self._files[letter.stream]
        is_shown = self._writer is not None or letter.offset in file.reader.malformed
        row = file.row(letter.offset) if is_shown else None
        place = file.place(letter.offset)
        if not isinstance(row, str):
            return Reject(place, file.stream.name, letter.reason, letter.detail, row)
        detail = file.reader.malformed_because.pop(letter.offset, None)
        if detail is None:
            detail = f"the line is no row with the columns of {file.reader.path.name}"
        return Reject(place, file.stream.name, MALFORMED, detail, row)

    def close(self) -> None:
        """Close the file, if there is one."""
        if isinstance(self._writer, RejectsWriter):
            self._writer.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is, if there is one."""
        if isinstance(self._writer, RejectsWriter):
            self._writer.abandon(error)
