"""A stand-in for all roles after the router, which answers every frame by the oracle."""

from __future__ import annotations

import pyarrow as pa

from loadgen.simulate.oracle import nested_loop
from loadgen.simulate.process import MachineMakers
from loadgen.simulate.verdict import expected_rows, rows_in
from spojoin.protocol.acceptance import LogFollower
from spojoin.protocol.machine import Emit, Machine
from spojoin.protocol.topology import Topic
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import Barrier, Frame, Result


class Silent(Machine):
    """Reads everything and emits nothing."""


class OracleSink(Silent):
    """Emits a frame's results, two positions per record."""

    def __init__(self, scenario, result_position):
        self._scenario = scenario
        self._result_position = result_position
        self._reader = LogFollower()
        self._order = []
        self._by_key = {(row.stream, row.key): row for row in scenario.rows()}

    def on_record(self, topic, partition, offset, record):
        if topic is not Topic.FRAMES or not self._reader.accept(record) or isinstance(record, Barrier):
            return
        self._order += list(rows_in(self._scenario, record, self._by_key))
        probes = list(nested_loop(self._scenario.join, self._order))[record.first_seq :]
        for begin in range(0, max(record.count, 1), 2):
            if (record.frame_id, begin) >= self._result_position:
                yield Emit(Topic.RESULTS, 0, self._result(record, begin, probes[begin : begin + 2]))

    def _result(self, frame: Frame, begin, probes) -> Result:
        rows = self.answer([row for probe in probes for row in expected_rows(self._scenario, probe, self._order)])
        batch = pa.RecordBatch.from_pylist(rows) if rows else pa.record_batch([pa.array([], pa.int64())], ["seq"])
        end = min(begin + 2, frame.count)
        return Result(frame.frame_id, begin, end, end == frame.count, batch, frame.produced_ms, frame.produced_runs)

    def answer(self, rows):
        return rows


def wiring(scenario, sink=OracleSink, router=RouterMachine) -> MachineMakers:
    """The real router, and the oracle for all other roles."""
    return MachineMakers(
        router=router,
        mutable=lambda *_: Silent(),
        permutation=lambda *_: Silent(),
        pojoin=lambda *_: Silent(),
        logical_and=lambda *_: Silent(),
        sink=lambda _, result_position, _share: sink(scenario, result_position),
    )
