"""A process's outboxes: what it appends in transactions, each role in its own, and what it appends at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from spojoin.ports.interfaces import Clock, Log
from spojoin.protocol.access import SHARING
from spojoin.protocol.machine import Emit, ResultPosition
from spojoin.protocol.topology import Edge, Topic
from spojoin.runtime.outbox import SETTLE_TIMEOUT_S, Outbox, OutputSoFar, WriteMode
from spojoin.runtime.topics import Topics
from spojoin.telemetry.metrics import Metrics


class Departures:
    """Gives each emit to the outbox of its topic. Each outbox has a writer of its own.

    ids: transactional ids by a topic that is written in transactions
    mode: how results are written
    """

    def __init__(
        self,
        log: Log[bytes],
        edge: Edge,
        ids: Mapping[Topic, str],
        place: tuple[Topics, Metrics, Clock],
        mode: WriteMode,
    ) -> None:
        self._log = log
        self._place = place
        self._mode = mode
        self._ids = ids
        self._sharing = _sharing(edge.writes, ids)
        self._by_topic: dict[Topic, Outbox] = {}
        self._outboxes: list[Outbox] = []
        for sharing in self._sharing:
            if not self._is_exclusive(sharing):
                self._open(sharing)

    def _is_exclusive(self, sharing: Sequence[Topic]) -> bool:
        """Whether only the instance that speaks may have a writer of these topics: it fences others."""
        return Topic.RESULTS in sharing or any(topic in self._ids for topic in sharing)

    def open(self) -> None:
        """Open the writers that one instance has alone; whoever had them is fenced.

        An instance that had them itself, and lost its seat and took it again, goes on behind all that it has said: its
        machine won't say that again. Raises Fenced where another instance had them meanwhile.
        """
        for sharing in self._sharing:
            if self._is_exclusive(sharing):
                self._open(sharing)

    def _open(self, sharing: Sequence[Topic]) -> None:
        if (before := self._by_topic.get(sharing[0])) is not None:
            before.settle()
            before.close()
        transactional_id = next((self._ids[topic] for topic in sharing if topic in self._ids), None)
        settles = transactional_id is not None or Topic.RESULTS in sharing
        mode = replace(self._mode, settles=settles, is_transactional=transactional_id is not None)
        self._by_topic |= dict.fromkeys(sharing, Outbox(self._log.writer(transactional_id), *self._place, mode))
        self._outboxes = list(dict.fromkeys(self._by_topic.values()))

    def go_on_after(self, before: OutputSoFar) -> None:
        """The results topic holds this already."""
        if (results := self._by_topic.get(Topic.RESULTS)) is not None:
            results.go_on_after(before)

    def emit(self, action: Emit) -> None:
        """Append a record, or queue it behind a settlement."""
        self._by_topic[action.topic].emit(action)

    def is_full(self) -> bool:
        """Whether the machine should wait before it emits more."""
        return any(outbox.is_full for outbox in self._outboxes)

    def is_settling(self) -> bool:
        """Whether a settlement is under way."""
        return any(outbox.is_settling for outbox in self._outboxes)

    def serve(self, *, is_idle: bool) -> ResultPosition | None:
        """Learn of failed appends, go on with settlements; the result position that one has moved to."""
        moved = None
        for outbox in self._outboxes:
            moved = outbox.settled() or moved
            if outbox.is_due(is_idle=is_idle):
                outbox.begin_settling()
                moved = outbox.settled() or moved
            outbox.serve()
        return moved

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> ResultPosition | None:
        """Wait until everything is readable; the result position that it moved to."""
        return max((found for outbox in self._outboxes if (found := outbox.settle(timeout_s))), default=None)

    @property
    def matches_out(self) -> int:
        """Matches in all results that are readable."""
        results = self._by_topic.get(Topic.RESULTS)
        return 0 if results is None else results.matches_out

    def close(self) -> None:
        """Give up what is not settled."""
        for outbox in self._outboxes:
            outbox.close()


def _sharing(writes: Sequence[Topic], ids: Mapping[Topic, str]) -> list[list[Topic]]:
    """The written topics by their writers; what has no transactions and isn't the results shares one."""
    own = [group for group in SHARING.values() if Topic.RESULTS in group or any(topic in ids for topic in group)]
    rest = [topic for topic in writes if not any(topic in group for group in own)]
    found = [[topic for topic in group if topic in writes] for group in own]
    return [group for group in (*found, rest) if group]
