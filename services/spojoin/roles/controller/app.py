"""The controller's turns: observe, decide, act (rule P11)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import structlog

from spojoin.protocol.machine import START
from spojoin.protocol.services import names
from spojoin.protocol.topology import Role
from spojoin.roles.controller.cluster import Cluster, Event, ReplicaCounts
from spojoin.roles.controller.control_topic import ControlTopic
from spojoin.roles.controller.loads import LoadMeter
from spojoin.roles.controller.lost_pods import LostPods, is_held
from spojoin.roles.controller.policy import (
    ControllerMemory,
    Observation,
    ReplacePod,
    RequestWorkers,
    Scale,
    ScalingLimits,
    Step,
    decide,
)
from spojoin.runtime.loop_spec import Surroundings
from spojoin.telemetry.expected_services import Absences, marks_of

#: The name of each kind of step in the metric of steps.
STEP_KINDS: dict[type[Step], str] = {RequestWorkers: "ask", Scale: "scale", ReplacePod: "replace", Event: "event"}

_log = structlog.get_logger(__name__)


class Controller:
    """Follows one query's workers; `workers`: the initial worker count of routers.

    needs: the other services for which results wait; a long absence of one is an event
    """

    def __init__(
        self,
        cluster: Cluster,
        control: ControlTopic,
        world: Surroundings,
        limits: ScalingLimits,
        workers: int,
        needs: Sequence[str] = (),
    ) -> None:
        self._cluster = cluster
        self._control = control
        self._world = world
        self._limits = limits
        self._workers = workers
        self._needs = tuple(needs)
        self._absences = Absences()
        self._meter = LoadMeter(limits.inside)
        self._lost = LostPods()
        self._state = ControllerMemory()

    def turn(self) -> None:
        """Perform the steps that are due; a failed step is decided again in the next turn."""
        self._publish()
        statuses = self._world.shared.statuses()
        seen = self._look(statuses)
        state, steps = decide(seen, self._state, self._limits)
        for step in steps:
            self._take(step)
        self._state = state
        self._replace_held(statuses.keys(), seen.workers)

    def _look(self, statuses: Mapping[str, Mapping[str, str]]) -> Observation:
        requested = self._control.refresh()
        found = self._cluster.workers()
        workers = self._workers if requested is None else requested.workers
        self._note(found, workers)
        clock = self._world.clock
        self._note_absences(statuses, workers)
        return Observation(
            now_s=clock.monotonic_ms() / 1000,
            replicas=found.replicas,
            ready=found.ready,
            workers=workers,
            is_requested=requested is not None,
            is_answered=self._is_answered(workers),
            loads=self._meter.read(statuses, clock.wall_ms()),
        )

    def _note_absences(self, statuses: Mapping[str, Mapping[str, str]], workers: int) -> None:
        """Note services that are away; a store without any status, even this service's, doesn't answer or is new."""
        now_ms = self._world.clock.monotonic_ms()
        if not statuses:
            self._absences.excuse(now_ms)
            return
        marks = marks_of((name, int(fields["wall_ms"])) for name, fields in statuses.items() if "wall_ms" in fields)
        for change in self._absences.take(self._expected(workers), marks, now_ms):
            reason = "ServiceBack" if change.is_back else "ServiceGone"
            self._report(Event(reason, change.sentence, is_warning=not change.is_back))

    def _expected(self, workers: int) -> Sequence[str]:
        """The services for which results wait."""
        return (*self._needs, *names(Role.POJOIN, workers)[self._limits.inside :])

    def _replace_held(self, heard: Collection[str], workers: int) -> None:
        """Replace pods that a lost node holds."""
        clock = self._world.clock
        if self._lost.is_due(self._expected(workers), heard, clock.monotonic_ms()):
            for pod in self._cluster.leaving():
                if is_held(pod, heard, clock.wall_ms()):
                    self._take(ReplacePod(pod))

    def _is_answered(self, workers: int) -> bool | None:
        """Whether the log has this worker count and results are out for all frames before the first with it."""
        head, result_position = self._world.shared.head(), self._world.shared.result_position()
        if result_position is None or not {"workers", "layout_frame"} <= head.keys():
            return None
        return int(head["workers"]) == workers and result_position.frame_id >= int(head["layout_frame"])

    def _note(self, found: ReplicaCounts, workers: int) -> None:
        metrics = self._world.metrics
        metrics.scale_wanted.set(found.replicas)
        metrics.scale_ready.set(found.ready)
        metrics.scale_requested.set(workers)

    def _publish(self) -> None:
        """Report before the store is read, so that a store without any status doesn't answer."""
        if self._world.reporter.is_due():
            self._world.reporter.publish({}, self._world.shared.result_position() or START)

    def _take(self, step: Step) -> None:
        self._world.metrics.scale_steps.labels(STEP_KINDS[type(step)]).inc()
        if isinstance(step, RequestWorkers):
            self._control.request(step.workers)
        elif isinstance(step, Scale):
            self._cluster.scale(step.replicas)
        elif isinstance(step, ReplacePod):
            self._cluster.replace(step.pod)
            text = f"{step.pod.name}, which a lost node holds, is deleted: another pod takes its number"
            self._report(Event("PodReplaced", text, is_warning=True))
        else:
            self._report(step)

    def _report(self, event: Event) -> None:
        (_log.warning if event.is_warning else _log.info)(event.message, reason=event.reason)
        self._cluster.report(event)
