"""Decisions turn by turn: the worker count follows the replicas, and the workers follow the load."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from spojoin.roles.controller.cluster import Event
from spojoin.roles.controller.policy import (
    ControllerMemory,
    Observation,
    RequestWorkers,
    Scale,
    ScalingLimits,
    WorkerLoad,
    decide,
)

FOLLOW = ScalingLimits(workers_max=4)
AUTO = ScalingLimits(
    workers_max=4, is_autoscaling=True, scale_min=1, scale_max=3, up_after_s=10, down_after_s=60, wait_s_max=100
)
CALM, BUSY, BEHIND, IDLE = WorkerLoad(0.5, 5), WorkerLoad(0.9, 5), WorkerLoad(0.1, 100), WorkerLoad(0.05, 0)


def seen(now_s=0.0, replicas=2, ready=None, workers=2, load=None, **more):
    loads = {} if load is None else dict.fromkeys(range(workers), load)
    return Observation(now_s, replicas, replicas if ready is None else ready, workers, loads=loads, **more)


def acts(steps):
    return [step for step in steps if not isinstance(step, Event)]


def reasons(steps):
    return [step.reason for step in steps if isinstance(step, Event)]


# -- following


def test_nothing_is_done_while_count_and_replicas_agree():
    assert decide(seen(), ControllerMemory(), FOLLOW) == (ControllerMemory(replicas=2), [])


def test_the_routers_initial_count_is_written_first():
    assert decide(seen(replicas=4, is_requested=False), ControllerMemory(), FOLLOW) == (
        ControllerMemory(),
        [RequestWorkers(2)],
    )


def test_fewer_replicas_shrink_the_count_at_once_whichever_are_ready():
    state, steps = decide(seen(replicas=1, ready=0, workers=3), ControllerMemory(replicas=1), FOLLOW)
    assert acts(steps) == [RequestWorkers(1)]
    assert steps[1] == Event("LayoutShrunk", "from 3 to 1 workers: replicas is 1")
    assert decide(seen(replicas=1, workers=1), state, FOLLOW)[1] == []


def test_more_replicas_count_once_all_are_ready_and_the_wait_is_reported_once():
    state, steps = decide(seen(replicas=4, ready=3), ControllerMemory(), FOLLOW)
    assert reasons(steps) == ["WaitingForWorkers"]
    assert not acts(steps)
    state, steps = decide(seen(replicas=4, ready=3), state, FOLLOW)
    assert steps == []
    _, steps = decide(seen(replicas=4, ready=4), state, FOLLOW)
    assert acts(steps) == [RequestWorkers(4)]


def test_without_workers_the_count_stays_one_and_says_what_waits():
    state, steps = decide(seen(replicas=0, workers=3), ControllerMemory(), FOLLOW)
    assert acts(steps) == [RequestWorkers(1)]
    _, steps = decide(seen(replicas=0, workers=1), state, FOLLOW)
    assert reasons(steps) == ["NoWorkers"]


def test_a_count_never_exceeds_workers_max():
    _, steps = decide(seen(replicas=9, ready=4), ControllerMemory(), FOLLOW)
    assert acts(steps) == [RequestWorkers(4)]
    state, steps = decide(seen(replicas=9, ready=4, workers=4), ControllerMemory(), FOLLOW)
    assert reasons(steps) == ["TooManyWorkers"]
    assert decide(seen(replicas=9, ready=4, workers=4), state, FOLLOW)[1] == []


def test_load_changes_nothing_where_scaling_is_off():
    state = ControllerMemory()
    for now_s in range(0, 1000, 10):
        state, steps = decide(seen(now_s, load=BUSY if now_s < 500 else IDLE), state, FOLLOW)
        assert steps == []


# -- scaling


@pytest.mark.parametrize("load", [BUSY, BEHIND])
def test_a_worker_is_added_after_one_was_busy_without_a_break(load):
    state, steps = decide(seen(0, load=load), ControllerMemory(), AUTO)
    assert steps == []
    state, steps = decide(seen(9, load=CALM), state, AUTO)
    state, steps = decide(seen(12, load=load), state, AUTO)
    assert steps == []
    state, steps = decide(seen(22, load=load), state, AUTO)
    assert acts(steps) == [Scale(3)]
    assert reasons(steps) == ["ScaledUp"]
    assert "for 10 s" in steps[1].message


@pytest.mark.parametrize(
    ("columns", "replicas", "more", "fewer"),
    [(1, 3, 4, 2), (2, 4, 6, 2), (2, 5, 6, 4), (2, 2, 4, None), (4, 3, 4, None)],
)
def test_rows_are_added_and_removed_whole(columns, replicas, more, fewer):
    limits = replace(AUTO, workers_max=8, scale_max=8, columns=columns)
    state = ControllerMemory(replicas=replicas, busy_since_s=0, idle_since_s=0)
    _, steps = decide(seen(99, replicas, workers=replicas, load=BUSY), state, limits)
    assert acts(steps) == [Scale(more)]
    _, steps = decide(seen(99, replicas, workers=replicas, load=IDLE), state, limits)
    assert acts(steps) == ([] if fewer is None else [RequestWorkers(fewer)])


def test_a_row_that_would_exceed_the_limit_is_not_begun():
    limits = replace(AUTO, scale_max=3, columns=2)
    _, steps = decide(seen(99, load=BUSY), ControllerMemory(replicas=2, busy_since_s=0), limits)
    assert reasons(steps) == ["ScaleMaxReached"]
    assert not acts(steps)


def test_one_busy_worker_is_enough():
    mixed = Observation(20, 2, 2, 2, loads={0: IDLE, 1: BUSY})
    _, steps = decide(mixed, ControllerMemory(replicas=2, busy_since_s=0), AUTO)
    assert acts(steps) == [Scale(3)]


def test_the_count_grows_when_the_new_worker_is_ready():
    state, _ = decide(seen(20, load=BUSY), ControllerMemory(replicas=2, busy_since_s=0), AUTO)
    state, steps = decide(seen(21, replicas=3, ready=2, load=BUSY), state, AUTO)
    assert reasons(steps) == ["WaitingForWorkers"]
    _, steps = decide(seen(30, replicas=3, ready=3, load=BUSY), state, AUTO)
    assert acts(steps) == [RequestWorkers(3)]


def test_a_worker_that_never_becomes_ready_is_given_up():
    state, _ = decide(seen(0, replicas=3, ready=2), ControllerMemory(replicas=3), AUTO)
    state, steps = decide(seen(99, replicas=3, ready=2), state, AUTO)
    assert steps == []
    _, steps = decide(seen(100, replicas=3, ready=2), state, AUTO)
    assert acts(steps) == [Scale(2)]
    assert steps[1].is_warning


def test_reaching_the_upper_limit_is_reported_once():
    state = ControllerMemory(replicas=3, busy_since_s=0)
    reported = []
    for now_s in (20, 21, 22):
        state, steps = decide(seen(now_s, replicas=3, workers=3, load=BUSY), state, AUTO)
        reported += steps
    assert reasons(reported) == ["ScaleMaxReached"]
    assert not acts(reported)


def test_a_worker_leaves_the_count_first_and_the_cluster_once_its_frames_are_answered():
    state, steps = decide(seen(0, load=IDLE), ControllerMemory(), AUTO)
    assert steps == []
    state, steps = decide(seen(60, load=IDLE), state, AUTO)
    assert acts(steps) == [RequestWorkers(1)]
    state, steps = decide(seen(61, workers=1, load=IDLE, is_answered=False), state, AUTO)
    assert steps == []
    state, steps = decide(seen(62, workers=1, load=IDLE, is_answered=True), state, AUTO)
    assert acts(steps) == [Scale(1)]
    _, steps = decide(seen(63, replicas=1, workers=1, load=IDLE), state, AUTO)
    assert steps == []


@pytest.mark.parametrize("is_answered", [None, False])
def test_a_worker_leaves_after_a_limit_even_without_news_of_its_frames(is_answered):
    state = ControllerMemory(replicas=2, leaving_since_s=0)
    state, steps = decide(seen(99, workers=1, is_answered=is_answered), state, AUTO)
    assert steps == []
    _, steps = decide(seen(100, workers=1, is_answered=is_answered), state, AUTO)
    assert acts(steps) == [Scale(1)]


def test_scaling_from_outside_is_followed_meanwhile():
    state = ControllerMemory(replicas=2, leaving_since_s=0)
    _, steps = decide(seen(1, replicas=3, ready=3, workers=1), state, AUTO)
    assert acts(steps) == [RequestWorkers(3)]


def test_a_nearly_idle_worker_stays_if_the_others_would_become_busy():
    half = WorkerLoad(0.3, 0)  # one worker would use 0.6 cores: more than cpu_low
    state = ControllerMemory()
    for now_s in range(0, 500, 10):
        state, steps = decide(seen(now_s, load=half), state, AUTO)
        assert steps == []


def test_limits_hold_for_requests_from_outside():
    _, steps = decide(seen(replicas=4, workers=4, load=CALM), ControllerMemory(), AUTO)
    assert acts(steps) == [RequestWorkers(3)]
    _, steps = decide(seen(replicas=1, workers=1), ControllerMemory(), ScalingLimits(4, True, scale_min=2, scale_max=3))
    assert acts(steps) == [Scale(2)]


def test_zero_workers_are_a_pause_that_persists():
    _, steps = decide(seen(replicas=0, workers=1), ControllerMemory(), AUTO)
    assert not acts(steps)


def test_unknown_loads_change_nothing_and_are_reported_once():
    state, reported = ControllerMemory(), []
    for now_s in range(0, 200, 10):
        partly = Observation(now_s, 2, 2, 2, loads={0: BUSY})
        state, steps = decide(partly, state, AUTO)
        reported += steps
    assert reasons(reported) == ["NoMeasurements"]


def test_workers_that_are_not_ready_are_not_judged():
    state = ControllerMemory(replicas=2, busy_since_s=0, idle_since_s=0)
    state, steps = decide(seen(100, ready=1, load=BUSY), state, AUTO)
    assert (state.busy_since_s, state.idle_since_s, steps) == (None, None, [])


@pytest.mark.parametrize("work", [0.1, 0.5, 0.9, 1.5, 2.0, 2.9])
def test_any_steady_load_reaches_a_stable_count(work):
    """A worker's share is work / workers: growing and shrinking never alternate."""
    replicas, state, changes = 1, ControllerMemory(), []
    for now_s in range(2_000):
        state, steps = decide(seen(now_s, replicas, workers=replicas, load=WorkerLoad(work / replicas, 0)), state, AUTO)
        for step in acts(steps):
            replicas = step.workers if isinstance(step, RequestWorkers) else step.replicas
            changes.append(replicas)
            state = ControllerMemory(replicas)
    assert len(changes) <= 2
    assert all(b > a for a, b in itertools.pairwise(changes))
