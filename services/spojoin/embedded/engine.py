"""A pack of all services' machines over a log in memory, without a broker: it takes rows and yields results.

The log is a queue of the frames that the router has written. The pack takes them one by one and carries out all that
follows from each, so that few frames are under way at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.stream_columns import no_payload
from spojoin.embedded.coded_rows import RefusedLetters, stream_rows, table_rows
from spojoin.embedded.lanes import LANES_AHEAD, LanedPack, Transport
from spojoin.errors import BadData
from spojoin.evaluation.by_batches import batch_machines
from spojoin.evaluation.choices import stand_in
from spojoin.evaluation.interface import Observe, RecordObserver
from spojoin.model import Query
from spojoin.protocol.generations import Beginning
from spojoin.protocol.machine import START, Action, Emit, TableRows
from spojoin.protocol.packed_machine import Fellow
from spojoin.protocol.topology import Edge, Role, Topic
from spojoin.roles.predictor.machine import PredictorMachine
from spojoin.roles.router.config import UNLIMITED, RouterConfig
from spojoin.roles.router.machine import FROM_NOTHING, RouterMachine
from spojoin.roles.sink.machine import SinkMachine
from spojoin.threads import Threads
from spojoin.wire.columns import NO_KEYS
from spojoin.wire.records import DeadLetter, Frame, Result, Rows

#: An event time that no tuple reaches: a stream that has ended promises silence up to it.
SILENCE_US = 2**62

#: Frames between two plans of the predictor: few, because frames are large here and files short.
PLAN_FRAMES = 2

#: The step of the router's clock, which moves only when rows pause. A frame is closed before it has waited this long.
PATIENCE_MS = 1_000


class Engine:
    """One query's join: takes record batches of rows and yields record batches of results.

    The rows of one stream are joined in the order in which they are fed, those of two streams by event time.

    config: the sizes of frames and batches
    transport: a function to apply to each record between machines; by default none
    threads: how many share the work of a frame; results and their order don't depend on it
    observe: makes the observer of all records; `layout_measures` gives its figures
    beginning: for a part of a history, where its numbers begin and which of its rows are answered; each input is
    then fed from its place in `starts` on
    """

    def __init__(
        self,
        query: Query,
        config: RouterConfig | None = None,
        transport: Transport | None = None,
        threads: int = 1,
        observe: Observe | None = None,
        beginning: Beginning = FROM_NOTHING,
    ) -> None:
        self.query = query
        self._inputs = query.inputs
        self._threads = Threads(threads)
        self.tuples = 0
        self._sizes = config or RouterConfig(router_id="embedded", credits_frames=UNLIMITED)
        self._router = RouterMachine(query, START, self._sizes, beginning=beginning)
        self._sink = SinkMachine(query, START, each=self._threads.each, trims=False)
        other = stand_in(query)
        self._evaluation = (
            batch_machines(query, self._sizes.workers, self._threads)
            if other is None
            else other.machines(query, self._sizes.workers)
        )
        self._searching = self._evaluation.searching
        self.observer = RecordObserver() if observe is None else observe(query, self._evaluation)
        self._pack = LanedPack(
            self._fellows(),
            Edge(Role.ROUTER, (Topic.FRAMES,), (Topic.FRAMES, Topic.RESULTS, Topic.DEAD)),
            self._threads,
            self._evaluation,
            self.observer,
            transport,
        )
        self._letters = RefusedLetters()
        starts = [beginning.starts.get((number, 0)) for number in range(len(query.inputs))]
        self._fed = [0 if start is None else start.offset for start in starts]
        self._now_ms = 0
        self._log: deque[Emit] = deque()
        self._offset = 0
        self._versions = 0
        self._router.on_inputs([(number, 0) for number, each in enumerate(query.inputs) if each.table is None])
        list(self._run(chain(self._pack.on_caught_up(), self._pack.on_chosen())))

    def _fellows(self) -> list[Fellow]:
        """All machines with the topics that they read, in the order in which a frame reaches them."""
        fellows = [
            Fellow(Role.ROUTER, self._router, reads=frozenset({Topic.FRAMES, Topic.PLAN})),
            Fellow(Role.SINK, self._sink, reads=frozenset({Topic.FRAMES, Topic.MATCHES})),
        ]
        if self._evaluation.needs_hot_keys:
            predictor = PredictorMachine(self.query, START, PLAN_FRAMES)
            fellows.append(Fellow(Role.PREDICTOR, predictor, reads=frozenset({Topic.FRAMES})))
        return [*fellows, *self._evaluation.fellows]

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
        """Matches found so far, including those that a limit cut off."""
        return self._sink.matches

    @property
    def cut_probes(self) -> int:
        """Probes that had more partners than the limit."""
        return self._sink.cut_probes

    @property
    def index_bytes(self) -> int:
        return sum(machine.state_bytes() for machine in self._searching)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the rows' columns that results name."""
        return self._sink.payload_bytes

    def counters(self) -> dict[str, float]:
        """What the search has done, by name: comparisons, merges and the like, summed over all machines."""
        return self._evaluation.counters()

    def layout_measures(self) -> dict[str, object]:
        """The query's layout, and the observer's figures."""
        layout = {"name": self.query.layout.name, "workers": self._sizes.workers}
        return layout | self.observer.measures(self.tuples, self._pack.count_readers)

    def feed(
        self,
        stream: int | str,
        batch: pa.RecordBatch,
        malformed: Mapping[int, str] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Take rows of one stream and yield the results that are ready. Exhaust the iterator before you feed more.

        Helper threads go on with the last frames; the next call, or `wait`, yields what they find.
        malformed: why a line is not a row, by its position in the batch; such lines are refused
        places: the rows' positions, if they aren't fed in order; without a key column, a row's key is its position
        """
        number = self._input_number(stream)
        yield from self.feed_coded(
            number, stream_rows(self.query, number, batch, self._fed[number], malformed or {}, places)
        )

    def feed_coded(self, number: int, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Like `feed`, for rows that are already coded."""
        self._fed[number] = rows.next_offset
        yield from self._run(self._pack.on_rows(number, 0, rows), LANES_AHEAD)

    def load(
        self, table: pa.RecordBatch, named: str, malformed: Mapping[int, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take all rows of the query's table. They replace those loaded before, for the rows fed from now on.

        Yields the results that are ready. Raises BadData for the first row that can't be used.
        named: how the error names the table
        malformed: see `feed`; if given, rows that can't be used are refused and nothing is raised
        """
        rows = table_rows(self.query, table, named, malformed)
        for letter in rows.dead:
            self._letters.add(letter)
        yield from self.load_coded(replace(rows, dead=[]))

    def load_coded(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Like `load`, for rows that are already coded."""
        self._versions += 1
        yield from self.flush()  # a version that is still on its way would let the rows fed next pass
        yield from self._run(self._pack.on_table(TableRows(rows, self._versions)), LANES_AHEAD)

    def wait(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all frames that are full."""
        yield from self._run(iter(()))

    def end(self, stream: int | str) -> Iterator[pa.RecordBatch]:
        """End a stream, so that the other no longer waits for it. Yields the results that are ready."""
        number = self._input_number(stream)
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
        yield from self._run(self._pack.on_rows(number, 0, rows))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all rows fed so far; rows fed afterwards come later in the order."""
        yield from self._run(self._pack.act_as_router(self._router.flush()))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """End all streams, and yield all remaining results, also those of rows that wait for later partners."""
        yield from self._run(self._pack.act_as_router(self._router.finish()))

    def settle(self) -> Iterator[pa.RecordBatch]:
        """Yield the results of all rows whose order is certain, as a service does when rows pause."""
        for _ in range(2):  # the first call notes that a frame waits, the second finds that it has waited long enough
            self._now_ms += PATIENCE_MS
            yield from self._run(self._pack.act_as_router(self._router.on_time(self._now_ms)))

    def close(self) -> None:
        """End the threads. The engine can't be used afterwards."""
        self._threads.close()

    def take_rejects(self) -> list[DeadLetter]:
        """The rows refused since the last call; `offset` is the row's position in its input."""
        return self._letters.take()

    def _input_number(self, stream: int | str) -> int:
        names = [s.name for s in self.query.inputs]
        if isinstance(stream, str):
            if stream not in names:
                raise BadData(f"stream {stream!r} is not in the query; it has {', '.join(names)}")
            return names.index(stream)
        return stream

    def _run(self, actions: Iterator[Action], ahead: int = 0) -> Iterator[pa.RecordBatch]:
        """Carry out actions and all that follows from them, except for `ahead` records that may wait in lanes."""
        yield from self._results(actions)
        while True:
            yield from self._results(self._pack.drain_lanes(LANES_AHEAD if self._log else ahead))
            if not self._log:
                return
            topic, partition, record = self._log.popleft()
            self.observer.begun(record)
            yield from self._results(self._pack.on_record(topic, partition, self._offset, record))
            self.observer.read(record)
            self._offset += 1

    def _results(self, actions: Iterator[Action]) -> Iterator[pa.RecordBatch]:
        """Append frames to the log, keep letters of refused rows, and yield the rows of results."""
        for action in actions:
            # Rewind needs no answer: the layout never changes here.
            if not isinstance(action, Emit):
                continue
            record = action.record
            if isinstance(record, Result):
                self.observer.answered(record)
                if record.rows.num_rows:
                    yield record.rows
            elif isinstance(record, DeadLetter):
                self._letters.add(record)
            else:
                self.tuples += record.count if isinstance(record, Frame) else 0
                self._log.append(action)

    def state_tuples(self) -> int:
        """Tuples held by all machines."""
        return self._router.state_tuples() + self._sink.state_tuples() + sum(m.state_tuples() for m in self._searching)
