"""The acts of a soak, what it watches, and a soak of parts in a world whose clock is a number."""

import signal
from itertools import count, islice

import numpy as np
import pytest

from loadgen.chaos.listener import Arrival, HeardAnswers
from loadgen.chaos.soak import Soak, SoakRules
from loadgen.chaos.soak_plan import PACKINGS, Act, SoakSetup, acts
from loadgen.chaos.soak_report import SoakOutcome, markdown
from loadgen.chaos.soak_session import kinds_of, recomputed
from loadgen.chaos.soak_watch import PART_SAMPLES_MIN, PARTS, DiskWatch, MemoryWatch, rss_bytes, topic_bytes
from loadgen.chaos.ties import TiedJoin, TiedRows
from spojoin.errors import ConfigurationError
from spojoin.protocol.packing import parse_packing


def test_the_same_seed_gives_the_same_acts():
    one, again, other = (list(islice(acts(seed, list(Act), 3, 5.0), 200)) for seed in (1, 1, 2))
    assert one == again != other
    assert {planned.act for planned in one} == set(Act)


def test_every_change_changes_something_and_the_next_act_starts_from_it():
    setup, workers = SoakSetup(), 1
    for planned in islice(acts(4, list(Act), 3, 5.0), 500):
        is_move = planned.act is Act.MOVE
        assert (planned.setup.packing != setup.packing) == is_move
        assert (planned.setup.standbys != setup.standbys) == (planned.act is Act.STANDBYS)
        assert (planned.workers != workers) == (planned.act is Act.RESCALE)
        assert 1 <= planned.workers <= 3
        setup, workers = planned.setup, planned.workers
        assert planned.struck(["a", "b"]) in ("a", "b")


def test_all_packings_of_a_soak_are_known():
    assert [parse_packing(packing) for packing in PACKINGS]


def test_acts_are_named_with_commas():
    assert kinds_of("kill, move") == [Act.KILL, Act.MOVE]
    assert kinds_of(None) == list(Act)
    with pytest.raises(ConfigurationError, match="expected some of kill"):
        kinds_of("kil")


def test_memory_is_compared_by_setup_with_its_own_first_tenth():
    watch = MemoryWatch()
    for number in range(PARTS * PART_SAMPLES_MIN):
        watch.sample("flat", {"a": 100, "b": 101})
        watch.sample("growing", {"a": 100 + number})
    watch.sample("short", {"a": 1})
    growth = watch.growth()
    assert growth["flat"].share == 0
    assert growth["growing"].share == pytest.approx(45 / 102)
    assert growth["short"].share is None
    assert [growth[setup].is_bounded for setup in ("flat", "growing", "short")] == [True, False, True]
    assert watch.peaks == {"a": 149, "b": 101}


def test_a_process_that_is_gone_leaves_no_sum():
    watch = MemoryWatch()
    watch.sample("x", {"a": 1, "b": 0})
    assert not watch.sums["x"]
    assert rss_bytes(2**22 + 1) == 0


def test_what_a_partition_may_take_depends_on_its_topic():
    watch = DiskWatch(100, {"q.results": 300})
    watch.sample({"q.results-0": 250, "q.frames-0": 101, "__transaction_state-0": 10**9, "in.q-0": 5})
    watch.sample({"q.results-0": 301})
    assert watch.beyond == {"q.results-0": 301, "q.frames-0": 101}
    assert watch.totals[-1] == 301


def test_a_partitions_bytes_are_those_of_its_files(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(b"x" * 100_000)
    (tmp_path / "meta.properties").write_text("x")
    assert list(topic_bytes(tmp_path)) == ["t-0"]
    assert topic_bytes(tmp_path)["t-0"] >= 100_000
    assert topic_bytes(tmp_path / "none") == {}


def test_wrong_counts_are_found_as_they_come():
    join = TiedJoin("t", window=100, slide=10, seed=5)
    seqs = np.arange(350, 420)
    as_left, as_right = TiedRows(join, join.stream(), 0, 420).counts(seqs)
    judge = recomputed(join)
    assert not judge(HeardAnswers(seqs, as_left, as_right)).any()
    as_right[7] += 1
    assert np.flatnonzero(judge(HeardAnswers(seqs, as_left, as_right))).tolist() == [7]


class Parts:
    """Services, and the flow through them: 100 rows a second, answered at once unless something is stopped."""

    def __init__(self, ends_at_s=1e9):
        self.setup = SoakSetup()
        self.workers = 1
        self.now_s = 0.0
        self.signals = []
        self.restarts = []
        self.requests = []
        self.trimmed = []
        self.arrivals = []
        self._stopped = set()
        self._ends_at_s = ends_at_s
        self._pids = count(100)
        self._running = {"router": next(self._pids), "sink": next(self._pids)}

    def clock(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        if not self._stopped and self.now_s < self._ends_at_s:
            self.arrivals.append(Arrival(self.now_s, self.rows))

    @property
    def rows(self):
        return int(100 * self.now_s)

    messages = rows

    @property
    def answered(self):
        return self.arrivals[-1].tuples if self.arrivals else 0

    def start(self, setup):
        self.setup = setup
        self._running = dict.fromkeys(self._running, next(self._pids))

    def pids(self):
        return self._running

    def tend(self):
        pass

    check = tend

    def is_settled(self):
        return not self._stopped

    def signal(self, pid, number):
        self.signals.append(number)
        if number == signal.SIGSTOP:
            self._stopped.add(pid)
        elif number == signal.SIGCONT:
            self._stopped.discard(pid)

    def restart_broker(self):
        self.restarts.append("broker")

    def restart_redis(self):
        self.restarts.append("redis")

    def rescale(self, workers):
        self.requests.append(workers)
        self.workers = workers

    def trim_input(self, before):
        assert before <= self.answered
        self.trimmed.append(before)

    def memory(self):
        return {"router": 10 << 20, "sink": 20 << 20}

    def disk(self):
        return {"frames-0": 1_000}


def soaked(parts, lasts_s=2_000.0):
    rules = SoakRules(lasts_s, stall_s=60.0, rate=100.0)
    soak = Soak(
        parts, parts, rules, MemoryWatch(), DiskWatch(10_000, {}), lambda _: None, clock=parts.clock, sleep=parts.sleep
    )
    soak.run(acts(1, list(Act), 3, 5.0))
    return soak


def outcome_of(soak, parts, **changed):
    given = {
        "about": {"seed": 1}, "done": soak.done, "arrivals": parts.arrivals, "rows": parts.answered, "wrong": 0,
        "differences": [], "growth": soak.memory.growth(), "peaks": soak.memory.peaks, "disk": soak.disk,
        "stuck": soak.stuck,
    }  # fmt: skip
    return SoakOutcome(**(given | changed))


def test_a_soak_does_everything_and_leaves_nothing_stopped():
    parts = Parts()
    soak = soaked(parts)
    assert {done.planned.act for done in soak.done} == set(Act)
    assert set(parts.restarts) == {"broker", "redis"}
    assert set(parts.requests) == {1, 2, 3}
    assert not parts._stopped
    assert parts.signals.count(signal.SIGSTOP) == sum(done.planned.act is Act.STOP for done in soak.done)
    assert parts.trimmed == sorted(parts.trimmed)
    assert parts.trimmed
    outcome = outcome_of(soak, parts)
    assert outcome.is_passed, outcome.failures
    text = markdown(outcome)
    assert all(act.about in text for act in Act)
    assert "| 30 | 30 | +0.0% |" in text
    assert text.endswith("passed")


def test_services_that_say_nothing_more_are_stuck():
    parts = Parts(ends_at_s=300.0)
    soak = soaked(parts)
    assert soak.stuck
    assert parts.now_s < 400
    assert "FAILED: no" in markdown(outcome_of(soak, parts))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": 10**9}, "rows have no result"),
        ({"wrong": 2}, "2 tuples differ"),
        ({"differences": ["results are missing"]}, "results are missing"),
        ({"disk": DiskWatch(1, {}, {"frames-0": 3 << 20}, [3 << 20])}, "frames-0 took 3 MiB"),
    ],
)
def test_whatever_is_wrong_fails_a_soak(changed, said):
    parts = Parts()
    outcome = outcome_of(soaked(parts, 100.0), parts, **changed)
    assert not outcome.is_passed
    assert said in markdown(outcome)
