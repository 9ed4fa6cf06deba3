"""The state machines of all services, wired to each other in one process without a broker.

Records pass by reference. Matches go to the sink as they are made, so that a frame's pairs never stand in memory at
once; all others wait their turn, frames behind what earlier ones have led to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.embedded.accounts import Accounts, NoAccounts
from spojoin.embedded.letters import Letters
from spojoin.embedded.own import by_batches
from spojoin.embedded.taken_rows import stream_rows, table_rows
from spojoin.errors import BadData
from spojoin.model import Query
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import START, Action, Emit, Machine, TableRows
from spojoin.protocol.parts import MUTABLE_PART
from spojoin.protocol.topology import Topic
from spojoin.published.machines import evaluation
from spojoin.query.payload import no_payload
from spojoin.roles.predictor.machine import PredictorMachine
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.router.machine import FROM_NOTHING, RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.threads import Lane, Threads
from spojoin.wire.keys import NO_KEYS
from spojoin.wire.records import DeadLetter, Frame, Part, Record, Result, Rows

#: An event time that no tuple reaches: a stream that has ended promises silence up to it.
SILENCE_US = 2**62

#: Frames between two plans of the predictor: frames are large here, and files short.
PLAN_FRAMES = 2

#: The step of the router's clock, which stands still but where rows pause: longer than any frame waits to be closed.
PATIENCE_MS = 1_000

#: Records that may wait in lanes before more are handed out: merges of nodes take as long as several frames.
LANES_AHEAD = 24

#: Records of a machine in a lane that may wait to be carried out: each may name as many partners as a chunk may.
RESULTS_AHEAD = 4

#: Rows of a frame that the caller's thread evaluates by itself where nothing else waits.
LITTLE_ROWS = 512

#: Applied to each record that passes from one machine to another.
Transport = Callable[[Record], Record]


class Engine:
    """One query's join. Feed record batches, get record batches of results.

    One stream is taken in the order in which it is fed; two are ordered by event time.

    config: sizes of frames and batches; transport: applied to records between machines, by default nothing
    threads: how many share the work of a frame; results, and their order, don't depend on it
    accounts: whether to keep what `layout_measures` gives
    beginning: where numbers begin, and which rows answer, if it joins a part of a history; rows of each input are then
        fed from the place in `starts` on
    """

    def __init__(
        self,
        query: Query,
        config: RouterConfig | None = None,
        transport: Transport | None = None,
        threads: int = 1,
        accounts: bool = True,
        beginning: Beginning = FROM_NOTHING,
    ) -> None:
        self.query = query
        self._inputs = query.inputs
        self._threads = Threads(threads)
        self._transport = transport
        self.tuples = 0
        self._sizes = config or RouterConfig(router_id="embedded", credits_frames=UNLIMITED)
        self._router = RouterMachine(query, START, self._sizes, beginning=beginning)
        self._sink = SinkMachine(query, START, each=self._threads.each, trims=False)
        self._evaluation = evaluation(query, self._sizes.workers, partial(by_batches, runner=self._threads))
        self._searching = self._evaluation.searching
        self.accounts = Accounts(query, self._evaluation.loads) if accounts else NoAccounts()
        self._readers = self._wire()
        self._lanes: dict[Machine, Lane[Action]] = self._laid()
        self._parts: dict[Machine, int] = {each: 1 + part for part, each in enumerate(self._searching)}
        self._partials_first = query.lists_pairs and not self._lanes
        self._letters = Letters()
        self._fed = [_first_place(beginning, number) for number in range(len(query.inputs))]
        self._now_ms = 0
        self._pending: deque[Emit] = deque()
        self._answers: deque[Emit] = deque()
        self._versions = 0
        self._router.on_inputs([(number, 0) for number, each in enumerate(query.inputs) if each.table is None])
        list(self._run(chain(self._router.on_caught_up(), self._router.on_chosen())))

    def _wire(self) -> dict[Topic, list[Machine]]:
        readers = {topic: list(machines) for topic, machines in self._evaluation.readers.items()}
        if self._evaluation.needs_hot_keys:
            readers[Topic.FRAMES].insert(0, PredictorMachine(self.query, START, PLAN_FRAMES))
            readers[Topic.PLAN] = [self._router]
        readers[Topic.FRAMES][:0] = [self._router, self._sink]
        return readers

    def _laid(self) -> dict[Machine, Lane[Action]]:
        """A lane for each machine that may have one, as far as there are helpers."""
        return {
            machine: self._threads.lane(RESULTS_AHEAD)
            for machine in self._evaluation.apart[: self._threads.threads - 1]
        }

    @property
    def threads(self) -> int:
        """How many threads share the work of a frame, the caller's among them."""
        return self._threads.threads

    @property
    def rejected(self) -> dict[str, int]:
        """Rows refused so far, by reason."""
        return self._letters.by_reason

    @property
    def matches(self) -> int:
        """Matches found so far, including those that a limit cut."""
        return self._sink.matches

    @property
    def cut_probes(self) -> int:
        """Probes with partners that the limit cut."""
        return self._sink.cut_probes

    @property
    def index_bytes(self) -> int:
        """Bytes of all indexes."""
        return sum(machine.state_bytes() for machine in self._searching)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the rows that results name, and their columns."""
        return self._sink.payload_bytes

    def counters(self) -> dict[str, float]:
        """What the search has done: comparisons, merges and such, of all its machines together."""
        return self._evaluation.counters()

    def layout_measures(self) -> dict[str, object]:
        """What the layout has cost: latency a frame, the share of tuples that are answered, the load of each worker.

        topics: what passed between machines, and how many read it; mutable: what the mutable part does besides the
        workers. Raises ValueError where no accounts are kept.
        """
        return self.accounts.measures(self.tuples, self._reading)

    def _reading(self, topic: Topic) -> int:
        """Machines that read a topic; matches pass to the sink at once."""
        return 1 if topic is Topic.MATCHES else len(self._readers.get(topic, ()))

    def feed(
        self,
        stream: int | str,
        batch: pa.RecordBatch,
        malformed: Mapping[int, str] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Take rows of one stream and yield the results that are ready; exhaust the iterator before feeding more.

        Helpers go on with the last frames meanwhile: what they find comes with the next call, or with `wait`.
        malformed: by position in the batch, why what stands there is no row; it is refused
        places: the positions that are the rows' keys where no column is, if they aren't those of what was fed
        """
        number = self._number(stream)
        yield from self.take(number, stream_rows(self.query, number, batch, self._fed[number], malformed or {}, places))

    def take(self, number: int, rows: Rows) -> Iterator[pa.RecordBatch]:
        """As `feed`, of rows that are coded already."""
        self._fed[number] = rows.next_offset
        yield from self._run(self._router.on_rows(number, 0, rows), LANES_AHEAD)

    def load(
        self, table: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take all rows of the query's table: for the rows fed from now on they stand in place of those before.

        Yields the results that are ready. Raises BadData where a row can't be used; named: what the table is, for that.
        malformed: as of `feed`; where it is given, rows are refused one by one
        """
        rows = table_rows(self.query, table, named, malformed)
        for letter in rows.dead:
            self._letters.add(letter)
        yield from self.take_table(replace(rows, dead=[]))

    def take_table(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """As `load`, of rows that are coded already."""
        self._versions += 1
        yield from self.flush()  # a version that is still on its way would let the rows fed next pass
        yield from self._run(self._router.on_table(TableRows(rows, self._versions)), LANES_AHEAD)

    def wait(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all frames that are full."""
        yield from self._run(iter(()))

    def end(self, stream: int | str) -> Iterator[pa.RecordBatch]:
        """This stream has ended: the other need not wait for it. Yields the results that are ready."""
        number = self._number(stream)
        nothing = np.empty(0, np.int64)
        columns = tuple(nothing for _ in self.query.inputs[number].keys)
        rows = Rows(
            nothing,
            nothing,
            self._fed[number],
            columns,
            nothing,
            NO_KEYS,
            nothing,
            heartbeat_us=SILENCE_US,
            payload=no_payload(self._inputs[number]),
        )
        yield from self._run(self._router.on_rows(number, 0, rows))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of everything fed so far; what is fed afterwards comes later in the order."""
        yield from self._run(self._router.flush())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """No stream goes on: yield the results of everything, rows included that still wait for partners."""
        yield from self._run(self._router.finish())

    def settle(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all rows whose place in the order is certain, as a service does when rows pause."""
        for _ in range(2):  # a frame that waits is seen first, and closed when it has waited long enough
            self._now_ms += PATIENCE_MS
            yield from self._run(self._router.on_time(self._now_ms))

    def close(self) -> None:
        """End the threads; the engine takes nothing more."""
        self._threads.close()

    def take_rejects(self) -> list[DeadLetter]:
        """Rows refused since the last call; `row` is the position in the stream's input."""
        return self._letters.take()

    def _number(self, stream: int | str) -> int:
        names = [s.name for s in self.query.inputs]
        if isinstance(stream, str):
            if stream not in names:
                raise BadData(f"stream {stream!r} is not in the query; it has {', '.join(names)}")
            return names.index(stream)
        return stream

    def _run(self, actions: Iterator[Action], ahead: int = 0) -> Iterator[pa.RecordBatch]:
        """Carry out actions, and all that follows from them but for `ahead` records that may wait in lanes."""
        yield from self._step(actions)
        while True:
            if self._lanes:
                yield from self._arrived(LANES_AHEAD if self._answers or self._pending else ahead)
            if not (self._answers or self._pending):
                return
            yield from self._hand_out(*self._next())

    def _hand_out(self, topic: Topic, partition: int, record: Record) -> Iterator[pa.RecordBatch]:
        self.accounts.begun(record)
        for machine in self._readers.get(topic, ()):
            if self._partials_first and machine in self._searching:
                yield from self._hand_out_partials()
            actions = machine.on_record(topic, partition, 0, record)
            if machine in self._searching:
                actions = self.accounts.search(actions)
            if machine in self._lanes and not (_is_little(record) and self._lanes[machine].is_idle):
                self._lanes[machine].add(actions)
            else:
                yield from self._step(actions)
        self.accounts.read(record)

    def _hand_out_partials(self) -> Iterator[pa.RecordBatch]:
        """Let the logical AND go before the workers: what these list of a frame waits in the sink for what it lists."""
        partials = [emit for emit in self._answers if emit.topic is Topic.PARTIALS]
        if partials:
            self._answers = deque(emit for emit in self._answers if emit.topic is not Topic.PARTIALS)
        for emit in partials:
            yield from self._hand_out(*emit)

    def _next(self) -> Emit:
        """The next record: what a frame has led to comes before another frame, so that few are under way at a time."""
        return (self._answers or self._pending).popleft()

    def _arrived(self, ahead: int) -> Iterator[pa.RecordBatch]:
        """Carry out what the machines in lanes have answered, until at most `ahead` records wait there."""
        while not self._answers:
            for machine, lane in self._lanes.items():
                for action in lane.take() if self._is_wanted(machine) else ():
                    yield from self._step([action])
                    if not self._is_wanted(machine):
                        break
            if self._answers:
                return
            # What the logical AND has found waits in the sink for what lanes find of the same frames.
            some = ahead if self._sink.wants(Topic.MATCHES, MUTABLE_PART) else 0
            # What ends between these two questions has its results to take: a lane has them before the task is gone.
            if self._waiting() <= some and not self._has_news():
                return
            self._threads.work_until(lambda: self._has_news() or self._waiting() <= some)  # noqa: B023

    def _is_wanted(self, machine: Machine) -> bool:
        """Whether the sink has room for what a machine finds: it may be ahead of others."""
        return self._sink.wants(Topic.MATCHES, self._parts[machine]) if machine in self._parts else True

    def _has_news(self) -> bool:
        return any(lane.has_news and self._is_wanted(machine) for machine, lane in self._lanes.items())

    def _waiting(self) -> int:
        """How many records the machines in lanes haven't read to their ends."""
        return sum(lane.waiting for lane in self._lanes.values())

    def _step(self, actions: Iterable[Action]) -> Iterator[pa.RecordBatch]:
        for action in actions:
            # Rewind needs no answer: the layout never changes here.
            if not isinstance(action, Emit):
                continue
            record = action.record if self._transport is None else self._transport(action.record)
            self.accounts.written(action.topic, record)
            if isinstance(record, Part):
                yield from self._step(self._sink.on_record(action.topic, action.partition, 0, record))
            elif isinstance(record, Result):
                self.accounts.answered(record)
                if record.rows.num_rows:
                    yield record.rows
            elif isinstance(record, DeadLetter):
                self._letters.add(record)
            else:
                self.tuples += record.count if isinstance(record, Frame) else 0
                waiting = self._pending if isinstance(record, Frame) else self._answers
                waiting.append(Emit(action.topic, action.partition, record))

    def state_tuples(self) -> int:
        """Tuples held by all machines."""
        return self._router.state_tuples() + self._sink.state_tuples() + sum(m.state_tuples() for m in self._searching)


def _is_little(record: Record) -> bool:
    """Whether a thread that is woken for a record takes longer than what is to be done."""
    return isinstance(record, Frame) and record.count <= LITTLE_ROWS


def _first_place(beginning: Beginning, number: int) -> int:
    """The position of the first row that is fed to an input."""
    start = beginning.starts.get((number, 0))
    return 0 if start is None else start.offset
