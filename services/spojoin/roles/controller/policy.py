"""What to do next, as a pure function of observations and earlier steps (rule P11).

The log's worker count follows the number of pods (`replicas`): it grows when all of them are ready, and shrinks at
once, since workers beyond it may be gone already. With autoscaling the controller adds a row of workers (rule P19) if
one has been busy for a while, and removes a row if the others could easily do the work: it first lowers the worker
count, and removes the workers once no frame waits for them any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spojoin.roles.controller.cluster import Event, LeavingPod

#: How long a load may be unknown: a worker that has just started reports nothing for some seconds.
UNKNOWN_S = 30.0


@dataclass(frozen=True, slots=True)
class ScalingLimits:
    """The limits of scaling, and its delays.

    cpu_high, cpu_low: cores that a worker uses; lag_high: records of its inputs that it hasn't read yet
    columns: how many workers are a row; fewer get no work
    inside: how many of the first workers share a process with other roles and can't leave
    up_after_s, down_after_s: how long it must be busy, or idle, without interruption
    wait_s_max: how long workers may take to start, and frames to be answered before workers go
    """

    workers_max: int
    is_autoscaling: bool = False
    scale_min: int = 1
    scale_max: int = 1
    cpu_high: float = 0.8
    cpu_low: float = 0.4
    lag_high: int = 64
    up_after_s: float = 15.0
    down_after_s: float = 300.0
    wait_s_max: float = 300.0
    inside: int = 0
    columns: int = 1

    def a_row_more(self, workers: int) -> int:
        """How many workers fill one row more."""
        return self.rows(workers + self.columns) * self.columns

    def a_row_fewer(self, workers: int) -> int:
        """How many workers remain without those that fill no row or, if there are none, without the last row."""
        return self.rows(workers - 1) * self.columns

    def rows(self, workers: int) -> int:
        """How many rows they fill."""
        return workers // self.columns


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker's load: recently used cores, and records that it hasn't read yet."""

    cpu: float
    lag: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What the controller observes in one turn.

    workers: the newest worker count of the control topic; without a record (not is_requested), the setting
    is_answered: whether a frame has that count and all earlier frames are answered; None if unknown
    loads: loads by worker number
    """

    now_s: float
    replicas: int
    ready: int
    workers: int
    is_requested: bool = True
    is_answered: bool | None = None
    loads: Mapping[int, WorkerLoad] = field(default_factory=dict)

    @property
    def peak(self) -> WorkerLoad:
        """The load of the busiest worker, by either measure."""
        loads = self.loads.values()
        return WorkerLoad(max((load.cpu for load in loads), default=0.0), max((load.lag for load in loads), default=0))

    @property
    def is_measured(self) -> bool:
        """Whether the load of every worker is known."""
        return self.loads.keys() >= set(range(self.workers))


@dataclass(frozen=True, slots=True)
class ControllerMemory:
    """What the controller remembers from turn to turn.

    replicas: as last seen or set, so that a different number must come from another
    leaving_since_s: since when replicas should follow a lower worker count
    growing_since_s, busy_since_s, idle_since_s, unknown_since_s: since when, without interruption
    reported: the last event about a lasting condition, so that it is reported once
    """

    replicas: int | None = None
    leaving_since_s: float | None = None
    growing_since_s: float | None = None
    busy_since_s: float | None = None
    idle_since_s: float | None = None
    unknown_since_s: float | None = None
    reported: Event | None = None


@dataclass(frozen=True, slots=True)
class RequestWorkers:
    """Write a worker count to the control topic."""

    workers: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the number of replicas."""

    replicas: int


@dataclass(frozen=True, slots=True)
class ReplacePod:
    """Delete a pod that its node won't end."""

    pod: LeavingPod


Step = RequestWorkers | Scale | ReplacePod | Event
Decision = tuple[ControllerMemory, list[Step]]


def decide(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    """The state to remember if all steps succeed, and the steps, in order."""
    if not seen.is_requested:
        # From now on the router's setting, which may change, no longer counts.
        return state, [RequestWorkers(seen.workers)]
    if state.replicas is not None and seen.replicas != state.replicas:
        state = ControllerMemory()  # another's request, or our own is fulfilled: all durations restart
    state = replace(state, replicas=seen.replicas)
    if state.leaving_since_s is not None:
        return _leave(seen, state, limits)
    wanted = min(max(seen.replicas, 1), limits.workers_max)
    if wanted < seen.workers:
        event = _event("LayoutShrunk", seen.workers, wanted, f"replicas is {seen.replicas}")
        return _settled(seen), [RequestWorkers(wanted), event]
    if wanted > seen.workers:
        return _grow(seen, state, limits, wanted)
    if limits.is_autoscaling and seen.replicas > 0:  # no workers at all is a deliberate pause
        return _autoscale(seen, state, limits)
    return _report_oddities(seen, state, limits)


# -- following the number of workers


def _grow(seen: Observation, state: ControllerMemory, limits: ScalingLimits, wanted: int) -> Decision:
    if seen.ready >= wanted:
        return _settled(seen), [
            RequestWorkers(wanted),
            _event("LayoutGrown", seen.workers, wanted, f"{seen.ready} are ready"),
        ]
    since_s = seen.now_s if state.growing_since_s is None else state.growing_since_s
    state = replace(state, growing_since_s=since_s, busy_since_s=None, idle_since_s=None)
    if limits.is_autoscaling and seen.now_s - since_s >= limits.wait_s_max:
        why = f"only {seen.ready} of {seen.replicas} workers were ready after {limits.wait_s_max:.0f} s"
        back = max(seen.workers, 1)
        return _settled(seen, back), [Scale(back), _event("ScaledBack", seen.replicas, back, why, is_warning=True)]
    text = f"{seen.ready} of {wanted} workers are ready; frames are shared by {seen.workers} until all are"
    return _once(state, Event("WaitingForWorkers", text))


def _report_oddities(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    state = replace(state, growing_since_s=None)
    if seen.replicas > limits.workers_max:
        text = f"{seen.replicas} workers are asked for, workers_max is {limits.workers_max}: the rest stays idle"
        return _once(state, Event("TooManyWorkers", text, is_warning=True))
    if seen.replicas < 1:
        return _once(state, Event("NoWorkers", "results wait until replicas is 1 or more", is_warning=True))
    return replace(state, reported=None), []


# -- scaling by itself


def _autoscale(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    if seen.replicas < limits.scale_min:
        return _scale_up(seen, limits.scale_min, f"scale_min is {limits.scale_min}")
    if seen.replicas > max(limits.scale_max, limits.inside):
        return _begin_leaving(seen, max(limits.scale_max, limits.inside), f"scale_max is {limits.scale_max}")
    if seen.ready < seen.replicas:
        return replace(state, growing_since_s=None, busy_since_s=None, idle_since_s=None), []
    if not seen.is_measured:
        return _unknown(seen, state)
    return _by_load(seen, replace(state, unknown_since_s=None), limits)


def _unknown(seen: Observation, state: ControllerMemory) -> Decision:
    since_s = seen.now_s if state.unknown_since_s is None else state.unknown_since_s
    state = replace(state, unknown_since_s=since_s, busy_since_s=None, idle_since_s=None)
    if seen.now_s - since_s < UNKNOWN_S:
        return state, []
    text = "the load of some workers is not known; the number of workers stays until Redis has it"
    return _once(state, Event("NoMeasurements", text, is_warning=True))


def _by_load(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    if seen.peak.cpu >= limits.cpu_high or seen.peak.lag >= limits.lag_high:
        return _busy(seen, state, limits)
    if _fewer_would_do(seen, limits):
        return _idle(seen, state, limits)
    return replace(state, busy_since_s=None, idle_since_s=None, reported=None), []


def _busy(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    since_s = seen.now_s if state.busy_since_s is None else state.busy_since_s
    state = replace(state, busy_since_s=since_s, idle_since_s=None)
    if seen.now_s - since_s < limits.up_after_s:
        return state, []
    why = f"for {limits.up_after_s:.0f} s the busiest worker {_uses(seen.peak)}"
    wanted = limits.a_row_more(seen.replicas)
    if wanted > limits.scale_max:
        text = f"more than scale_max {limits.scale_max} workers would be needed"
        return _once(state, Event("ScaleMaxReached", text, is_warning=True))
    return _scale_up(seen, wanted, why)


def _idle(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    since_s = seen.now_s if state.idle_since_s is None else state.idle_since_s
    state = replace(state, idle_since_s=since_s, busy_since_s=None, reported=None)
    if seen.now_s - since_s < limits.down_after_s:
        return state, []
    why = f"for {limits.down_after_s:.0f} s the busiest worker {_uses(seen.peak)}"
    return _begin_leaving(seen, limits.a_row_fewer(seen.replicas), why)


def _fewer_would_do(seen: Observation, limits: ScalingLimits) -> bool:
    """Whether the other rows would still be far from busy with one row's work added."""
    fewer = limits.a_row_fewer(seen.replicas)
    if fewer < max(limits.scale_min, limits.inside, 1):
        return False
    share = limits.rows(seen.replicas) / limits.rows(fewer)
    return seen.peak.cpu * share <= limits.cpu_low and 4 * seen.peak.lag <= limits.lag_high


def _scale_up(seen: Observation, replicas: int, why: str) -> Decision:
    return _settled(seen, replicas), [Scale(replicas), _event("ScaledUp", seen.replicas, replicas, why)]


def _begin_leaving(seen: Observation, workers: int, why: str) -> Decision:
    """First lower the worker count: the leaving worker still answers the frames that wait for it."""
    state = replace(_settled(seen), leaving_since_s=seen.now_s)
    return state, [RequestWorkers(workers), _event("LayoutShrunk", seen.workers, workers, why)]


def _leave(seen: Observation, state: ControllerMemory, limits: ScalingLimits) -> Decision:
    """Lower the replicas, until this number, or another's, is observed."""
    waited_s = seen.now_s - (state.leaving_since_s or 0.0)
    if seen.is_answered:
        why = "no frame waits for those that go"
    elif waited_s >= limits.wait_s_max:
        why = f"after {waited_s:.0f} s frames still wait for those that go; the others answer them"
    else:
        return state, []
    return _settled(seen, seen.workers), [
        Scale(seen.workers),
        _event("ScaledDown", seen.replicas, seen.workers, why),
    ]


# -- words


def _settled(seen: Observation, replicas: int | None = None) -> ControllerMemory:
    return ControllerMemory(replicas=seen.replicas if replicas is None else replicas)


def _once(state: ControllerMemory, event: Event) -> Decision:
    return replace(state, reported=event), [] if state.reported == event else [event]


def _event(reason: str, before: int, after: int, why: str, *, is_warning: bool = False) -> Event:
    return Event(reason, f"from {before} to {after} workers: {why}", is_warning)


def _uses(peak: WorkerLoad) -> str:
    return f"has used {peak.cpu:.2f} cores, and the last one was {peak.lag} records behind"
