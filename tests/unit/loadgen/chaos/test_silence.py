"""The longest gap around a fault, who speaks, and a run against services in a world whose clock is a number."""

import numpy as np
import pytest

from loadgen.chaos.gaps import answered_at_s, gaps_ms, longest_gap_ms, percentile
from loadgen.chaos.listener import Arrival, HeardAnswers
from loadgen.chaos.sampled import KEPT_EVERY, SampledAnswers
from loadgen.chaos.seats import Seats
from loadgen.chaos.silence import SilenceNotOver, SilenceRun, Strike, StrikeCounts, planned
from loadgen.chaos.silence_report import Exactness, SilenceOutcome, as_json, markdown, write
from loadgen.chaos.ties import TiedJoin, TiedRows

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


def test_nothing_ever_came():
    assert longest_gap_ms([], 1.0, 3.0) == 0.0
    assert answered_at_s([], 1) is None


def test_usual_gaps_and_the_moment_of_an_answer():
    assert gaps_ms(ARRIVALS, 1.05, 3.05).tolist() == pytest.approx([100, 1800])
    assert answered_at_s(ARRIVALS, 4) == 3.0
    assert answered_at_s(ARRIVALS, 7) is None


@pytest.mark.parametrize(("number", "p50", "p99"), [(100, 50, 99), (99, 50, 99), (10, 5, 10), (1, 1, 1)])
def test_a_percentile_is_one_of_the_values(number, p50, p99):
    values = list(range(number, 0, -1))
    assert [percentile(values, 50), percentile(values, 99)] == [p50, p99]


def test_faults_are_dealt_round_robin_with_stops_spread_among_kills():
    strikes = planned(["a", "b", "c"], StrikeCounts(kills=6, stops=2))
    kills = [s.service for s in strikes if s.kind is Strike.KILL]
    stops = [s.service for s in strikes if s.kind is Strike.STOP]
    assert kills == ["a", "b", "c"] * 2
    assert stops == ["a", "b"]
    assert [s.kind for s in strikes].index(Strike.STOP) == 3
    assert planned(["a"], StrikeCounts()) == []


def report(pid, state):
    return {"pid": str(pid), "state": state}


class Reports:
    def __init__(self, **states):
        self.found = {f"spojoin:v1:q:status:{name.replace('_', '.')}": fields for name, fields in states.items()}

    def scan(self, prefix):
        return {name: fields for name, fields in self.found.items() if name.startswith(prefix)}


def test_who_speaks_is_what_the_processes_that_run_report():
    pids = {"router": 1, "router.b": 2}
    seats = Seats(Reports(router=report(1, "standby"), router_b=report(2, "ready")), "q")
    assert seats.speaker("router", pids) == "router.b"
    assert seats.are_settled(pids)
    stale = Seats(Reports(router=report(7, "ready"), router_b=report(2, "standby")), "q")
    assert stale.speaker("router", pids) is None
    assert not stale.are_settled(pids)
    both = Seats(Reports(router=report(1, "ready"), router_b=report(2, "ready")), "q")
    assert both.speaker("router", pids) is None
    assert not both.are_settled({**pids, "sink": 3})


#: How long Kafka itself is away.
AWAY_S = 5.0


class World:
    """Results come every 10 ms of a clock that only sleeping moves; a struck process silences them for a while."""

    def __init__(self, silent_s=0.7, comes_back=True):
        self.now_s = 0.0
        self.struck = []
        self.heard = []
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

    def stop(self, process):
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
    assert world.struck == [
        ("kill", "router.b"),
        ("kill", "sink.b"),
        ("stop", "router.b"),
        ("resume", "router.b"),
    ]
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
    text = markdown(SilenceOutcome({}, True, run.usual_ms, run.found, Exactness(10, 10, 4, 0, [])))
    (line,) = [line for line in text.splitlines() if line.startswith("| restart")]
    assert line.startswith("| restart, beyond its own 5,000 ms | Kafka | 2 | 7")
    assert line.endswith("| -, 1,000 |")
    assert "| loss | Redis | 1 |" in text


def test_what_is_done_to_all_comes_behind_what_strikes_one_and_has_a_bar_of_its_own():
    world = World()
    run = SilenceRun(world, 10.0, note=lambda _: None, clock=world.clock, sleep=world.sleep)
    run.run(planned(["sink"], StrikeCounts(1, upgrades=1, replacements=1, restarts=1)))
    assert world.struck == [("kill", "sink.b"), ("upgrade", "all"), ("replacement", "all"), ("restart", "Kafka")]
    text = markdown(SilenceOutcome({}, False, run.usual_ms, run.found, Exactness(10, 10, 4, 0, [])))
    for kind in ("upgrade", "replacement"):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {kind}")]
        assert line.startswith(f"| {kind} | all | 1 | 7")
        assert line.endswith("| -, 3,000 |")


def test_services_that_never_come_back_end_the_run():
    with pytest.raises(SilenceNotOver, match=r"after kill of router\.b"):
        run_in(World(comes_back=False))


def test_the_report_shows_gaps_by_kind_and_service_beside_their_bars(tmp_path):
    run = run_in(World())
    exactness = Exactness(10, 10, 4, 0, [])
    outcome = SilenceOutcome({"packing": "apart"}, True, run.usual_ms, run.found, exactness)
    text = markdown(outcome)
    assert "| kill | all | 2 |" in text
    assert "| kill | sink | 1 |" in text
    assert "| 1,000, 1,500 |" in text
    assert "exact: 10 of 10 rows" in text
    assert outcome.is_passed
    assert as_json(outcome)["exact"] is True
    write(outcome, tmp_path / "out")
    assert (tmp_path / "out" / "silence.md").read_text() == text + "\n"
    alone = SilenceOutcome({}, False, [], run.found, exactness)
    assert "| 4,000, - |" in markdown(alone)


@pytest.mark.parametrize(
    "exactness", [Exactness(10, 9, 4, 0, []), Exactness(10, 10, 4, 1, []), Exactness(10, 10, 4, 0, ["a gap"])]
)
def test_what_is_missing_or_wrong_fails_a_run(exactness):
    assert not SilenceOutcome({}, True, [], [], exactness).is_passed
    assert "NOT exact" in str(exactness)


def nested_loop(join, draw, cooling):
    """In plain Python."""
    for seq in range(len(draw)):
        begin = max(-(-seq // join.slide) * join.slide - join.window, 0)
        before = range(begin, seq)
        yield (
            sum(draw[seq] < draw[i] and cooling[seq] >= cooling[i] for i in before),
            sum(draw[i] < draw[seq] and cooling[i] >= cooling[seq] for i in before),
        )


def test_the_counts_are_those_of_the_definition():
    join = TiedJoin("t", window=50, slide=10, seed=3, values=5)
    batch = join.stream().batch(0, 300, join.seed)
    wanted = list(nested_loop(join, batch["draw"].to_pylist(), batch["cooling"].to_pylist()))
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
