"""A seed's log, and a broker's effects on processes: writers that fence each other, and outages.

One process at a time has the writer of a topic. A process that opens the writer first brings its own pending appends
into the log. In transactions, the previous process's appends are aborted and that process is fenced; without
transactions, both may write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from loadgen.simulate import probabilities as odds
from spojoin.errors import Fenced, Retryable
from spojoin.protocol.access import SHARING
from spojoin.protocol.topology import Role, Topic
from spojoin.wire.records import Record

Target = tuple[Topic, int]


@dataclass(slots=True)
class Partition:
    """Records from offset `earliest` on."""

    earliest: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.earliest + len(self.records)


class SimulatedLog:
    """All topics of a query; `on_append` is called with every record as it lands."""

    def __init__(self, on_append: Callable[[Target, Record], Record]) -> None:
        self.partitions: dict[Target, Partition] = {}
        self.trims = 0
        self._on_append = on_append

    def create(self, topic: Topic, count: int) -> None:
        """Make partitions 0..count-1 of a topic."""
        for number in range(count):
            self.partitions[topic, number] = Partition()

    def append(self, target: Target, record: Record) -> None:
        """Add a record at the end of its partition."""
        self.partitions[target].records.append(self._on_append(target, record))

    def trim(self, target: Target, before: int) -> None:
        """Delete records below an offset; a trim beyond the end is the caller's bug."""
        partition = self.partitions[target]
        if before > partition.end:
            raise AssertionError(f"{target} is trimmed to {before}, beyond its end {partition.end}")
        if before > partition.earliest:
            del partition.records[: before - partition.earliest]
            partition.earliest = before
            self.trims += 1

    def retained(self, topic: Topic) -> int:
        """The number of records that a topic holds now."""
        return sum(len(p.records) for (t, _), p in self.partitions.items() if t is topic)


#: The roles that write in transactions, in the order of `probabilities.TRANSACTIONAL_WEIGHTS`.
_TRANSACTIONAL = ((Role.ROUTER, Role.SINK), (Role.SINK,), (Role.ROUTER,), ())


class OutOfReach(Retryable):
    """The broker can't serve a process, which must wait."""


class AppendsUnderWay:
    """Pending appends, in order within each target, in no order between targets.

    has_lost: whether another process has aborted some; the appending process learns this at its next commit, and ends
    """

    def __init__(self) -> None:
        self.queues: dict[Target, deque[Record]] = {}
        self._fenced_from: frozenset[Topic] = frozenset()
        self.has_lost = False

    def __bool__(self) -> bool:
        return bool(self.queues)

    def put(self, target: Target, record: Record) -> None:
        """Send a record on its way. Raises Fenced if another process has the target's writer."""
        if target[0] in self._fenced_from:
            raise Fenced(f"another process has the writer of {target[0]}; this one ends")
        self.queues.setdefault(target, deque()).append(record)

    def may_land(self, held: frozenset[Topic]) -> bool:
        """Whether a record is pending for a topic that isn't held up."""
        return any(target[0] not in held for target in self.queues)

    def land(self, rng: Random, log: SimulatedLog, twice: bool, held: frozenset[Topic] = frozenset()) -> None:
        """Land one record, perhaps twice, in a topic that isn't held up."""
        target = rng.choice([target for target in self.queues if target[0] not in held])
        record = self.queues[target].popleft()
        if not self.queues[target]:
            del self.queues[target]
        log.append(target, record)
        if twice:
            log.append(target, record)

    def settle(self, topics: Iterable[Topic], log: SimulatedLog) -> None:
        """Land all records of some topics. Raises Fenced if another process has their writer."""
        for target in self._targets(topics):
            for record in self.queues.pop(target):
                log.append(target, record)
        if self._fenced_from.intersection(topics):
            raise Fenced(f"another process has the writer of {' and '.join(sorted(topics))}; this one ends")

    def abort(self, topics: Iterable[Topic]) -> list[Record]:
        """Abort pending appends to some topics, and allow no more; returns the lost records."""
        self._fenced_from = self._fenced_from.union(topics)
        lost = [record for target in self._targets(topics) for record in self.queues.pop(target)]
        self.has_lost |= bool(lost)
        return lost

    def lose_tails(self, rng: Random) -> list[Record]:
        """Drop a suffix of each queue, since the process is gone; returns the lost records."""
        lost: list[Record] = []
        for target, queue in list(self.queues.items()):
            kept = rng.randint(0, len(queue))
            lost += list(queue)[kept:]
            self.queues[target] = deque(list(queue)[:kept])
            if not kept:
                del self.queues[target]
        return lost

    def _targets(self, topics: Iterable[Topic]) -> list[Target]:
        return [target for target in self.queues if target[0] in topics]


@dataclass(frozen=True, slots=True)
class BrokerFaults:
    """A seed's faults of the broker.

    settles: whether processes open writers; otherwise each process has its own
    transactional: the roles that write in transactions
    outages: how many times the broker stops reads and writes for a while, or the begin and end of transactions
    freezes: the number of times that a process stands still
    """

    settles: bool = False
    transactional: frozenset[Role] = frozenset()
    outages: int = 0
    freezes: int = 0


NO_BROKER_FAULTS = BrokerFaults()


def draw_broker_faults(seed: int) -> BrokerFaults:
    """A seed's broker, drawn by a separate generator."""
    rng = Random(f"broker {seed}")
    transactional = rng.choices(_TRANSACTIONAL, odds.TRANSACTIONAL_WEIGHTS)[0]
    return BrokerFaults(True, frozenset(transactional), rng.choice(odds.OUTAGES), rng.choice(odds.FREEZES))


def exclusive(roles: Iterable[Role]) -> list[Role]:
    """The roles that have a writer, always in the same order."""
    return [role for role in SHARING if role in roles]


class Writers:
    """Which process has the writer of each topic."""

    def __init__(self, faults: BrokerFaults) -> None:
        self._faults = faults
        self._holders: dict[tuple[Role, int], AppendsUnderWay] = {}
        #: The topics that get nothing while no transaction ends.
        self.held = frozenset().union(*(SHARING[role] for role in faults.transactional))

    def waits_for(self, roles: Iterable[Role]) -> bool:
        """Whether a process of these roles can't open its writers while no transaction begins."""
        return not self._faults.transactional.isdisjoint(roles)

    def open(self, roles: Iterable[Role], outbox: AppendsUnderWay, log: SimulatedLog, sink: int = 0) -> list[Record]:
        """Open the writers of a process with these roles; returns the pending records that its predecessors lose.

        sink: its number, since each sink has its own writer. Raises Fenced if the process had them, and others have had
        them since.
        """
        lost: list[Record] = []
        for role in exclusive(roles) if self._faults.settles else ():
            outbox.settle(SHARING[role], log)
            writer = role, sink if role is Role.SINK else 0
            before = self._holders.get(writer)
            if role in self._faults.transactional and before is not None and before is not outbox:
                lost += before.abort(SHARING[role])
            self._holders[writer] = outbox
        return lost
