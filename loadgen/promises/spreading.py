"""What frames of a recorded run say if the workers' columns are by key: which keys are spread (rule P21)."""

from __future__ import annotations

from dataclasses import replace

from loadgen.promises.recording import Recording
from spojoin.model import Query
from spojoin.protocol.grid import Grid
from spojoin.protocol.machine import START, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.predictor.machine import PredictorMachine
from spojoin.roles.router.spread_keys import SpreadKeys
from spojoin.wire.records import Frame, HotKeys, Record


def with_spread_keys(run: Recording, query: Query, grid: Grid) -> Recording:
    """The same run with the spread keys that router and predictor would have chosen for a grid by key."""
    predictor, spread = PredictorMachine(query, START), SpreadKeys(query, spreads=True)
    records: list[Record] = []
    for record in run.records[Topic.FRAMES]:
        if isinstance(record, Frame):
            record = replace(  # noqa: PLW2901
                record,
                workers=grid.workers,
                columns=grid.columns,
                columns_by_key=grid.by_key,
                spread=spread.of_next_frame(record.slices),
            )
            spread.follow_frame(record)
            spread.forget_unreached(record.frame_id)
        for action in predictor.on_record(Topic.FRAMES, 0, len(records), record):
            if isinstance(action, Emit) and isinstance(action.record, HotKeys):
                spread.accept_hot_keys(action.record)
        records.append(record)
    return Recording({**run.records, Topic.FRAMES: records}, run.before)
