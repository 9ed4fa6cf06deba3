from dataclasses import replace

import numpy as np
import pytest

from spojoin.protocol.machine import START, ResultPosition
from spojoin.protocol.topology import Topic
from spojoin.query.load import parse_query
from spojoin.roles.predictor.machine import PredictorMachine, Sample
from spojoin.wire.records import Frame
from tests.support.frames import log_of, make_frame, make_query, make_slice


def plans_of(records, result_position=START, **sizes):
    machine = PredictorMachine(make_query(), result_position, plan_frames=4, **sizes)
    actions = [a for offset, record in enumerate(records) for a in machine.on_record(Topic.FRAMES, 0, offset, record)]
    assert {(a.topic, a.partition) for a in actions} <= {(Topic.PLAN, 0)}
    return [a.record for a in actions]


def skewed(n=1600):
    rng = np.random.default_rng(1)
    a = np.where(rng.random(n) < 0.3, 7, rng.integers(100, 2**60, n))
    return a, rng.integers(2**61, 2**62, n)


def test_plans_name_hot_keys_at_a_fixed_interval_of_frames():
    plans = plans_of(log_of(skewed(), 100))
    assert [p.version for p in plans] == [p.frame_id for p in plans] == [3, 7, 11, 15]
    for plan in plans:
        codes, counts = plan.hot[0, 0]
        assert codes.tolist() == [7]
        assert counts[0] == np.count_nonzero(skewed()[0][: 100 * (plan.frame_id + 1)] == 7)
        assert (0, 1) not in plan.hot


def test_the_same_log_gives_the_same_plans():
    one, two = plans_of(log_of(skewed(), 100)), plans_of(log_of(skewed(), 100))
    assert [(p.version, {k: v[0].tolist() for k, v in p.hot.items()}) for p in one] == [
        (p.version, {k: v[0].tolist() for k, v in p.hot.items()}) for p in two
    ]


def test_records_that_the_log_does_not_accept_do_not_count():
    columns = [np.arange(400), np.arange(400)]
    records = list(log_of(columns, 100))
    zombie = make_frame([make_slice([[5] * 100] * 2, 100)], frame_id=1, first_seq=100, previous_link=99)
    repeated = [records[0], records[1], records[1], zombie, *records[2:]]
    assert plans_of(repeated)[0].hot == {}
    assert plans_of(repeated)[0].frame_id == 3


def test_frames_before_the_result_position_yield_no_plans():
    assert [p.version for p in plans_of(log_of(skewed(), 100), ResultPosition(8, 0))] == [11, 15]


def test_halving_forgets_old_keys():
    a = np.concatenate([np.full(400, 1), np.random.default_rng(0).integers(100, 2**60, 1200)])
    columns = [a, a]
    assert plans_of(log_of(columns, 100))[-1].hot[0, 0][0].tolist() == [1]
    counts = [plans_of(log_of(columns, 100), halve_tuples=h)[-1].hot[0, 0][1][0] for h in (2**30, 800)]
    assert counts[1] < counts[0] == 400


def naive_shares(a, b):
    pairs = [(x, y) for x in range(len(a)) for y in range(len(a)) if x != y]
    holds = ([a[x] > a[y] for x, y in pairs], [abs(b[x] - b[y]) <= 1 for x, y in pairs])
    return [sum(each) / len(pairs) for each in holds]


def test_selectivities_over_many_tuples_are_close():
    rng = np.random.default_rng(6)
    a, b = rng.integers(0, 1000, 20_000), rng.integers(0, 10, 20_000)
    machine = PredictorMachine(make_query(), START)
    for record in log_of([a, b], 500):
        list(machine.on_record(Topic.FRAMES, 0, 0, record))
    assert machine.selectivities() == pytest.approx(naive_shares(a[:300].tolist(), b[:300].tolist()), rel=0.25)


def test_selectivities_are_unknown_without_pairs():
    sample = Sample(make_query())
    assert np.isnan(sample.selectivities()).all()
    sample.sample_frame(make_frame([make_slice([[1], [1]])]))
    assert np.isnan(sample.selectivities()).all()


def test_selectivity_of_a_band_over_doubles():
    text = """
name: q
streams:
  s: {schema: {a: double}}
  u: {schema: {a: double}}
sql: |
  SELECT * FROM s AS l JOIN u AS r ON ABS(l.a - r.a) < 0.5 WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
    from spojoin.kernels.codes import fold_doubles

    left, right = [0.0, 1.0], [0.25, 0.75, -9.0, np.inf]
    sample = Sample(parse_query(text))
    sample.sample_frame(make_frame([make_slice([fold_doubles(np.array(each))]) for each in (left, right)]))
    assert sample.selectivities() == [2 / 8]


def test_selectivities_are_those_of_the_sampled_pairs():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 50, (2, 16))
    machine = PredictorMachine(make_query(), START)
    assert np.isnan(machine.selectivities()).all()
    for record in log_of([a, b], 16):
        list(machine.on_record(Topic.FRAMES, 0, 0, record))
    assert machine.selectivities() == pytest.approx(naive_shares(a.tolist(), b.tolist()))


def test_where_columns_are_by_key_a_key_is_hot_from_a_share_of_a_column_on():
    rng = np.random.default_rng(2)
    a = np.where(rng.random(1600) < 0.3, 7, np.where(rng.random(1600) < 0.03, 8, rng.integers(100, 2**60, 1600)))
    log = [*log_of([a, a], 100)]
    by_key = [
        replace(each, workers=4, columns=4, columns_by_key=True) if isinstance(each, Frame) else each for each in log
    ]
    found = [plans_of(records)[-1].hot[0, 0][0].tolist() for records in (log, by_key)]
    assert found == [[7, 8], [7]]
