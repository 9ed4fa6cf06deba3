"""What a broker does for and to processes: writers that fence each other, and times when it is out of reach.

Topics of which one process at a time has the writer: a process that opens it first brings into the log what it had
under way itself. In transactions, what the one before had under way is aborted, and that process is fenced; without,
both may write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from spojoin.errors import Fenced, Retryable
from spojoin.protocol.access import SHARING
from spojoin.protocol.topology import Role, Topic
from spojoin.simulate import probabilities as odds
from spojoin.simulate.memorylog import SimulatedLog, Target
from spojoin.wire.records import Record

#: Who writes in transactions, as `probabilities.TRANSACTIONAL_WEIGHTS` go with it.
_TRANSACTIONAL = ((Role.ROUTER, Role.SINK), (Role.SINK,), (Role.ROUTER,), ())


class OutOfReach(Retryable):
    """The broker doesn't do what a process needs to go on."""


class AppendsUnderWay:
    """Appends under way, in order within each target, in no order among targets.

    has_lost: another process has aborted some; the process that made them learns it at its next commit, and ends
    """

    def __init__(self) -> None:
        self.queues: dict[Target, deque[Record]] = {}
        self._fenced_from: frozenset[Topic] = frozenset()
        self.has_lost = False

    def __bool__(self) -> bool:
        return bool(self.queues)

    def put(self, target: Target, record: Record) -> None:
        """Send a record on its way. Raises Fenced where another process has the target's writer."""
        if target[0] in self._fenced_from:
            raise Fenced(f"another process has the writer of {target[0]}; this one ends")
        self.queues.setdefault(target, deque()).append(record)

    def may_land(self, held: frozenset[Topic]) -> bool:
        """Whether a record is under way to a topic that isn't held up."""
        return any(target[0] not in held for target in self.queues)

    def land(self, rng: Random, log: SimulatedLog, twice: bool, held: frozenset[Topic] = frozenset()) -> None:
        """One record reaches the log, perhaps twice, in a topic that isn't held up."""
        target = rng.choice([target for target in self.queues if target[0] not in held])
        record = self.queues[target].popleft()
        if not self.queues[target]:
            del self.queues[target]
        log.append(target, record)
        if twice:
            log.append(target, record)

    def settle(self, topics: Iterable[Topic], log: SimulatedLog) -> None:
        """All records of some topics reach the log. Raises Fenced where another process has their writer."""
        for target in self._targets(topics):
            for record in self.queues.pop(target):
                log.append(target, record)
        if self._fenced_from.intersection(topics):
            raise Fenced(f"another process has the writer of {' and '.join(sorted(topics))}; this one ends")

    def abort(self, topics: Iterable[Topic]) -> list[Record]:
        """What is under way to some topics never lands, and nothing may follow; returns what is lost."""
        self._fenced_from = self._fenced_from.union(topics)
        lost = [record for target in self._targets(topics) for record in self.queues.pop(target)]
        self.has_lost |= bool(lost)
        return lost

    def lose_tails(self, rng: Random) -> list[Record]:
        """After its process is gone, only a prefix of each queue will land; returns what won't."""
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
    """What a seed draws about the broker.

    settles: whether writers are opened at all; else every process has one of its own, as in worlds of earlier editions
    transactional: the roles that write in transactions
    outages: how many times nothing can be read or written for a while, or no transaction begins or ends
    freezes: how many times a process stands still
    """

    settles: bool = False
    transactional: frozenset[Role] = frozenset()
    outages: int = 0
    freezes: int = 0


#: Worlds of earlier editions.
NO_BROKER_FAULTS = BrokerFaults()


def draw_broker_faults(seed: int) -> BrokerFaults:
    """A seed's broker, by a generator of its own."""
    rng = Random(f"broker {seed}")
    transactional = rng.choices(_TRANSACTIONAL, odds.TRANSACTIONAL_WEIGHTS)[0]
    return BrokerFaults(True, frozenset(transactional), rng.choice(odds.OUTAGES), rng.choice(odds.FREEZES))


def exclusive(roles: Iterable[Role]) -> list[Role]:
    """Those of some roles that have a writer, always in the same order."""
    return [role for role in SHARING if role in roles]


class Writers:
    """Which process has the writer of which topics."""

    def __init__(self, faults: BrokerFaults) -> None:
        self._faults = faults
        self._holders: dict[Role, AppendsUnderWay] = {}
        #: The topics that get nothing while no transaction ends.
        self.held = frozenset().union(*(SHARING[role] for role in faults.transactional))

    def waits_for(self, roles: Iterable[Role]) -> bool:
        """Whether a process of these roles can't open its writers while no transaction begins."""
        return not self._faults.transactional.isdisjoint(roles)

    def open(self, roles: Iterable[Role], outbox: AppendsUnderWay, log: SimulatedLog) -> list[Record]:
        """A process of these roles opens its writers; returns what the ones before had under way and lose.

        Raises Fenced where it had them, and others have had them since.
        """
        lost: list[Record] = []
        for role in exclusive(roles) if self._faults.settles else ():
            outbox.settle(SHARING[role], log)
            before = self._holders.get(role)
            if role in self._faults.transactional and before is not None and before is not outbox:
                lost += before.abort(SHARING[role])
            self._holders[role] = outbox
        return lost
