"""The router as a process."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import structlog

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.protocol.key_columns import BY_KEY, check_key
from spojoin.protocol.machine import InputMachine, ResultPosition
from spojoin.protocol.topology import Role
from spojoin.query.fingerprint import is_same_order
from spojoin.reading.parse import parser
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.roles.router.block_rows import BlockRows
from spojoin.roles.router.closing_router import ClosingRouter
from spojoin.roles.router.config import HANDOVER_FRAMES, RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.router.table_topic import CompactedTable
from spojoin.runtime.feeds import Parse, TableReading
from spojoin.runtime.generations import Serving
from spojoin.runtime.originals import OriginalMessages
from spojoin.runtime.process import leave, main
from spojoin.runtime.registry import registry_of
from spojoin.runtime.service import run
from spojoin.runtime.settings import ENV_PREFIX, Settings, load_settings
from spojoin.runtime.wiring import Wiring

_log = structlog.get_logger(__name__)


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes a router; in the protocol, each life of the machine is a router of its own."""
    query, registry = serving.query, registry_of(settings)
    rows = parser(query, RegisteredSchemas(None if registry is None else registry.find))
    originals = OriginalMessages(rows)

    def machine(result_position: ResultPosition) -> InputMachine:
        made = router(result_position)
        return BlockRows(made, originals) if settings.intakes else made

    def router(result_position: ResultPosition) -> RouterMachine:
        config, beginning = router_config(query, settings), serving.begin(result_position, rows)
        if serving.successor is not None:
            keeps_order = is_same_order(query, serving.successor)
            return ClosingRouter(query, result_position, config, _log.error, beginning, keeps_order=keeps_order)
        return RouterMachine(query, result_position, config, _log.error, beginning)

    router_config(query, settings)  # a contradiction must end the start, not the first life
    if query.layout.workers not in (0, settings.workers):
        raise ConfigurationError(
            f"setting workers is {settings.workers}, and the query's layout asks for {query.layout.workers}: "
            f"set {ENV_PREFIX}WORKERS to that, or remove 'workers' from the layout"
        )
    return Wiring("router", machine, parse=rows, originals=originals, table=_table(query, settings, rows))


def _table(query: Query, settings: Settings, rows: Parse) -> Callable[[], TableReading] | None:
    """The reader of the query's table, if it has one; each life reads the table again."""
    table = query.streams[-1].table
    if table is None:
        return None
    if table.file is None:
        return lambda: CompactedTable(query, rows)
    from spojoin.embedded.inputs import FileTable  # noqa: PLC0415  (few queries need the readers of files)

    reading = FileTable(query, settings.query_file.parent / table.file)
    return lambda: reading


def router_config(query: Query, settings: Settings) -> RouterConfig:
    """The router's part of the settings. Raises ConfigurationError."""
    check_key(query, settings.columns_by)
    return RouterConfig(
        router_id=uuid.uuid4().hex,
        workers=settings.workers,
        workers_max=settings.workers_max,
        columns=settings.columns if query.layout.has_mutable_part else 0,
        columns_by_key=settings.columns_by == BY_KEY,
        frame_tuples=settings.frame_tuples,
        batch_tuples=settings.batch_tuples,
        batch_frames=settings.batch_frames,
        handover_frames=settings.handover_frames or HANDOVER_FRAMES,
        linger_ms=settings.linger_ms,
        credits_frames=settings.credits_frames,
    )


if __name__ == "__main__":
    leave(main(Role.ROUTER, lambda: run({Role.ROUTER: wire}, load_settings())))
