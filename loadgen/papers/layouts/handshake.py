"""The low-latency handshake join: a chain of workers that talk only to their neighbours.

Roy, Teubner, Gemulla, "Low-latency handshake join" (PVLDB 7(9), 2014). Left tuples enter at worker 0 and travel to the
right; right tuples enter at the last worker and travel to the left. A worker passes a tuple on as soon as it gets it
(section 3, fast forwarding). Each tuple rests at one worker of the chain, its home, assigned in turn (section 4), and
every worker compares it with the opposite tuples that rest there.

Departures from the paper, and the reasons:

- Two tuples that travel towards each other must not miss each other on a link, nor meet twice. The paper keeps copies
  of tuples in transit until they are acknowledged, and signals the end of each tuple's journey. Here a worker compares
  a frame's tuples once both flows have brought that frame: the frame number takes the place of an acknowledgement, and
  each pair is found exactly once, at the home of its earlier tuple. Forwarding doesn't wait for this.
- Tuples travel in frames, not one by one: a message is one flow's slice of a frame.
- In a self join every tuple travels both ways, and both copies have one home.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from loadgen.papers.layouts.costs import WorkDone
from loadgen.papers.layouts.evaluator import Evaluator
from loadgen.papers.layouts.replicated import SplitJoin
from spojoin.evaluation.interface import summed
from spojoin.model import Query
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import Action, Emit, WindowMachine
from spojoin.protocol.topology import Topic
from spojoin.wire.records import Barrier, Frame, Part, Record, StreamSlice

#: The flows: left tuples travel to higher worker numbers, right ones to lower.
RIGHTWARD: Final = 0
LEFTWARD: Final = 1


@dataclass(frozen=True, slots=True)
class Passing:
    """One flow's slice of a frame on its way; `head` is the frame without any slice."""

    flow: int
    head: Frame
    piece: StreamSlice


class HandshakeNode:
    """One worker of the chain."""

    def __init__(self, query: Query, worker: int, workers: int) -> None:
        self.evaluator = Evaluator(query, SplitJoin(query), worker, workers, is_fed=True)
        self._query = query
        self._waiting: dict[int, dict[int, StreamSlice]] = {}

    @property
    def load(self) -> WorkDone:
        """The cost of the chain for this worker."""
        return self.evaluator.load

    def on_message(self, message: Passing) -> Iterator[Part]:
        """Take a slice that was already forwarded; report on its frame once both flows have brought it."""
        stream = min(message.flow, len(self._query.streams) - 1)
        self.load.note_received(self._query, stream, len(message.piece))
        here = self._waiting.setdefault(message.head.frame_id, {})
        here[message.flow] = message.piece
        if len(here) == 2:
            del self._waiting[message.head.frame_id]
            slices = (here[RIGHTWARD], here[LEFTWARD])[: len(self._query.streams)]
            yield from self.evaluator.evaluate(replace(message.head, slices=slices))


#: (to worker, flow)
Link = tuple[int, int]
#: Picks, among the links with a message, the one that delivers next; None lets all wait for the next frame.
Pick = Callable[[Sequence[Link]], Link | None]


def _first(links: Sequence[Link]) -> Link:
    return links[0]


class HandshakeChain(WindowMachine):
    """All workers of a chain and the links between them, in one process.

    A link keeps the order of its messages; `pick` chooses among links, by default in turn until no message waits.
    """

    def __init__(self, query: Query, workers: int, pick: Pick = _first) -> None:
        self.nodes = [HandshakeNode(query, worker, workers) for worker in range(workers)]
        self._reader = LogFollower()
        self._links: dict[Link, deque[Passing]] = {}
        self._pick = pick

    def on_record(self, topic: Topic, partition: int, offset: int, record: Record) -> Iterator[Action]:
        """Feed a frame of the log in at both ends, and deliver messages."""
        if not isinstance(record, Frame | Barrier) or not self._reader.accept(record) or isinstance(record, Barrier):
            return
        self._enter(record)
        yield from self.deliver(self._pick)

    def deliver(self, pick: Pick = _first) -> Iterator[Action]:
        """Deliver messages as long as `pick` chooses."""
        while self._links and (link := pick(list(self._links))) is not None:
            yield from self._bring(link)

    def _enter(self, frame: Frame) -> None:
        head, last = replace(frame, slices=()), len(self.nodes) - 1
        self._send((0, RIGHTWARD), Passing(RIGHTWARD, head, frame.slices[0]))
        self._send((last, LEFTWARD), Passing(LEFTWARD, head, frame.slices[-1]))

    def _send(self, link: Link, message: Passing) -> None:
        self._links.setdefault(link, deque()).append(message)

    def _bring(self, link: Link) -> Iterator[Action]:
        waiting = self._links[link]
        message = waiting.popleft()
        if not waiting:
            del self._links[link]
        worker, flow = link
        beyond = worker + (1 if flow == RIGHTWARD else -1)
        if 0 <= beyond < len(self.nodes):
            self._send((beyond, flow), message)
        for part in self.nodes[worker].on_message(message):
            yield Emit(Topic.MATCHES, part.part, part)

    def loads(self) -> list[WorkDone]:
        """The cost of the chain for each worker."""
        return [node.load for node in self.nodes]

    def counters(self) -> dict[str, float]:
        """Only the method's counters, since no service runs a chain."""
        return self.search_counters()

    def search_counters(self) -> dict[str, float]:
        """The method's counters, summed over all workers."""
        return summed(node.evaluator.search_counters() for node in self.nodes)

    def state_tuples(self) -> int:
        """Tuples held in memory."""
        return sum(node.evaluator.tuples for node in self.nodes)

    def state_bytes(self) -> int:
        return sum(node.evaluator.nbytes for node in self.nodes)
