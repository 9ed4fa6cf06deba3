"""Layouts in the simulator's worlds, with all faults, against the naive oracle; and bugs that it must find."""

from collections import deque

import numpy as np
import pytest

from loadgen.papers.layouts import machine as registry
from loadgen.papers.layouts.handshake import HandshakeChain
from loadgen.papers.layouts.layout import FrameShare, Layout, every
from loadgen.papers.layouts.machine import LayoutMachine
from loadgen.papers.methods.machine import SIDES
from loadgen.simulate.papers import run_layout
from spojoin.evaluation.choices import layout, method

SERVED = ("scale_join", "sta")
SEEDS = range(100, 120)
#: Chains run without faults, and fast.
CHAIN_SEEDS = range(100, 116)


@pytest.mark.parametrize("name", SERVED)
def test_services_of_a_layout_survive_what_a_seed_brings(name):
    for seed in SEEDS:
        failure = run_layout(seed, layout(name, {}))
        assert failure is None, failure.account


@pytest.mark.parametrize("name", ["split_join", "bchj"])
def test_layouts_that_run_in_one_process_survive_a_seed(name):
    for seed in SEEDS[:4]:
        failure = run_layout(seed, layout(name, {}))
        assert failure is None, failure.account


def test_a_chain_finds_each_pair_once_whatever_the_order_of_its_messages():
    for seed in CHAIN_SEEDS:
        failure = run_layout(seed, layout("handshake", {}))
        assert failure is None, failure.account


@pytest.mark.parametrize("name", sorted(SIDES))
def test_workers_may_search_by_any_method(name):
    for seed in (3, 4, 5):
        failure = run_layout(seed, layout("handshake", {}), method(name, {}))
        assert failure is None or "ConfigurationError" in failure.reason, failure.account


# --- planted bugs -----------------------------------------------------------------------------------------------------


def is_found(name, seeds):
    return any(run_layout(seed, layout(name, {})) is not None for seed in seeds)


class Counting(Layout):
    """ScaleJoin's counter kept by one worker, and lost with it."""

    def __init__(self, query):
        super().__init__(query)
        self._counter = 0

    def share(self, frame, stream, worker, workers):
        numbers = self._counter + np.arange(len(frame.slices[stream]))
        self._counter += len(numbers)
        return FrameShare(numbers % workers == worker, every(frame, stream))


def test_a_counter_that_dies_with_its_worker_is_found(monkeypatch):
    monkeypatch.setitem(registry.LAYOUTS, "scale_join", Counting)
    assert is_found("scale_join", range(100, 140))


def test_workers_that_keep_their_old_share_are_found(monkeypatch):
    def keep(self, frame):
        self._workers = frame.workers
        yield from ()

    monkeypatch.setattr(LayoutMachine, "_begin_anew", keep)
    assert is_found("scale_join", range(100, 130))


def test_messages_that_overtake_others_on_a_link_are_found(monkeypatch):
    def overtake(self, link, message):
        self._links.setdefault(link, deque()).appendleft(message)

    monkeypatch.setattr(HandshakeChain, "_send", overtake)
    assert is_found("handshake", CHAIN_SEEDS)
