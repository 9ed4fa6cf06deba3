"""Messages of input topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class InputMessage(NamedTuple):
    """A message as the broker gave it; `timestamp_ms` is when it was produced."""

    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    key: bytes | None = None
