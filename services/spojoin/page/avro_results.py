"""Results in Avro as rows of the page, as long as the registry answers."""

from __future__ import annotations

from typing import Any

import structlog

from spojoin.errors import SpoJoinError
from spojoin.ports.interfaces import Clock
from spojoin.runtime.registry import RegisteredResults

#: A registry that failed isn't asked again for so long, since each request may take seconds.
PAUSE_MS = 30_000

_log = structlog.get_logger(__name__)


class AvroResults:
    """Reads rows by their registered schemas."""

    def __init__(self, results: RegisteredResults, clock: Clock) -> None:
        self._results = results
        self._clock = clock
        self._again_ms = 0.0

    def row(self, value: bytes) -> dict[str, Any] | None:
        """The columns of a row; None while its schema can't be had."""
        if self._clock.monotonic_ms() < self._again_ms:
            return None
        try:
            return self._results.row(value)
        except SpoJoinError as error:
            self._again_ms = self._clock.monotonic_ms() + PAUSE_MS
            _log.warning("rows in Avro can't be read", reason=str(error))
            return None
