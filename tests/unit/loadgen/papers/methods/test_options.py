"""Every option of a method against the scan: many members, merges and batches, and hot keys that change."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from loadgen.papers.methods.machine import SIDES
from loadgen.papers.methods.side import Check, Searches, SideSpec
from loadgen.window import window_begin
from spojoin.errors import ConfigurationError
from spojoin.evaluation.choices import method
from spojoin.windows import RowWindow, TimeWindow

#: A range on one column, and another column outside of a range; a column may be compared twice, once for equality.
BAND, OTHER = Check(0, False, False), Check(1, True, False)
TWO = (BAND, OTHER), (OTHER, BAND)
SHARED = (BAND, OTHER, Check(0, True, True)), (Check(1, False, False), BAND)
LENGTH, SLIDE, COUNT, CHUNK = 1_500, 60, 5_190, 173
VARIANTS = [
    ("chain_b", {"length": "1"}, TWO),
    ("chain_b", {"length": "7", "predicate": "2"}, TWO),
    ("chain_ib", {"length": "5"}, TWO),
    ("im_tree", {"merge_ratio": "1", "merge": "non_blocking"}, TWO),
    ("im_tree", {"merge_ratio": "0.03", "predicate": "2"}, TWO),
    ("pim_tree", {"depth": "0", "threads": "2"}, TWO),
    ("pim_tree", {"depth": "16", "merge": "non_blocking", "threads": "3"}, TWO),
    *(("spo_paper", {"delta": delta}, SHARED) for delta in ("1", "3", "64", "700", "2000")),
    ("sta", {}, TWO),
    ("sta", {"chain": "1", "choices": "1"}, TWO),
    ("sta", {"chain": "40", "hot_share": "0"}, TWO),
    ("sta", {"hot_share": "1", "partitions": "3"}, TWO),
]


def spec_of(name, given, directions=TWO, lists=True, kind=RowWindow):
    return SideSpec(2, directions, kind(LENGTH, SLIDE), lists, dict(method(name, given).options))


def codes(domain):
    """Half of the tuples have one of three keys, others in each third of the stream."""
    rng = np.random.default_rng(domain)
    hot = np.arange(COUNT) * 3 // COUNT * 100 + rng.integers(0, 3, COUNT)
    keys = np.where(rng.random(COUNT) < 0.5, hot, rng.integers(-domain, domain, COUNT))
    return np.stack([keys, np.sort(rng.integers(0, domain + 1, COUNT))])


def run(spec, name, domain):
    """What each probe finds, by direction and chunk, and the side."""
    side, stored, found = SIDES[name](spec), codes(domain), []
    for begin, end in pairwise([*range(0, COUNT, CHUNK), COUNT]):
        part, upper = stored[:, begin:end], np.arange(begin, end)
        asked = [part[[test.column for test in tests]] for tests in spec.directions]
        searches = [Searches(values - domain // 3, values + domain // 3) for values in asked]
        for tests, each in zip(spec.directions, searches, strict=True):
            for k, test in enumerate(tests):
                each.hi[k] = each.lo[k] if test.equality else each.hi[k]
        lower = np.maximum(window_begin(upper, LENGTH, SLIDE), 0)
        found += side.take(part, searches, lower, upper)
    return found, side


@cache
def scanned(directions, lists, kind, domain):
    return run(spec_of("scan", {}, directions, lists, kind), "scan", domain)[0]


@pytest.mark.parametrize(
    ("domain", "kind", "lists"),
    [(1, RowWindow, True), (40, TimeWindow, True), (40, RowWindow, False), (1_000_000, RowWindow, True)],
)
@pytest.mark.parametrize(("name", "given", "directions"), VARIANTS)
def test_every_option_finds_what_the_scan_finds(name, given, directions, domain, kind, lists):
    found, side = run(spec_of(name, given, directions, lists, kind), name, domain)
    for got, want in zip(found, scanned(directions, lists, kind, domain), strict=True):
        assert (got.counts == want.counts).all()
        if lists:
            assert (got.partners == want.partners).all()
            assert (got.offsets == want.offsets).all()
    if name == "spo_paper":
        assert side.counters.merges == COUNT // int(given["delta"])
    elif name not in ("chain_b", "sta"):
        assert side.counters.merges > 2


def test_hot_keys_move_to_the_chain_when_they_cool_down():
    _, side = run(spec_of("sta", {"hot_share": "0.1"}), "sta", 2_000)
    assert side.counters.more["to_hot"] >= 9
    assert side.counters.more["to_cold"] > 0
    _, cold = run(spec_of("sta", {"hot_share": "1"}), "sta", 2_000)
    assert cold.counters.more["to_hot"] == cold.counters.more["to_cold"] == 0


def test_a_predicate_that_the_query_lacks_is_named():
    with pytest.raises(ConfigurationError, match="predicate is 3; expected 1 to 2"):
        SIDES["im_tree"](spec_of("im_tree", {"predicate": "3"}))
