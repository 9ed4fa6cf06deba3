"""What a role gives the runtime to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spojoin.errors import ConfigurationError
from spojoin.runtime.generations import Serving
from spojoin.runtime.inputs import Parse
from spojoin.runtime.loop import MachineFactory
from spojoin.runtime.outbox import RowForm
from spojoin.runtime.settings import ENV_PREFIX, Settings
from spojoin.runtime.table_feed import TableReading


@dataclass(frozen=True, slots=True)
class Wiring:
    """A service: its name among its query's services and how its machine is made.

    `tick_ms` is the time between `on_time` calls. `parse` makes rows of the users' messages, where the machine takes
    them, `table` makes what reads the query's table. `row_form` is the form of results, where they have a message for
    each row.
    """

    service: str
    machine_factory: MachineFactory
    tick_ms: float = 20.0
    parse: Parse | None = None
    row_form: RowForm | None = None
    table: Callable[[], TableReading] | None = None


Wire = Callable[[Serving, Settings], Wiring]


def numbered(settings: Settings, name: str, count: int) -> int:
    """The setting `joiner` or `worker`, from 0 to `count` - 1. Raises ConfigurationError."""
    value = getattr(settings, name)
    if value is None:
        raise ConfigurationError(f"setting {name} is missing: set {ENV_PREFIX}{name.upper()} to 0..{count - 1}")
    if not 0 <= value < count:
        raise ConfigurationError(f"setting {name} is {value}; expected 0..{count - 1}")
    return int(value)
