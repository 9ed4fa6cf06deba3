"""The published schemes' errors, counted by a plain loop; the exact ways have none whatever is late."""

import numpy as np
import pytest

from spojoin.errors import ConfigurationError
from spojoin.published.checkpoint import Sharing, completeness
from spojoin.published.errors import count
from spojoin.published.logical_and import Load, LogicalAnd, Meeting, correctness
from spojoin.published.setup import Setup, in_order, served
from spojoin.published.state import Scheme, Workers
from spojoin.runtime.memory import MemoryStore

TUPLES = 600
UNSAFE = [Scheme.ROUND_ROBIN_UNSAFE, Scheme.SIZE_BROADCAST_UNSAFE, Scheme.DISTRIBUTED_CACHE_UNSAFE]


def setup(scheme, **changed):
    delta = 60 if scheme is Scheme.ROUND_ROBIN_UNSAFE else 20
    sizes = {"window": 240, "slide": 60, "delta": delta, "workers": 3, "rate": 10_000.0}
    return Setup(**(sizes | changed))


def keys():
    return np.random.default_rng(5).integers(0, 6, (2, TUPLES))


def matches(probes, stored):
    a, b = keys()
    return (a[probes][:, None] > a[stored]) & (b[probes][:, None] < b[stored])


def pairs_found(workers, trace):
    """(found, wanted) by a loop over probes, workers, batches and tuples."""
    a, b = keys()
    found, wanted = set(), set()
    set_up = workers.setup
    for probe in range(TUPLES):
        lower = max(-(-probe // set_up.slide) * set_up.slide - set_up.window, 0)
        for batch, end in enumerate(workers.ends.tolist()):
            worker = batch % set_up.workers
            members = [i for i in range(end - set_up.delta, end) if a[probe] > a[i] and b[probe] < b[i]]
            if trace.lower[worker, probe] < end <= trace.upper[worker, probe]:
                found |= {(probe, i) for i in members}
            if end <= probe:
                wanted |= {(probe, i) for i in members if i >= lower}
    return found, wanted


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("is_queueing", [True, False])
def test_errors_are_those_of_a_plain_loop(scheme, is_queueing):
    workers = Workers(setup(scheme, is_queueing=is_queueing, hop_ms=3.0), TUPLES)
    trace = workers.trace(scheme, MemoryStore())
    told = count(workers, trace, matches)
    found, wanted = pairs_found(workers, trace)
    assert told.false_positives == len(found - wanted)
    assert told.false_negatives == len(wanted - found)
    assert (told.false_positives + told.false_negatives > 0) == (scheme is not Scheme.EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_way_has_no_errors_whatever_is_late(seed):
    workers = Workers(setup(Scheme.EXACT, hop_ms=50.0, seed=seed), TUPLES)
    told = count(workers, workers.trace(Scheme.EXACT, MemoryStore()), matches)
    assert (told.extra, told.probes, told.false_positives, told.false_negatives) == (0, 0, 0, 0)


def test_without_delays_only_what_waits_for_a_message_of_tuples_is_wrong():
    """Messages take no time here: round robin is right, sizes come a batch too late, the cache an interval."""
    instant = {"hop_ms": 1e-9, "merge_us": 0.0, "interval_ms": 0.2, "rate": 1_000.0}
    extra = {}
    for scheme in UNSAFE:
        workers = Workers(setup(scheme, **instant), TUPLES)
        extra[scheme] = count(workers, workers.trace(scheme, MemoryStore()), matches).extra
    assert extra[Scheme.ROUND_ROBIN_UNSAFE] == 0
    assert extra[Scheme.SIZE_BROADCAST_UNSAFE] > 0
    assert extra[Scheme.DISTRIBUTED_CACHE_UNSAFE] < extra[Scheme.SIZE_BROADCAST_UNSAFE] / 3


def test_a_slower_cache_is_more_wrong():
    extra = []
    for interval_ms in (1.0, 40.0):
        workers = Workers(setup(Scheme.DISTRIBUTED_CACHE_UNSAFE, interval_ms=interval_ms), TUPLES)
        extra.append(count(workers, workers.trace(Scheme.DISTRIBUTED_CACHE_UNSAFE, MemoryStore()), matches).extra)
    assert extra[0] < extra[1]


def test_round_robin_needs_as_many_slides_a_worker():
    workers = Workers(Setup(420, 60, 60, 4, 1_000.0), TUPLES)
    with pytest.raises(ConfigurationError, match="6 slides are shared by 4 workers"):
        workers.trace(Scheme.ROUND_ROBIN_UNSAFE, MemoryStore())
    with pytest.raises(ConfigurationError, match="multiple"):
        Setup(420, 60, 50, 3, 1_000.0)


def bit_arrays():
    rng = np.random.default_rng(9)
    return [rng.random((400, 64)) < 0.5 for _ in range(2)]


@pytest.mark.parametrize(("rate", "service"), [(100.0, (0.1, 0.2)), (5_000.0, (4.0, 6.0)), (5_000.0, (6.0, 4.0))])
def test_a_hash_table_makes_every_meeting_right(rate, service):
    told = correctness(Meeting.BY_ID, Load(rate, service, 4), bit_arrays())
    assert (told.tuples, told.false_positives, told.false_negatives, told.answers) == (1.0, 0, 0, 400)


def test_without_it_a_high_rate_makes_most_wrong_and_more_workers_fewer():
    shares = [
        correctness(Meeting.OVERWRITING_UNSAFE, Load(5_000.0, (4.0, 6.0), n), bit_arrays()).tuples for n in (4, 16)
    ]
    slow = correctness(Meeting.OVERWRITING_UNSAFE, Load(10.0, (0.1, 0.2), 4), bit_arrays())
    assert shares[0] < shares[1] < 0.5
    assert slow.tuples == 1.0


def test_what_is_overwritten_meets_another_tuples_bits():
    worker = LogicalAnd(Meeting.OVERWRITING_UNSAFE, 2)
    one, other = np.array([True, False]), np.array([True, True])
    assert worker.take(1, 0, one) is None
    assert worker.take(3, 0, other) is None
    assert worker.take(1, 1, other).tolist() == [True, True]  # tuple 1 would match the first alone
    assert worker.take(3, 1, one) is None


def test_queues_serve_in_order():
    assert served(np.array([0.0, 1.0, 5.0]), np.array([2.0, 2.0, 1.0])).tolist() == [2.0, 4.0, 6.0]
    assert in_order(np.array([3.0, 1.0, 4.0])).tolist() == [3.0, 3.0, 4.0]


@pytest.mark.parametrize(("checkpoint_s", "hot"), [(0.0, False), (0.5, False), (0.5, True)])
def test_completeness_is_that_of_a_plain_loop(checkpoint_s, hot):
    keys = np.random.default_rng(2).integers(0, 5, 300).astype(float)
    is_hot = (keys == 2) & hot
    sharing = Sharing(3, 100.0, 1.0, checkpoint_s)
    homes, asked = np.random.default_rng(0).integers(0, 3, (2, 300))
    found = wanted = 0
    for probe in range(300):
        shared = probe / 100 // checkpoint_s * checkpoint_s if checkpoint_s else 0.0
        for i in range(probe):
            if keys[i] == keys[probe] and i / 100 >= probe / 100 - 1.0:
                wanted += 1
                found += bool(is_hot[i] or homes[i] == asked[probe] or i / 100 < shared)
    assert completeness(sharing, keys, keys, keys, is_hot) == found / wanted
    assert 0.2 < found / wanted < 1


def test_shorter_checkpoints_and_hot_keys_miss_less():
    keys = np.random.default_rng(2).integers(0, 5, 600).astype(float)
    cold = np.zeros(600, bool)
    shares = [completeness(Sharing(10, 100.0, 2.0, s), keys, keys, keys, cold) for s in (2.0, 0.5, 0.1)]
    assert shares == sorted(shares)
    assert completeness(Sharing(10, 100.0, 2.0, 2.0), keys, keys, keys, ~cold) == 1.0
    assert completeness(Sharing(10, 100.0, 2.0, 2.0), keys, keys, keys, keys < 3) > shares[0]
