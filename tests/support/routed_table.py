"""A router between a stream and a compacted topic, without a broker: messages in, the log out as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spojoin.model import Query
from spojoin.protocol.machine import START, Action, Emit, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.reading.parse import parse_messages
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.roles.router.table_topic import CompactedTable
from spojoin.wire.codec import encode
from spojoin.wire.records import Barrier, DeadLetter, Frame


class Keyed(NamedTuple):
    """A message with a key."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp_ms: int = 0


class RoutedTable:
    """Successive routers over one log.

    rows: the stream's messages; changes: the table's; log: records in their order; letters: the table's dead letters
    """

    def __init__(self, query: Query, frame_tuples: int = 4) -> None:
        self.rows: list[Keyed] = []
        self.changes: list[Keyed] = []
        self.log: list[Frame | Barrier] = []
        self.letters: list[DeadLetter] = []
        self._query, self._frame_tuples = query, frame_tuples
        self._lives = 0
        self.start()

    def start(self) -> RouterMachine:
        """Start another router, which claims the log; the previous one may still write."""
        config = RouterConfig(
            router_id=f"router {self._lives}",
            frame_tuples=self._frame_tuples,
            batch_tuples=2 * self._frame_tuples,
            batch_frames=99,
            linger_ms=0,
            credits_frames=999,
        )
        before = getattr(self, "_router", None)
        self._lives += 1
        self._router = RouterMachine(self._query, START, config)
        stream = self._query.inputs[1]
        self._table = CompactedTable(
            self._query, lambda number, partition, messages: parse_messages(stream, False, number, partition, messages)
        )
        self._now_ms = self._read = 0
        for offset, record in enumerate(self.log):
            list(self._router.on_record(Topic.FRAMES, 0, offset, record))
        self._do(self._router.on_caught_up(), self._router)
        self._do(self._router.on_chosen(), self._router)
        self._router.on_inputs([(0, 0)])
        return before or self._router

    def change(self, key: bytes | None, value: bytes | None) -> None:
        """Add a message to the table's topic."""
        self.changes.append(Keyed(len(self.changes), key, value))

    def load(self) -> None:
        """Give the router the topic's current content."""
        if self.changes[self._read :]:
            self._table.add_messages(0, self.changes[self._read :])
        self._read = len(self.changes)
        self._do(self._router.on_table(self._table.version()), self._router)
        self._settle()

    def feed(self, values: Sequence[bytes]) -> None:
        """Send rows of the stream."""
        self.rows += [Keyed(offset, None, value) for offset, value in enumerate(values, len(self.rows))]
        self.take(self._router, self.rows[len(self.rows) - len(values) :])
        self._settle()

    def take(self, router: RouterMachine, messages: Sequence[Keyed]) -> None:
        """Let a router read rows of the stream, whether or not it still owns the log."""
        rows = parse_messages(self._query.inputs[0], False, 0, 0, messages)
        self._do(router.on_rows(0, 0, rows), router)
        self._do(router.on_time(1_000_000), router)

    def encoded(self) -> list[dict[str, object]]:
        """The log's messages."""
        return [{"offset": offset, "value": encode(record)} for offset, record in enumerate(self.log)]

    def _do(self, actions: Iterable[Action], router: RouterMachine) -> None:
        for action in actions:
            assert isinstance(action, Emit)
            record = action.record
            if action.topic is not Topic.FRAMES:
                assert isinstance(record, DeadLetter)
                self.letters.append(record)
                continue
            assert isinstance(record, Frame | Barrier)
            self.log.append(record)
            if router is self._router:
                list(router.on_record(Topic.FRAMES, 0, len(self.log) - 1, record))

    def _settle(self) -> None:
        for _ in range(3):
            self._now_ms += 100
            self._do(self._router.on_time(self._now_ms), self._router)
            frames = [record.frame_id for record in self.log if isinstance(record, Frame)]
            self._router.on_result_position(ResultPosition(max(frames, default=-1) + 1, 0))
