"""How fast the router merges many inputs."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loadgen.papers.layout_cost import query_of
from loadgen.papers.scale_join.joins import OWN, feed
from spojoin.protocol.machine import START, Action, Emit
from spojoin.protocol.topology import Topic
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.wire.records import Rows

FRAME_TUPLES = 4_096
BATCH_ROWS = 4_096


def merge_rate(inputs: int, tuples: int) -> float:
    """Tuples per second that the router reads from this many inputs of two streams and puts in event-time order."""
    places = [(i % 2, i // 2) for i in range(max(inputs, 2))]
    router = _router()
    router.on_inputs(places)
    _drain(router, router.on_caught_up())
    _drain(router, router.on_chosen())
    rows_each = tuples // len(places)
    codes = np.random.default_rng(0).integers(0, 10_000, (2, rows_each))
    spent = 0.0
    for first in range(0, rows_each, BATCH_ROWS):
        for number, place in enumerate(places):
            rows = _rows(codes[:, first : first + BATCH_ROWS], first, number, len(places))
            began = time.perf_counter()
            _drain(router, router.on_rows(*place, rows))
            spent += time.perf_counter() - began
    return rows_each * len(places) / spent


def _router() -> RouterMachine:
    text = (
        feed(1_000)
        .text.replace("{a: double, b: double}", "{a: double, b: double, ts: timestamp}\n    time: ts")
        .replace("order: arrival", "order: event_time")
    )
    config = RouterConfig("figures", 1, frame_tuples=FRAME_TUPLES, credits_frames=2**62)
    return RouterMachine(query_of(OWN, text, 1), START, config)


def _rows(codes: NDArray[np.int64], first: int, number: int, inputs: int) -> Rows:
    """A batch of input `number`; the inputs' event times alternate."""
    count = codes.shape[1]
    offsets = np.arange(first, first + count)
    times = (offsets * inputs + number) * 1_000
    nothing = np.zeros(count, np.int64)
    return Rows(
        offsets, nothing, first + count, tuple(codes), times, pa.array(offsets), nothing, heartbeat_us=int(times[-1])
    )


def _drain(router: RouterMachine, actions: Iterable[Action]) -> None:
    """Read the frames that the router emits back from its log."""
    for action in actions:
        if isinstance(action, Emit) and action.topic is Topic.FRAMES:
            _drain(router, router.on_record(Topic.FRAMES, 0, 0, action.record))
