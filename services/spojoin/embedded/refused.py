"""Rows that the engine refuses: counted by reason, with an example each, and written if there is a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from spojoin.embedded.inputs import InputFile
from spojoin.embedded.rejects import Reject, RejectsWriter
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.wire.records import DeadLetter

MALFORMED = "malformed"
LATE = "late"

#: The ordering's words for a late row: its time, and the latest time before it.
_LATE_BY = re.compile(r"event time (-?\d+) us came after (-?\d+) us")


class Reasons:
    """Why rows were refused so far: how many for each reason, and the first of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._late_by_us = 0

    def note(self, rejects: Iterable[Reject]) -> None:
        """Count refused rows."""
        for each in rejects:
            self._counts[each.reason] += 1
            self._first.setdefault(each.reason, f"{each.stream}, position {each.position}: {each.detail}")
            if each.reason == LATE and (times := _LATE_BY.search(each.detail)):
                self._late_by_us = max(self._late_by_us, int(times[2]) - int(times[1]))

    def figures(self, rows: int) -> dict[str, Any]:
        """What a report says of refused rows. rows: how many were read.

        rejected_first: for each reason the first row, as "stream, position: detail"
        late_by_us: how far the latest of the late rows was behind its stream's time
        """
        return {
            "rows": rows,
            "rejected": self._counts.total(),
            "rejected_by_reason": dict(sorted(self._counts.items())),
            "rejected_first": dict(self._first),
            "late_by_us": self._late_by_us,
        }


class RefusedRows(WholeOrNothing):
    """The engine's dead letters as rejects; lines that were no rows get their own reason."""

    def __init__(self, files: Sequence[InputFile], writer: RejectsWriter | None) -> None:
        self._files = files
        self._writer = writer
        self._reasons = Reasons()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Count refused rows and write them to the file, if there is one."""
        rejects = [self._reject(letter) for letter in letters]
        self._reasons.note(rejects)
        if self._writer:
            self._writer.write(rejects)

    def figures(self) -> dict[str, Any]:
        """As those of Reasons, of the rows that streams have; a table's are taken as a whole."""
        return self._reasons.figures(sum(file.rows for file in self._files if file.stream.table is None))

    def _reject(self, letter: DeadLetter) -> Reject:
        file = self._files[letter.stream]
        is_shown = self._writer is not None or letter.offset in file.reader.malformed
        row = file.row(letter.offset) if is_shown else None
        if not isinstance(row, str):
            return Reject(letter.offset, file.stream.name, letter.reason, letter.detail, row)
        detail = file.reader.malformed_because.pop(letter.offset, None)
        if detail is None:
            detail = f"the line is no row with the columns of {file.reader.path.name}"
        return Reject(letter.offset, file.stream.name, MALFORMED, detail, row)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._writer:
            self._writer.close()

    def abandon(self, error: BaseException) -> None:
        """Close the file as it is, if there is one."""
        if self._writer:
            self._writer.abandon(error)
