"""When the sink says its position again (rule P9): results may be deleted by time, and the last says where to go on."""

from __future__ import annotations

from spojoin.protocol.topic_config import RESTATED_MS
from spojoin.wire.records import Frame


class Restating:
    """Counts the time since the last result. `frame` is the latest of the log, for the results' columns."""

    def __init__(self) -> None:
        self.frame: Frame | None = None
        self._is_said = True
        self._said_ms = 0

    def said(self) -> None:
        """A result was written."""
        self._is_said = True

    def is_due(self, now_ms: int) -> bool:
        """Whether the position is to be said again now."""
        if self._is_said:
            self._is_said, self._said_ms = False, now_ms
        is_due = now_ms - self._said_ms >= RESTATED_MS and self.frame is not None
        if is_due:
            self._said_ms = now_ms
        return is_due
