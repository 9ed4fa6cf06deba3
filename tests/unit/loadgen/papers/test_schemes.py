"""The published schemes' errors, counted by a plain loop; the exact schemes have none, whatever is late."""

import numpy as np
import pytest

from loadgen.papers.schemes.checkpoint import Sharing, completeness
from loadgen.papers.schemes.logical_and import NONE, Meeting, OperatorLoad, correctness, overwrite
from loadgen.papers.schemes.state import Scheme, Setup, SimulatedWorkers, count
from loadgen.window import window_of
from spojoin.ports.memory import MemoryStore

TUPLES = 600


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
        lower = window_of(probe, set_up.window, set_up.slide).start
        for batch, end in enumerate(range(set_up.delta, TUPLES, set_up.delta)):
            worker = batch % set_up.workers
            members = [i for i in range(end - set_up.delta, end) if a[probe] > a[i] and b[probe] < b[i]]
            if trace.lower[worker, probe] < end <= trace.upper[worker, probe]:
                found |= {(probe, i) for i in members}
            if end <= probe:
                wanted |= {(probe, i) for i in members if i >= lower}
    return found, wanted


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("is_queueing", [True, False])
def test_errors_equal_those_of_a_plain_loop(scheme, is_queueing):
    workers = SimulatedWorkers(setup(scheme, is_queueing=is_queueing, hop_ms=3.0), scheme, MemoryStore())
    trace = workers.take(TUPLES)
    reported = count(workers, trace, matches)
    found, wanted = pairs_found(workers, trace)
    assert reported.false_positives == len(found - wanted)
    assert reported.false_negatives == len(wanted - found)
    assert (reported.false_positives + reported.false_negatives > 0) == (scheme is not Scheme.EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_the_exact_way_has_no_errors_whatever_is_late(seed):
    workers = SimulatedWorkers(setup(Scheme.EXACT, hop_ms=50.0, seed=seed), Scheme.EXACT, MemoryStore())
    reported = count(workers, workers.take(TUPLES), matches)
    assert (reported.extra, reported.probes, reported.false_positives, reported.false_negatives) == (0, 0, 0, 0)


def bit_arrays():
    rng = np.random.default_rng(9)
    return [rng.random((400, 64)) < 0.5 for _ in range(2)]


@pytest.mark.parametrize(("rate", "service"), [(100.0, (0.1, 0.2)), (5_000.0, (4.0, 6.0)), (5_000.0, (6.0, 4.0))])
def test_a_hash_table_makes_every_and_correct(rate, service):
    reported = correctness(Meeting.BY_ID, OperatorLoad(rate, service, 4), bit_arrays())
    assert (reported.tuples, reported.false_positives, reported.false_negatives, reported.answers) == (1.0, 0, 0, 400)


def test_an_overwritten_bit_array_meets_another_tuples_bits():
    last = np.full((1, 2), NONE)

    def meet(first, order):
        return overwrite(np.array(order), first, last, np.full((2, 2), NONE)).tolist()

    # With two predicates and two tuples, 0 and 1 belong to the first predicate, 2 and 3 to the second.
    assert meet(0, [0, 1, 2, 3]) == [[1, NONE], [0, NONE]]  # tuple 0 gets tuple 1's, and tuple 1 no answer
    assert last.tolist() == [[NONE, 1]]
    assert meet(2, [0, 2, 1, 3]) == [[2, 3], [1, 2]]  # what is left over stays for later
    assert last.tolist() == [[NONE, 3]]


@pytest.mark.parametrize(("checkpoint_s", "hot"), [(0.0, False), (0.5, False), (0.5, True)])
def test_completeness_equals_that_of_a_plain_loop(checkpoint_s, hot):
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
