"""`loadgen produce` from its file to its report."""

from __future__ import annotations

import orjson
from rich.console import Console

from loadgen.load import produce as producing
from loadgen.load.connection import Connection
from loadgen.load.kafka_sender import KafkaSender
from loadgen.load.load import Load
from loadgen.load.load_file import ProduceFile, Via
from loadgen.load.open_loop import Behind
from loadgen.load.produce import Produced
from loadgen.load.progress import log_console, sending
from spojoin.errors import ConfigurationError
from spojoin.local.supervise import ending_on_signals


def send(file: ProduceFile) -> None:
    """Send the load and report it."""
    where, load, is_spark = file.connection(), file.load(file.rate, file.duration), file.via is Via.SPARK
    if is_spark:
        _require_spark_can(load)
    with ending_on_signals():
        with where.opened() as log:
            load = producing.settled(log, load, file.rows.partitions, file.retention_bytes)
        produced = _by_spark(load, where) if is_spark else _directly(load, where)
    log_console().print(producing.table(produced))
    if file.report is not None:
        report = orjson.dumps(produced.as_json(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        file.report.write_bytes(report)


def _by_spark(load: Load, where: Connection) -> Produced:
    from loadgen.load.spark_load import produce  # noqa: PLC0415  (an extra)

    return produce(load, where, Console(stderr=True).print)


def _directly(load: Load, where: Connection) -> Produced:
    errors = Console(stderr=True)
    with sending(errors, load) as progress:
        sender = KafkaSender(where, load.message)
        return producing.produce(load, sender, lambda behind: _warn(errors, behind), progress)


def _require_spark_can(load: Load) -> None:
    if load.rows is None:
        raise ConfigurationError("via spark needs an end: give a duration, such as 60s")
    if load.arrivals.on_share < 1:
        raise ConfigurationError("via spark sends evenly: choose another workload, or set rows.on_share to 1")


def _warn(console: Console, behind: Behind) -> None:
    advice = "send batches (rows.format: arrow) of more rows, or share the rate among several load generators"
    console.print(f"[yellow]warning:[/] {behind}; {advice}", highlight=False, soft_wrap=True)
