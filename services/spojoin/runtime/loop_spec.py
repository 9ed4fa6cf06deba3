"""What a loop runs, and the ports that it runs over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spojoin.ports.interfaces import Clock, Log
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.machine import Machine, ResultPosition
from spojoin.protocol.result_partitions import WHOLE, ResultPartition
from spojoin.protocol.topology import Edge, Role, Topic
from spojoin.runtime.feeds import Parse, TableReading
from spojoin.runtime.originals import OriginalMessages
from spojoin.runtime.topics import Topics
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Reporter
from spojoin.wire.result_writers import FramesWriter, ResultWriter

MachineFactory = Callable[[ResultPosition], Machine]


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """What to run: a machine with these roles; `edge` is what it reads and writes in the log.

    transactional_ids: the ids by topic, for topics that are written in transactions
    tick_ms: the time between `on_time` calls while nothing else happens
    parse: given if the machine reads the users' inputs; table: given if the query also joins with a table
    originals: given if the machine may need rows as they came that reached it in blocks
    presence: the partition of the service's beats, if there are several instances
    share: the partition of the results that the machine writes, if it writes results
    takes_over: whether the machine decides when it speaks; otherwise it speaks from the start
    result_position_ms: how often to read the result position from the store
    credits_frames: how far a router may be ahead of the results
    drain_ms: how long a machine that others wait for continues when the service should end
    fingerprint: of the query's meaning; 0 compares none
    """

    roles: tuple[Role, ...]
    edge: Edge
    topics: Topics
    machine_factory: MachineFactory
    transactional_ids: Mapping[Topic, str] = field(default_factory=dict)
    result_writer: ResultWriter = field(default_factory=FramesWriter)
    result_key: str | None = None
    tick_ms: float = 20.0
    result_position_ms: float = 50.0
    credits_frames: int = 0
    drain_ms: int = 0
    parse: Parse | None = None
    originals: OriginalMessages | None = None
    table: Callable[[], TableReading] | None = None
    fingerprint: int = 0
    presence: int | None = None
    takes_over: bool = False
    share: ResultPartition = WHOLE


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The ports that a loop runs over, and what observes it."""

    log: Log[bytes]
    shared: SharedState
    clock: Clock
    metrics: Metrics
    health: Health
    reporter: Reporter
