"""The longest gap around a fault, who speaks, and a run against services in a world whose clock is a number."""

import numpy as np
import pytest

from loadgen.chaos.listener import Arrival, HeardAnswers, longest_gap_ms
from loadgen.chaos.silence import Exactness, SilenceNotOver, SilenceOutcome, SilenceRun, StrikeCounts, markdown, planned
from loadgen.chaos.ties import KEPT_EVERY, SampledAnswers, TiedJoin, TiedRows
from tests.support.nested_loop import counts

ARRIVALS = [Arrival(at_s, n + 1) for n, at_s in enumerate([1.0, 1.1, 1.2, 3.0, 3.1, 9.0])]


@pytest.mark.parametrize(
    ("begin_s", "end_s", "gap_ms"),
    [
        (1.15, 3.05, 1800),  # a fault within calm
        (2.0, 3.05, 1800),  # a fault within a gap is charged with all of it
        (1.0, 1.15, 100),
        (3.0, 5.0, 5900),  # the gap that begins before the end
        (9.5, 11.5, 2500),  # nothing came any more
    ],
)
def test_the_longest_gap_reaches_over_both_ends(begin_s, end_s, gap_ms):
    assert longest_gap_ms(ARRIVALS, begin_s, end_s) == pytest.approx(gap_ms)


#: How long Kafka itself is away.
AWAY_S = 5.0


class World:
    """Results come every 10 ms of a clock that only sleeping moves; a struck process silences them for a while."""

    def __init__(self, silent_s=0.7, comes_back=True):
        self.driver = self
        self.now_s = 0.0
        self.struck = []
        self.heard = []
        self.replayed = {("router", 1): 1, ("sink", 2): 3}
        self._silent_until_s = 0.0
        self._silent_s = silent_s
        self._comes_back = comes_back

    def clock(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        if self.now_s >= self._silent_until_s:
            self.heard.append(Arrival(self.now_s, len(self.heard) + 1))

    def services(self):
        return ["router", "sink"]

    def speaker(self, service):
        return f"{service}.b"

    def kill(self, process):
        self._strike("kill", process)

    def pause(self, process):
        self._strike("stop", process)

    def resume(self, process):
        self.struck.append(("resume", process))

    def upgrade(self):
        self._strike("upgrade", "all")

    def replace_query(self):
        self._strike("replacement", "all")

    def restart_kafka(self):
        self._strike("restart", "Kafka")
        self._silent_until_s += AWAY_S
        self.sleep(AWAY_S)
        return AWAY_S

    def lose_redis(self):
        self.struck.append(("loss", "Redis"))

    def tend(self):
        pass

    def are_well(self, _lag_s):
        return self.now_s >= self._silent_until_s

    def arrivals(self):
        return self.heard

    def replays(self):
        return dict(self.replayed)

    def _strike(self, what, process):
        self.struck.append((what, process))
        self._silent_until_s = self.now_s + (self._silent_s if self._comes_back else 1e9)


def run_in(world):
    run = SilenceRun(world, 10.0, note=lambda _: None, clock=world.clock, sleep=world.sleep)
    run.run(planned(world.services(), StrikeCounts(2, 1)))
    return run


def test_a_run_strikes_who_speaks_and_measures_the_gap():
    world = World()
    run = run_in(world)
    assert world.struck == [("kill", "router.b"), ("kill", "sink.b"), ("stop", "router.b"), ("resume", "router.b")]
    assert all(700 <= found.gap_ms < 760 for found in run.found)
    assert 0 < np.median(run.usual_ms) < 25
    assert run.found[2].settled_s > 10


def test_servers_are_struck_last_and_a_restart_is_measured_beyond_its_own_time():
    world = World()
    run = SilenceRun(world, 10.0, note=lambda _: None, clock=world.clock, sleep=world.sleep)
    run.run(planned(["sink"], StrikeCounts(1, restarts=2, losses=1)))
    assert world.struck == [("kill", "sink.b"), ("restart", "Kafka"), ("restart", "Kafka"), ("loss", "Redis")]
    restarts, (loss,) = run.found[1:3], run.found[3:]
    assert all(found.own_ms == 1000 * AWAY_S and 5_700 <= found.gap_ms < 5_760 for found in restarts)
    assert loss.gap_ms < 60
    text = markdown(SilenceOutcome({}, True, 1, run.usual_ms, run.found, Exactness(10, 10, 4, 0, [])))
    (line,) = [line for line in text.splitlines() if line.startswith("| restart")]
    assert line.startswith("| restart, beyond its own 5,000 ms | Kafka | 2 | 7")
    assert line.endswith("| 0 | -, 1,000, - |")
    assert "| loss | Redis | 1 |" in text


def told(world, *, worker_rows, has_standbys=False):
    run = SilenceRun(world, 10.0, note=lambda _: None, clock=world.clock, sleep=world.sleep)
    run.run(planned(world.services(), StrikeCounts(kills=2)))
    outcome = SilenceOutcome({}, has_standbys, worker_rows, [], run.found, Exactness(1, 1, 0, 0, []))
    return [line for line in markdown(outcome).splitlines() if line.startswith("| kill")]


class WorkersWorld(World):
    """Two workers; while one is away, another process may read the log again, and a struck one always does."""

    def __init__(self, again=0):
        super().__init__()
        self._again = again
        self._started = 0
        self.replayed = {("pojoin-0", 1): 1, ("pojoin-1", 2): 1, ("router", 3): 2}

    def services(self):
        return ["pojoin-0", "pojoin-1"]

    def speaker(self, service):
        return service

    def kill(self, process):
        super().kill(process)
        self._started += 1
        self.replayed = {of: count for of, count in self.replayed.items() if of[0] != process}
        self.replayed[process, 10 + self._started] = 1
        self.replayed["router", 3] += self._again


@pytest.mark.parametrize("again", [0, 1])
def test_a_lost_worker_of_several_rows_has_a_bar_of_its_own_and_makes_no_other_process_read_again(again):
    (both, *each) = told(WorkersWorld(again), worker_rows=2)
    assert "| all | 2 |" in both
    assert both.endswith(f"| {2 * again} | 800, -, 0 |")
    assert all(line.endswith(f"| {again} | 800, -, 0 |") for line in each)


def test_one_row_of_workers_and_other_services_keep_their_bars():
    assert all(line.endswith("| 0 | 4,000, -, - |") for line in told(WorkersWorld(), worker_rows=1))
    assert all(line.endswith("| 0 | 4,000, -, - |") for line in told(World(), worker_rows=2))
    assert all(
        line.endswith("| 0 | 1,000, 1,500, - |") for line in told(WorkersWorld(), worker_rows=2, has_standbys=True)
    )


def test_services_that_never_come_back_end_the_run():
    with pytest.raises(SilenceNotOver, match=r"after kill of router\.b"):
        run_in(World(comes_back=False))


@pytest.mark.parametrize(
    "exactness", [Exactness(10, 9, 4, 0, []), Exactness(10, 10, 4, 1, []), Exactness(10, 10, 4, 0, ["a gap"])]
)
def test_what_is_missing_or_wrong_fails_a_run(exactness):
    assert not SilenceOutcome({}, True, 1, [], [], exactness).is_passed
    assert "NOT exact" in str(exactness)


def test_the_counts_are_those_of_the_definition():
    join = TiedJoin("t", window=50, slide=10, seed=3, values=5)
    batch = join.stream().batch(0, 300, join.seed)
    columns = [batch[name].to_numpy() for name in ("draw", "cooling")]
    found = counts(columns, lambda left, right: (left[0] < right[0]) & (left[1] >= right[1]), join.window, join.slide)
    wanted = [tuple(each) for _, *each in found]
    as_left, as_right = TiedRows(join, join.stream(), 0, 300).counts(np.arange(300))
    assert list(zip(as_left.tolist(), as_right.tolist(), strict=True)) == wanted
    late = TiedRows(join, join.stream(), join.begin(200), 300 - join.begin(200)).counts(np.arange(200, 300))
    assert list(zip(*(column.tolist() for column in late), strict=True)) == wanted[200:]


def test_sampled_answers_are_recomputed_and_a_wrong_one_is_named():
    join = TiedJoin("t", window=500, slide=100, seed=3)
    seqs = np.arange(4 * KEPT_EVERY)
    counts = TiedRows(join, join.stream(), 0, len(seqs)).counts(seqs)
    sample = SampledAnswers()
    sample(HeardAnswers(seqs[:600], counts[0][:600], counts[1][:600]))
    harmed = counts[1].copy()
    harmed[3 * KEPT_EVERY] += 1
    sample(HeardAnswers(seqs[600:], counts[0][600:], harmed[600:]))
    assert sample.recompute(join, len(seqs)) == (4, [3 * KEPT_EVERY])
    assert SampledAnswers().recompute(join, 0) == (0, [])
