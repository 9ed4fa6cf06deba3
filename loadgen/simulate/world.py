"""One seed's world: processes over the in-memory log, a scheduler that the seed drives, and faults.

The scheduler picks the process that acts next, and the input that it reads. So any delay and any reordering between
topics may happen, while a partition keeps its order. Then faults end, dead processes restart, and the world must come
to rest with all results out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random
from typing import TypeVar

import numpy as np

from loadgen.simulate import probabilities as odds
from loadgen.simulate.broker import AppendsUnderWay, OutOfReach, SimulatedLog, Target, Writers
from loadgen.simulate.feed import InputsFeed, Source
from loadgen.simulate.followers import FramesFollower, OrderedReader, ResultsFollower, RunOutcome
from loadgen.simulate.process import MachineMakers, Post, Process, members_of, posts_of
from loadgen.simulate.scenario import Scenario, for_router, originals_of, parse
from spojoin.errors import Fenced
from spojoin.protocol.key_columns import key_slots
from spojoin.protocol.machine import InputMachine, Machine, ResultPosition
from spojoin.protocol.packed_machine import EVALUATING, Fellow, pack_of
from spojoin.protocol.packing import ANSWERER, DERIVED, edge_of
from spojoin.protocol.result_partitions import ResultPartition, out_everywhere
from spojoin.protocol.services import Rotation, share_of_joiner
from spojoin.protocol.standby import ECHOES, Seat, standby_of
from spojoin.protocol.topology import Role, Topic, mutable_partition, partitions, presence_partition
from spojoin.roles.intake.machine import IntakeMachine
from spojoin.roles.mutable.answering import READS
from spojoin.roles.router.block_rows import BlockRows
from spojoin.wire.codec import decode, encode
from spojoin.wire.records import Batch, DeadLetter, HotKeys, Presence, Record, Result, Run, WorkerCount

T = TypeVar("T")

#: A seed takes about 5,000 steps; one that needs 40 times as many makes no progress.
STEPS_MAX = 200_000
#: The storm ends after this many steps without progress, in which each process had several turns.
LULL = 120
#: After this many steps without progress, time skips to the end of the hold-up.
LULL_BRIDGED = 30
#: The world is at rest after this many rounds without progress, each after a jump of time beyond every timeout.
ROUNDS_AT_REST = 3
#: Further rounds, in which a standby notices that no instance speaks.
ROUNDS_TO_TAKE_OVER = ECHOES + 2
#: A time in milliseconds that is longer than every timeout.
TIMEOUTS_MS = 1_000_000
_NONE_HELD: frozenset[Topic] = frozenset()


class QuickRandom(Random):
    """Draws like `Random` with less overhead, since a world makes thousands of choices."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        """The element that `Random.choice` would take. Raises IndexError if there is none."""
        count = len(seq)
        if not count:
            raise IndexError("there is nothing to choose from")
        bits = count.bit_length()
        drawn = self.getrandbits(bits)
        while drawn >= count:
            drawn = self.getrandbits(bits)
        return seq[drawn]


class World:
    """Runs one scenario once."""

    def __init__(self, scenario: Scenario, wiring: MachineMakers) -> None:
        self.scenario = scenario
        self.wiring = wiring
        self.rng = QuickRandom(f"world {scenario.seed}")
        self.log = SimulatedLog(self._landed)
        self.frames = FramesFollower()
        self.results = ResultsFollower(scenario.result_partitions, scenario.query.results.key)
        self.in_order = OrderedReader()
        self.dead: list[DeadLetter] = []
        self.dead_lost: list[DeadLetter] = []
        self.faults: list[str] = []
        self.step = 0
        self.now_ms = 0
        self._progress = 0
        self._names = 0
        self._workers = scenario.config.workers
        self._worker_counts_left = scenario.faults.worker_counts if scenario.config.workers_max > 1 else 0
        # Without a controller, all workers that a frame may name exist from the start.
        self._replicas = scenario.config.workers if self._worker_counts_left else scenario.config.workers_max
        self._versions = 0
        self._terms: dict[str, int] = {}
        self._packing, self._repacks = scenario.packing, list(scenario.repacks)
        self._result_positions = [self._result_position()]
        self._feed = InputsFeed(scenario.inputs)
        self._ghosts: list[AppendsUnderWay] = []
        self._stray: set[int] = set()
        self._newest_batch: dict[tuple[int, int], int] = {}
        self._down: list[tuple[int, Post]] = []
        self._plans = 0
        self._planner = QuickRandom(f"plans {scenario.seed}")
        self._hot_keys: dict[tuple[int, int], set[int]] = {}
        self._request_at: list[int] = []
        self._bridges_lulls = scenario.bridges_lulls
        self._stalls_left = self._crashes_left = scenario.faults.at_most
        self._writers = Writers(scenario.broker)
        self._outages_left, self._freezes_left = scenario.broker.outages, scenario.broker.freezes
        self._log_is_back_at = self._commits_are_back_at = 0
        self._is_storm = True
        self._landing = self.rng.choice(odds.LANDING)
        self._create_topics()
        self.processes = [self._start(post) for post in self._posts()]

    def run(self) -> RunOutcome:
        """Run the storm, heal and rest."""
        return self._outcome(self._weather())

    def _weather(self) -> bool:
        """Run the storm, heal and rest; returns whether the world came to rest."""
        self._storm(self.rng.choice(odds.STORM_STEPS))
        self._heal()
        return self._rest()

    def _outcome(self, came_to_rest: bool) -> RunOutcome:
        return RunOutcome(
            self.frames,
            self.results,
            self.in_order.places,
            self.dead,
            self.dead_lost,
            self.faults,
            {topic: self._retained(topic) for topic in Topic},
            self._frames_retained(),
            self._batch_tuples(),
            {name: machine.state_tuples() for process in self.processes for name, machine in process.machines()},
            self.step,
            came_to_rest,
        )

    def _retained(self, topic: Topic) -> int:
        """The number of a topic's records that should have been trimmed, or are still needed.

        A topic whose records now pass by reference may have records from an earlier packing, until a later packing
        reads and trims them. If some runs of an expired batch were trimmed, the others stay until the next batch is
        made. If the answerer that sorts a batch is gone, the runs that it has sent stay until a frame searches the
        batch, and another answerer sends the rest.
        """
        if topic in DERIVED and all(target[0] is not topic for p in self.processes for target in p.cursors):
            return 0
        if topic is not Topic.RUNS:
            return self.log.retained(topic)
        runs = [r for r in self.log.partitions[Topic.RUNS, 0].records if isinstance(r, Run)]
        if not runs or not self.frames.accepted:
            return len(runs)
        live, known = (self._live_batches(frame) for frame in (self.frames.accepted[-1].frame_id, runs[-1].frame_id))
        first = runs[0]
        if known[first.stream] <= first.batch_id < live[first.stream]:
            return 0  # it has expired behind the last batch that was made
        if self._is_left_unmade(first):
            return 0
        return sum(r.batch_id >= live[r.stream] for r in runs)

    def _is_left_unmade(self, run: Run) -> bool:
        """Whether the answerer that sorts a run's batch is gone, and no frame searches the batch (rule P22.10)."""
        if not self._packing.packing.has_answerers:
            return False
        answerers = {process.post.number for process in self.processes if process.post.is_answerer}
        frames = [(frame.workers, frame.slices[run.stream]) for frame in self.frames.accepted]
        is_searched = run.batch_id < frames[-1][1].handover_batch
        return not is_searched and any(
            piece.seals and piece.batch_id == run.batch_id and run.batch_id % workers not in answerers
            for workers, piece in frames
        )

    def _live_batches(self, frame_id: int) -> list[int]:
        """The oldest batch of each stream that a window of a frame can reach."""
        frame = next(each for each in self.frames.accepted if each.frame_id == frame_id)
        return [piece.live_batch for piece in frame.slices]

    def _frames_retained(self) -> int:
        """The number of accepted frames that the log still holds; a zombie's last appends may stay."""
        held = {id(record) for record in self.log.partitions[Topic.FRAMES, 0].records}
        return sum(id(frame) in held for frame in self.frames.accepted)

    def _batch_tuples(self) -> int:
        """Tuples of all retained batches, each once; copies that zombies append after newer batches may stay."""
        batches = {
            (r.stream, r.batch_id): r.end - r.first
            for stream in range(len(self.scenario.query.streams))
            for r in self.log.partitions[Topic.BATCHES, stream].records
            if isinstance(r, Batch) and id(r) not in self._stray
        }
        return sum(batches.values())

    # -- topics and processes

    def _create_topics(self) -> None:
        query = self.scenario.query
        sizes = {
            "predicates": len(query.predicates),
            "streams": len(query.streams),
            "workers_max": self.scenario.config.workers_max,
            "logical_ands": self._mutable_reporters,
            "sinks": self.scenario.sinks,
            "intakes": self.scenario.intakes,
        }
        for topic in Topic:
            self.log.create(topic, partitions(topic, **sizes))
        self.log.create(Topic.DEAD, len(query.inputs))

    @property
    def _mutable_reporters(self) -> int:
        """How many services may report mutable parts, in any of its packings."""
        packings = [self.scenario.packing, *(later for _, later in self.scenario.repacks)]
        answerers = self.scenario.config.workers_max if any(each.packing.has_answerers for each in packings) else 0
        return max(self.scenario.logical_ands, answerers)

    @property
    def _joiners(self) -> int:
        """How many mutable joiners have processes of their own, if any does."""
        return len(self.scenario.query.predicates) * self.scenario.mutable_rows

    def _posts(self) -> list[Post]:
        counts = {
            Role.INTAKE: self.scenario.intakes,
            Role.MUTABLE: self._joiners,
            Role.LOGICAL_AND: self.scenario.logical_ands,
            Role.POJOIN: self._replicas,
            Role.SINK: self.scenario.sinks,
        }
        posts = posts_of(self._packing, counts)
        return [replace(post, instance=instance) for post in posts for instance in self.scenario.instances]

    def _start(self, post: Post) -> Process:
        self._names += 1
        name = f"{post}#{self._names}"
        machine, log, has_others = self._instance_machine(post, name), self.log, self._has_others
        process = Process(
            post,
            name,
            machine,
            log,
            self._take_seat,
            has_other_workers=has_others,
            has_intakes=self.scenario.intakes > 0,
        )
        if not post.instance:
            self._open_writers(process)
        return process

    def _take_seat(self, process: Process) -> ResultPosition | None:
        if self.step < self._commits_are_back_at and self._writers.waits_for(process.post.roles):
            if self.rng.random() < odds.OPENING_FAILS:
                raise OutOfReach("no transaction begins: its writer can't be opened")
            return None
        self._open_writers(process)
        return self._restart_position()

    def _open_writers(self, process: Process) -> None:
        self._lose(self._writers.open(process.post.roles, process.outbox, self.log, process.post.sink))
        if Role.SINK in process.post.roles:
            process.results_out = self._out_in(process.post.sink)
        self._ghosts = [ghost for ghost in self._ghosts if ghost]

    def _out_in(self, sink: int) -> ResultPosition:
        """What a sink's partition of the results lacks."""
        return self.results.owed[sink]

    def _result_position(self) -> ResultPosition:
        """How far results are out, as the services compute it."""
        return out_everywhere(self.results.owed)

    def _lose(self, lost: list[Record]) -> None:
        self.dead_lost += [record for record in lost if isinstance(record, DeadLetter)]

    def _instance_machine(self, post: Post, name: str) -> Machine:
        machine = self._process_machine(post, name)
        if not post.instance:
            return machine
        seat = Seat(post.service, post.instance, name, self.scenario.patience_ms)
        return standby_of(machine, seat, presence_partition(post.service))

    @property
    def _has_others(self) -> bool:
        """Whether other workers may run beside the workers that share a process."""
        return self.scenario.config.workers_max > self._packing.inside

    def _answerer(self, worker: int) -> Machine:
        query, wiring, result_position = self.scenario.query, self.wiring, self._restart_position()
        partition_of = partial(mutable_partition, workers_max=self.scenario.config.workers_max)
        pojoin = Fellow(Role.POJOIN, wiring.pojoin(query, worker, result_position))
        if not query.layout.has_mutable_part:
            return pack_of([pojoin], edge_of(ANSWERER))
        fellows = [
            Fellow(Role.MUTABLE, wiring.answering_joiner(query, worker, result_position), reads=READS),
            pojoin,
            Fellow(Role.LOGICAL_AND, wiring.answering_and(query, result_position, partition_of)),
        ]
        return pack_of(fellows, edge_of(ANSWERER))

    def _process_machine(self, post: Post, name: str) -> Machine:
        if not post.group:
            return self._machine(post, name, self._joiners, self.scenario.logical_ands)
        if post.is_answerer:
            return self._answerer(post.number)
        joiners = len(self.scenario.query.predicates)
        members = members_of(post.group, joiners, self._packing.inside)
        ahead = EVALUATING if self.scenario.query.layout.has_mutable_part else ()
        fellows = [Fellow(each.role, self._machine(each, name, joiners, 1), each.role in ahead) for each in members]
        return pack_of(fellows, edge_of(post.group, has_others=self._has_others, has_intakes=self.scenario.intakes > 0))

    def _router(self, name: str, result_position: ResultPosition) -> InputMachine:
        config = for_router(self.scenario, name, self._names, self._workers)
        return self.wiring.router(self.scenario.query, result_position, config)

    def _machine(self, post: Post, name: str, joiners: int, logical_ands: int) -> Machine:
        """The machine of a post, which is one of that many if it is a joiner or a logical AND."""
        query, wiring, result_position = self.scenario.query, self.wiring, self._restart_position()
        if post.role is Role.ROUTER:
            router = self._router(name, result_position)
            if self.scenario.intakes:
                router = BlockRows(router, originals_of(self.scenario))
            router.on_inputs(list(self.scenario.inputs))
            return router
        if post.role is Role.INTAKE:
            return IntakeMachine(Rotation(post.number, self.scenario.intakes))
        if post.role is Role.MUTABLE:
            (predicate, *_), turn = share_of_joiner(post.number, joiners, len(query.predicates))
            return wiring.mutable(query, predicate, result_position, turn)
        if post.role is Role.POJOIN:
            return wiring.pojoin(query, post.number, result_position)
        if post.role is Role.PERMUTATION:
            return wiring.permutation(query, result_position)
        if post.role is Role.LOGICAL_AND:
            partition = mutable_partition(post.number, self.scenario.config.workers_max)
            return wiring.logical_and(query, result_position, Rotation(post.number, logical_ands), partition)
        return self._sink(result_position, self.scenario.result_partitions[post.sink])

    def _sink(self, result_position: ResultPosition, share: ResultPartition) -> Machine:
        return self.wiring.sink(self.scenario.query, result_position, share)

    def _restart_position(self) -> ResultPosition:
        return self._result_position()

    # -- appends to the log

    def _landed(self, target: Target, record: Record) -> Record:
        if self._is_news(record) or self._held:
            self._progress += 1
        if self.scenario.faults.encode:
            record = decode(encode(record))
        if isinstance(record, Batch):
            self._note_batch(target, record)
        if target[0] is Topic.FRAMES:
            self.frames.hear(record)
        elif target[0] is Topic.RESULTS:
            self.results.hear(record, target[1])
            self.in_order.hear(record, target[1])
            self._result_positions.append(self._result_position())
        elif target[0] is Topic.DEAD and isinstance(record, DeadLetter):
            self.dead.append(record)
        return record

    def _is_news(self, record: Record) -> bool:
        """Whether a record is progress: a beat if it takes a seat, a result unless it repeats the position (P9)."""
        if isinstance(record, Result):
            return record.is_last or record.end > record.begin
        if not isinstance(record, Presence):
            return True
        known = self._terms.get(record.service, 0)
        self._terms[record.service] = max(known, record.term)
        return record.speaks and record.term > known

    def _note_batch(self, target: Target, batch: Batch) -> None:
        partition = id(self.log), target[1]
        if batch.batch_id < self._newest_batch.get(partition, 0):
            self._stray.add(id(batch))
        else:
            self._newest_batch[partition] = batch.batch_id

    # -- storm

    def _storm(self, steps_max: int) -> None:
        """Run until `steps_max` steps are done, or LULL steps pass without progress."""
        moved_at = 0
        while self.step < min(steps_max, moved_at + LULL):
            before = self._progress
            self._storm_step()
            if self._progress != before:
                moved_at = self.step
            elif self._bridges_lulls and (self.step - moved_at) % LULL_BRIDGED == 0:
                skipped = self._bridge()
                if skipped:
                    steps_max += skipped
                    moved_at = self.step

    def _bridge(self) -> int:
        """Skip to the end of the hold-up, and return the skipped steps. If nothing is due, time passes."""
        skipped = self._steps_until_due()
        self.step += skipped
        if skipped:
            return skipped
        self.now_ms += TIMEOUTS_MS if self._feed.is_complete else 0
        for process in list(self.processes):
            self._advance(process, self._hear_tick_and_land)
        return 0

    def _hear_tick_and_land(self, process: Process) -> bool:
        process.go_on(odds.ALL)
        if process.is_busy:
            return False
        self._feedable(process)
        self._hear_and_tick(process)
        if process.outbox.may_land(self._held):
            process.outbox.land(self.rng, self.log, False, self._held)
        return True

    def _steps_until_due(self) -> int:
        """Steps until a process starts or continues to read, or a request comes; 0 if none will."""
        stalls = (until for process in self.processes for until in process.stalled.values())
        stands = (process.stands_until for process in self.processes)
        starts = (due for due, _ in self._down)
        dues = chain(stalls, stands, starts, self._request_at, [self._log_is_back_at, self._commits_are_back_at])
        return min((due - self.step for due in dues if due > self.step), default=0)

    def _storm_step(self) -> None:
        self.step += 1
        held_ms = self.scenario.patience_ms // odds.HELD_STEPS_OF_PATIENCE if self._held else 0
        self.now_ms += self.rng.choice(odds.STEP_MS) + held_ms
        if self._repacks and self._repacks[0][0] <= self.step:
            self._repack()
        self._revive()
        self._write_inputs()
        if self._ghosts and not self._is_log_away and not self._held and self.rng.random() < odds.GHOST_LANDS_A_STEP:
            self._land_ghost()
        if self.processes:
            self._make_trouble()
        if self.processes:
            self._advance(self._next_process(), self._do_what_it_can)

    def _next_process(self) -> Process:
        """Any process. While no transaction ends, mostly waiting processes, so that they compete for seats."""
        if self._held and self.rng.random() < odds.TURN_OF_THE_HELD:
            held = [process for process in self.processes if self._writers.waits_for(process.post.roles)]
            return self.rng.choice(held or self.processes)
        return self.rng.choice(self.processes)

    @property
    def _is_log_away(self) -> bool:
        return self.step < self._log_is_back_at

    @property
    def _held(self) -> frozenset[Topic]:
        return self._writers.held if self.step < self._commits_are_back_at else _NONE_HELD

    def _write_inputs(self) -> None:
        if self.rng.random() < odds.INPUT_GROWS_A_STEP:
            self._feed.grow(self.rng.choice(list(self.scenario.inputs)))

    def _revive(self) -> None:
        if not self._down:
            return
        for due, post in [entry for entry in self._down if entry[0] <= self.step]:
            self._down.remove((due, post))
            if not self._is_wanted(post):
                continue
            if post.role is Role.ROUTER and self._may_rescale():
                self._workers = self.rng.choice(
                    [w for w in range(1, self.scenario.config.workers_max + 1) if w != self._workers]
                )
                self._note(f"{self._workers} workers from now on")
            self.processes.append(self._start(post))

    def _may_rescale(self) -> bool:
        faults = self.scenario.faults
        return self.scenario.config.workers_max > 1 and not faults.worker_counts and self.rng.random() < faults.rescale

    def _make_trouble(self) -> None:
        faults = self.scenario.faults
        if self._crashes_left and self.rng.random() < faults.crash:
            self._crashes_left -= 1
            self._crash(self._victim())
        if self._stalls_left and self.processes and self.rng.random() < faults.stall:
            self._stalls_left -= 1
            self._stall(self.rng.choice(self.processes))
        if self._outages_left and self.rng.random() < odds.OUTAGE_A_STEP:
            self._outages_left -= 1
            self._break_log()
        if self._freezes_left and self.processes and self.rng.random() < odds.FREEZE_A_STEP:
            self._freezes_left -= 1
            self._freeze(self.rng.choice(self.processes))
        if self.rng.random() < odds.ADVICE_A_STEP:
            self._advise()
        if self._spreads_keys and self._planner.random() < odds.PLAN_A_STEP:
            self._plan_keys()
        if self._worker_counts_left and self.rng.random() < odds.WORKER_COUNT_A_STEP:
            self._worker_counts_left -= 1
            self._change_worker_count()
        if self.rng.random() < odds.DISMISSAL_A_STEP:
            self._dismiss()

    def _victim(self) -> Process:
        """Any process, more often a router or sink with pending appends, because its crash is hardest."""
        sending = [p for p in self.processes if p.outbox and {Role.ROUTER, Role.SINK}.intersection(p.post.roles)]
        return self.rng.choice(sending if sending and self.rng.random() < odds.CRASH_HITS_SENDER else self.processes)

    def _crash(self, process: Process) -> None:
        due = self.step + self.rng.choice(odds.RESTART_STEPS)
        if self.rng.random() < self.scenario.faults.zombie:
            self._note(f"{process.name} is replaced, but keeps running")
            self._down.append((due, process.post))
            return
        self._note(f"{process.name} dies{' within a record' if process.is_busy else ''}")
        self._bury(process)
        self._replace_at(due, process.post)

    def _bury(self, process: Process) -> None:
        self.processes.remove(process)
        self._lose(process.outbox.lose_tails(self.rng))
        if process.outbox:
            self._ghosts.append(process.outbox)

    def _land_ghost(self) -> None:
        ghost = self.rng.choice(self._ghosts)
        self._land(ghost)
        if not ghost:
            self._ghosts.remove(ghost)

    def _land(self, ghost: AppendsUnderWay) -> None:
        ghost.land(self.rng, self.log, twice=False)

    def _stall(self, process: Process) -> None:
        topics = sorted({topic for topic, _ in process.cursors})
        if topics:
            topic = self.rng.choice(topics)
            process.stalled[topic] = self.step + self.rng.choice(odds.STALL_STEPS)
            self._note(f"{process.name} reads nothing from {topic} until step {process.stalled[topic]}")

    def _break_log(self) -> None:
        if self.rng.random() < odds.OUTAGE_OF_COMMITS:
            self._commits_are_back_at = self.step + self.rng.choice(odds.OUTAGE_OF_COMMITS_STEPS)
            self._note(f"no transaction begins or ends until step {self._commits_are_back_at}")
            for process in self.processes:
                if self._writers.waits_for(process.post.roles) and self.rng.random() < odds.FREEZES_FOR_COMMITS:
                    self._freeze(process, odds.FREEZE_FOR_COMMITS_STEPS)
        else:
            self._log_is_back_at = self.step + self.rng.choice(odds.OUTAGE_STEPS)
            self._note(f"the log is out of reach until step {self._log_is_back_at}")

    def _freeze(self, process: Process, steps: tuple[int, ...] = odds.FREEZE_STEPS) -> None:
        process.stands_until = self.step + self.rng.choice(steps)
        self._note(f"{process.name} stands still until step {process.stands_until}")

    def _advise(self) -> None:
        self._plans += 1
        codes = np.array([self.rng.choice(odds.HOT_CODES)], np.int64)
        counts = np.array([1 + int(100 * self.rng.random())], np.int64)
        self.log.append((Topic.PLAN, 0), HotKeys(self._plans, len(self.frames.accepted), {(0, 0): (codes, counts)}))

    @property
    def _spreads_keys(self) -> bool:
        """Whether some router writes columns by key."""
        return any(self.scenario.columns_by_key) and bool(key_slots(self.scenario.query))

    def _plan_keys(self) -> None:
        """Write a plan in which a key of recent tuples of each stream has become hot, or has cooled down."""
        for stream, (slot, _) in key_slots(self.scenario.query).items():
            recent = [frame.slices[stream].codes[slot] for frame in self.frames.accepted[-odds.PLAN_FRAMES :]]
            known = sorted({int(code) for codes in recent for code in codes})
            if known:
                hot = self._hot_keys.setdefault((stream, slot), set())
                hot ^= {self._planner.choice(known)}
        self._plans += 1
        plan = {
            key: (np.array(sorted(hot), np.int64), np.ones(len(hot), np.int64)) for key, hot in self._hot_keys.items()
        }
        self.log.append((Topic.PLAN, 0), HotKeys(self._plans, len(self.frames.accepted), plan))

    # -- the worker count as a controller changes it

    def _change_worker_count(self) -> None:
        """Change the worker count: new workers start before a frame names them; others end before or after (P11)."""
        workers_max = self.scenario.config.workers_max
        self._replicas = self.rng.choice([w for w in range(1, workers_max + 1) if w != self._replicas])
        self._note(f"{self._replicas} workers are requested")
        there = {process.post for process in self.processes}
        for post in self._posts():
            if post.role is Role.POJOIN and post not in there:
                self._replace_at(self.step, post)
        self._revive()
        if self.rng.random() < odds.DISMISSAL_AT_ONCE:
            self._dismiss()
        self._request(self._replicas)

    def _request(self, workers: int) -> None:
        """Write the request, perhaps twice, after one that is too large, or before one that is outdated."""
        self._versions += 2
        records = [WorkerCount(self._versions, workers)]
        if self.rng.random() < odds.REQUEST_TOO_LARGE:
            records.insert(0, WorkerCount(self._versions - 1, self.scenario.config.workers_max + 1))
        if self.rng.random() < odds.REQUEST_REPEATED:
            records.append(self.rng.choice((records[-1], WorkerCount(self._versions - 2, 1))))
        for record in records:
            self.log.append((Topic.CONTROL, 0), record)

    def _is_wanted(self, post: Post) -> bool:
        if post.group or self._packing.packing.is_shared(post.role):
            return post in self._posts() and not (post.is_answerer and self._is_lost(post.number))
        return post.role is not Role.POJOIN or (post.number < self._replicas and not self._is_lost(post.number))

    def _is_lost(self, worker: int) -> bool:
        loss = self.scenario.loss
        return loss is not None and worker == loss.worker and (self.step >= loss.step or not self._is_storm)

    def _repack(self) -> None:
        """Move to another packing, as an upgrade does: its processes start while earlier ones may still run."""
        self._packing = self._repacks.pop(0)[1]
        self._note(f"packing {self._packing.packing}")
        for post in self._posts():
            self._replace_at(self.step + self.rng.choice(odds.RESTART_STEPS), post)

    def _dismiss(self) -> None:
        """Remove workers beyond the requested number, even if other processes wait for them."""
        for process in [p for p in self.processes if not self._is_wanted(p.post)]:
            self._note(f"{process.name} is taken away")
            self._bury(process)

    def _note(self, fault: str) -> None:
        self.faults.append(f"step {self.step}: {fault}")

    # -- heal and rest

    def _heal(self) -> None:
        self._is_storm = False
        self._landing = odds.LANDING_AT_REST
        self._note("faults end")
        while self._repacks:
            self._repack()
        self._dismiss()
        self._down = [(0, post) for _, post in self._down]
        self._revive()
        self._feed.complete()
        self._log_is_back_at = self._commits_are_back_at = 0
        for process in self.processes:
            process.stalled.clear()

    def _rest(self) -> bool:
        """Continue without faults until nothing moves, regardless of how much time passes."""
        idle, enough = 0, ROUNDS_AT_REST + (ROUNDS_TO_TAKE_OVER if len(self.scenario.instances) > 1 else 0)
        while idle < enough and self.step < STEPS_MAX:
            before = self._progress
            self._round()
            if self._progress == before:
                idle += 1
                self.now_ms += TIMEOUTS_MS
                self._pass_quietly()
            else:
                idle = 0
        return idle == enough

    def _pass_quietly(self) -> None:
        """Let time pass in which nothing moves."""

    def _round(self) -> None:
        """Let every process do all that it can do now; an overtaken process may still end, with pending appends."""
        while self._ghosts:
            self._land_ghost()
        self.rng.shuffle(self.processes)
        for process in list(self.processes):
            self._advance(process, self._hear_and_tick)
            while self.step < STEPS_MAX and process in self.processes and self._advance(process, self._do_one_thing):
                self.step += 1

    def _hear_and_tick(self, process: Process) -> bool:
        process.go_on(odds.ALL)
        process.hear(self._result_position())
        process.begin(process.machine.on_time(self.now_ms))
        process.go_on(odds.ALL)
        return True

    # -- one step of one process

    def _advance(self, process: Process, action: Callable[[Process], bool]) -> bool:
        """Whether the process did anything; a fenced or overtaken process ends, and a supervisor starts another."""
        if process.is_overtaken:
            return self._end(process, "what it had not read yet was trimmed")
        if process.outbox.has_lost:
            return self._end(process, "what it had written was aborted")
        try:
            return action(process)
        except (Fenced, OutOfReach) as error:
            return self._end(process, str(error))

    def _end(self, process: Process, why: str) -> bool:
        self._note(f"{process.name} ends: {why}")
        self._bury(process)
        self._replace_at(self.step, process.post)
        self._revive()
        return True

    def _replace_at(self, step: int, post: Post) -> None:
        """Start another instance, unless one exists or is planned."""
        if all(p.post != post for p in self.processes) and all(p != post for _, p in self._down):
            self._down.append((step, post))

    def _do_what_it_can(self, process: Process) -> bool:
        """Do one thing in the storm: nothing if the process stands still, and no appends or reads during an outage."""
        if self.step < process.stands_until:
            return False
        if not self._is_log_away:
            return self._do_one_thing(process)
        if process.is_busy:
            process.go_on(self.rng.choice(odds.ACTIONS_LATER))
        else:
            self._hear_or_tick(process)
        return True

    def _do_one_thing(self, process: Process) -> bool:
        if process.outbox.may_land(self._held) and self.rng.random() < self._landing:
            twice = self._is_storm and self.rng.random() < self.scenario.faults.twice
            process.outbox.land(self.rng, self.log, twice, self._held)
        elif process.is_busy:
            process.go_on(self.rng.choice(odds.ACTIONS_LATER))
        elif self._is_storm and self.rng.random() < (odds.HELD_TICKS if self._held else odds.HEARS_OR_TICKS):
            self._hear_or_tick(process)
        elif process.catch_up():
            process.go_on(self.rng.choice(odds.ACTIONS_OF_CATCHING_UP))
        else:
            return self._read(process) or bool(process.outbox)
        return True

    def _hear_or_tick(self, process: Process) -> None:
        if self.rng.random() < odds.TICKS:
            process.begin(process.machine.on_time(self.now_ms))
        elif self.rng.random() < self.scenario.faults.stale:
            process.hear(self.rng.choice(self._result_positions))
        else:
            process.hear(self._result_position())

    def _read(self, process: Process) -> bool:
        targets = process.readable(self.step)
        feeds = self._feedable(process)
        if not targets and not feeds:
            return False
        self._progress += 0 if not feeds and all(target[0] is Topic.PRESENCE for target in targets) else 1
        if feeds and (not targets or self.rng.random() < odds.FEEDS):
            self._feed_rows(process, self.rng.choice(feeds))
        else:
            process.read(self.rng.choice(targets))
        process.go_on(self.rng.choice(odds.ACTIONS_AT_FIRST))
        return True

    # -- the users' inputs

    def _feedable(self, process: Process) -> list[Source]:
        if {Role.INTAKE, Role.ROUTER}.isdisjoint(process.post.roles):
            return []
        router: InputMachine = process.machine  # type: ignore[assignment]
        return self._feed.readable(process.name, router)

    def _feed_rows(self, process: Process, source: Source) -> None:
        router: InputMachine = process.machine  # type: ignore[assignment]
        messages, row = self._feed.take(process.name, source, self.rng.choice(odds.MESSAGES_AT_ONCE))
        process.begin(router.on_rows(*source, parse(self.scenario, source, messages, row)))
