"""The sink as a process."""

from __future__ import annotations

from spojoin.protocol.topology import Role
from spojoin.query.model import Query
from spojoin.runtime.service import leave, main
from spojoin.runtime.settings import Settings
from spojoin.runtime.wiring import Wiring
from spojoin.sink.machine import SinkMachine


def wire(query: Query, settings: Settings) -> Wiring:
    """How the runtime makes it."""
    return Wiring("sink", lambda watermark: SinkMachine(query, watermark), is_transactional=True)


if __name__ == "__main__":
    leave(main(Role.SINK))
