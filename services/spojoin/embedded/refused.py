"""Rows that the engine refuses: counted by reason, with an example each, and written if there is a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from spojoin.embedded.inputs import InputFile
from spojoin.embedded.rejects import Reject, RejectsWriter
from spojoin.embedded.whole_or_nothing import WholeOrNothing
from spojoin.wire.records import DeadLetter

MALFORMED = "malformed"
LATE = "late"

#: The ordering's words for a late row: its time, and the latest time before it.
_LATE_BY = re.compile(r"event time (-?\d+) us came after (-?\d+) us")


class RefusedRows(WholeOrNothing):
    """The engine's dead letters as rejects; lines that were no rows get their own reason.

    late_by_us: how far the latest of the late rows was behind its stream's time
    """

    def __init__(self, files: Sequence[InputFile], writer: RejectsWriter | None) -> None:
        self.late_by_us = 0
        self._files = files
        self._writer = writer
        self._renamed: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Count refused rows and write them to the file, if there is one."""
        rejects = [self._reject(letter) for letter in letters]
        for reject in rejects:
            self._note(reject)
        if self._writer:
            self._writer.write(rejects)

    def by_reason(self, counted: Mapping[str, int]) -> dict[str, int]:
        """The engine's counts, with the lines that were no rows under their own reason."""
        counts = Counter(counted)
        counts.subtract(self._renamed)
        counts[MALFORMED] += self._renamed.total()
        return {reason: count for reason, count in sorted(counts.items()) if count}

    def first_by_reason(self) -> dict[str, str]:
        """For each reason the first row, as "stream, position: detail"."""
        return dict(self._first)

    def _note(self, reject: Reject) -> None:
        self._first.setdefault(reject.reason, f"{reject.stream}, position {reject.position}: {reject.detail}")
        if reject.reason == LATE and (times := _LATE_BY.search(reject.detail)):
            self.late_by_us = max(self.late_by_us, int(times[2]) - int(times[1]))

    def _reject(self, letter: DeadLetter) -> Reject:
        file = self._files[letter.stream]
        row = file.row(letter.offset)
        if not isinstance(row, str):
            return Reject(letter.offset, file.stream.name, letter.reason, letter.detail, row)
        self._renamed[letter.reason] += 1
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
