"""However many joiners share a query's predicates, together they emit what one machine per predicate emits."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import ConfigurationError
from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.services import Rotation, share_of_joiner
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.mutable.__main__ import wire
from spojoin.roles.mutable.machine import Joiner, MutableMachine
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.settings import Settings
from spojoin.wire.codec import encode
from spojoin.wire.records import Partial, Rows, Run

PREDICATES = 3
QUERY = parse_query(
    "name: q\nstreams:\n  s: {schema: {a: int, b: int}}\n"
    "sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b >= r.b AND l.a != r.b "
    "WINDOW AS (SLIDE INTERVAL '1' ON '40')\noutput: pairs\n"
)
ROWS, FRAME_ROWS, BATCH_ROWS = 120, 8, 16


@pytest.fixture(scope="module")
def frames():
    """The records that a router writes."""
    log = []
    config = RouterConfig(
        "r", 1, frame_tuples=FRAME_ROWS, batch_tuples=BATCH_ROWS, handover_frames=1, credits_frames=1 << 20
    )
    router = RouterMachine(QUERY, START, config)
    router.on_inputs([(0, 0)])
    log += [action.record for action in (*router.on_caught_up(), *router.on_chosen())]
    list(router.on_record(Topic.FRAMES, 0, 0, log[0]))
    numbers, rng = np.arange(ROWS, dtype=np.int64), np.random.default_rng(5)
    columns = tuple(rng.integers(0, 9, ROWS) for _ in range(2))
    rows = Rows(numbers, np.zeros(ROWS, np.int64), ROWS, columns, None, pa.array(numbers), np.zeros(ROWS, np.int64))
    log += [action.record for action in router.on_rows(0, 0, rows)]
    return log


def said(machine, frames):
    """What a machine emits for each predicate, in order: topic, partition, bytes."""
    found = defaultdict(list)
    for frame in frames:
        for action in machine.on_record(Topic.FRAMES, 0, 0, frame):
            found[action.record.predicate].append((action.topic, action.partition, encode(action.record)))
    return found


def said_by_single_machines(frames, result_position):
    return {p: said(MutableMachine(QUERY, p, result_position), frames)[p] for p in range(PREDICATES)}


def test_each_predicate_of_a_frame_belongs_to_one_joiner():
    for joiners in range(1, 12):
        shares = [share_of_joiner(joiner, joiners, PREDICATES) for joiner in range(joiners)]
        for frame in range(12):
            mine = [predicate for share in shares if share.turn.has(frame) for predicate in share.predicates]
            assert sorted(mine) == list(range(PREDICATES))


def test_joiners_beyond_the_predicates_fill_whole_rows_or_stay_idle():
    shares = [share_of_joiner(joiner, 8, PREDICATES) for joiner in range(8)]
    assert [(list(share.predicates), *share.turn) for share in shares] == [
        *(([predicate], row, 2) for row in range(2) for predicate in range(PREDICATES)),
        *[([], 0, 2)] * 2,
    ]


@pytest.mark.parametrize("result_position", [START, ResultPosition(7, 3)], ids=["anew", "behind results"])
@pytest.mark.parametrize("joiners", [1, 2, 3, 5, 6, 10])
def test_joiners_together_emit_what_one_machine_per_predicate_emits(frames, joiners, result_position):
    expected = said_by_single_machines(frames, result_position)
    assert {topic for record in expected[0] for topic in record[:1]} == {Topic.PARTIALS, Topic.RUNS}
    found = defaultdict(list)
    for joiner in range(joiners):
        predicates, turn = share_of_joiner(joiner, joiners, PREDICATES)
        for predicate, records in said(Joiner(QUERY, predicates, result_position, turn), frames).items():
            found[predicate] += records
    assert {p: sorted(set(records)) for p, records in found.items()} == {p: sorted(expected[p]) for p in expected}
    if joiners <= PREDICATES:
        assert found == expected


def test_rows_of_joiners_divide_frames_and_batches(frames):
    for row in range(2):
        machine = MutableMachine(QUERY, 0, START, Rotation(row, 2))
        records = [action.record for frame in frames for action in machine.on_record(Topic.FRAMES, 0, 0, frame)]
        partials = [record.frame_id for record in records if isinstance(record, Partial)]
        runs = [record.batch_id for record in records if isinstance(record, Run) and not record.is_empty]
        assert len(partials) > 2
        assert len(runs) > 2
        assert {number % 2 for number in partials + runs} == {row}


def test_a_joiner_holds_what_its_machines_hold(frames):
    shared, alone = Joiner(QUERY, (0, 2), START), [MutableMachine(QUERY, p, START) for p in (0, 2)]
    for machine in (shared, *alone):
        said(machine, frames)
    assert shared.state_tuples() == sum(machine.state_tuples() for machine in alone) > 0


def test_a_joiner_beyond_the_predicates_reads_all_and_emits_nothing(frames):
    idle = wire(Serving(QUERY), Settings(query_file="q", joiner=3, joiners=4)).machine_factory(START)
    assert idle.wants(Topic.FRAMES, 0)
    assert said(idle, frames) == {}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({}, r"SPOJOIN_JOINER to 0\.\.2"), ({"joiner": 2, "joiners": 2}, r"setting joiner is 2; expected 0\.\.1")],
)
def test_a_joiners_number_must_be_below_the_number_of_joiners(given, sentence):
    with pytest.raises(ConfigurationError, match=sentence):
        wire(Serving(QUERY), Settings(query_file="q", **given))
