"""The controller as a process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import structlog

from spojoin.errors import ConfigurationError, Retryable
from spojoin.model import Query
from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.access import seen_by
from spojoin.protocol.generations import Generations
from spojoin.protocol.services import without_workers
from spojoin.protocol.topic_config import TopicKind
from spojoin.protocol.topology import Role, Topic
from spojoin.roles.controller.app import Controller
from spojoin.roles.controller.cluster import Cluster
from spojoin.roles.controller.conditions import Conditions, refused_at_start
from spojoin.roles.controller.control_topic import ControlTopic
from spojoin.roles.controller.policy import ScalingLimits
from spojoin.runtime.generations import GenerationsTopic, announced_query, foreign, is_owners, refused
from spojoin.runtime.loop_spec import Surroundings
from spojoin.runtime.process import exit_status, leave, main, stop_on_signals
from spojoin.runtime.query_to_serve import QueryToServe, choose_query
from spojoin.runtime.service import BACKOFF_S_MAX, BACKOFF_S_MIN, create_topics, open_world
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.topics import Topics
from spojoin.telemetry import log_lines
from spojoin.telemetry.reporter import Reporter

SERVICE = "controller"
#: The time between turns, within which a leaving worker is noticed.
TURN_S = 1.0

_log = structlog.get_logger(__name__)


def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; return the exit status of `runtime.service.run`."""
    return exit_status(lambda: _serve(settings))


def _serve(settings: Settings) -> None:
    cluster = _cluster(settings)
    try:
        found = choose_query(settings)
    except ConfigurationError as error:
        refused_at_start(cluster, error)
        raise
    query = found.query
    needs = _without_workers(query, settings, settings.sinks)
    topics = Topics.for_query(query, settings.workers_max, settings.input_topics)
    controlled = ControlledQuery(cluster, topics, settings, limits_of(settings), needs, found)
    log_lines.configure(settings.log_level, SERVICE, query.name)
    with ExitStack() as stack, stop_on_signals() as stop:
        world = open_world((Role.CONTROLLER,), SERVICE, query.name, settings, stack)
        supervise(controlled, world, stop)


def _without_workers(query: Query, settings: Settings, sinks: int) -> tuple[str, ...]:
    return without_workers(query, settings.joiners, settings.packing, settings.logical_ands, sinks, settings.intakes)


def limits_of(settings: Settings) -> ScalingLimits:
    """The controller's part of the settings."""
    return ScalingLimits(
        workers_max=settings.workers_max,
        is_autoscaling=settings.autoscale,
        scale_min=settings.scale_min,
        scale_max=settings.scale_max,
        cpu_high=settings.scale_cpu_high,
        cpu_low=settings.scale_cpu_low,
        lag_high=settings.scale_lag_high,
        up_after_s=settings.scale_up_after_s,
        down_after_s=settings.scale_down_after_s,
        wait_s_max=settings.scale_wait_s_max,
        inside=settings.workers_packed(),
        columns=settings.columns,
    )


@dataclass(frozen=True, slots=True)
class ControlledQuery:
    """A query, the cluster that runs its workers, and how many of them may run.

    needs: the services other than workers for which results wait
    given: the query that the release was given; None if it needn't be compared with the served one
    """

    cluster: Cluster
    topics: Topics
    settings: Settings
    limits: ScalingLimits
    needs: Sequence[str] = ()
    given: QueryToServe | None = None

    def following(self, found: Generations, reporter: Reporter) -> ControlledQuery | None:
        """The query according to the topic of generations, which may differ from the given one (rule P12).

        None if another owns its name.
        """
        settings, followed = self.settings, replace(self, topics=replace(self.topics, generation=found.current_number))
        if not is_owners(found, settings.owner, ""):
            reporter.judged(foreign(self.topics.query, found, settings.owner))
            return None
        if self.given is not None:
            refusal = refused(self.given.query, found, replace=settings.replace, sinks=settings.sinks)
            self.given.judging(reporter.judged)(refusal)
            if refusal and found.current is not None:
                served = announced_query(found.current)
                followed = replace(followed, needs=_without_workers(served, settings, found.current.sinks))
        return followed


def supervise(controlled: ControlledQuery, world: Surroundings, stop: threading.Event) -> None:
    """Run one life after another until `stop` is set; any error that isn't Retryable ends this.

    The store's content belongs to the current generation (rule P12), so each generation has its own life.
    """
    conditions = Conditions(controlled.cluster, world)
    try:
        _lives(controlled, world, conditions, stop)
    finally:
        conditions.end()


def _lives(controlled: ControlledQuery, world: Surroundings, conditions: Conditions, stop: threading.Event) -> None:
    backoff_s = BACKOFF_S_MIN
    health = world.health
    while not stop.is_set():
        try:
            configs = controlled.settings.topic_configs
            world.log.create_topics(
                {controlled.topics.name(Topic.GENERATIONS): 1}, configs.for_kind(TopicKind.INTERNAL)
            )
            generations = GenerationsTopic(world.log, controlled.topics.query)
            followed = controlled.following(generations.read(), world.reporter)
            if followed is None:
                health.is_ready, health.waits_for = False, health.refusal
                health.tick()
                conditions.refuse(health.refusal)
                stop.wait(BACKOFF_S_MAX)
                continue
            create_topics(world.log, followed.topics, configs, seen_by(Role.CONTROLLER))
            _live(followed, world, generations, conditions, stop)
        except Retryable as error:
            backoff_s = BACKOFF_S_MIN if health.is_ready else min(2 * backoff_s, BACKOFF_S_MAX)
            health.is_ready, health.waits_for = False, str(error)
            world.metrics.retries.labels(type(error).__name__).inc()
            _log.warning("starting over", reason=str(error), wait_s=backoff_s)
            conditions.look()
            stop.wait(backoff_s)
            health.tick()


def _live(
    controlled: ControlledQuery,
    world: Surroundings,
    generations: GenerationsTopic,
    conditions: Conditions,
    stop: threading.Event,
) -> None:
    topics, settings, workers = controlled.topics, controlled.settings, controlled.settings.workers
    world.reporter.expect(controlled.needs, workers, settings.workers_packed(), 1 + settings.standbys)
    world.shared.log_id = world.log.topic_id(topics.name(Topic.FRAMES))
    control = ControlTopic(world.log, LogPartition(topics.name(Topic.CONTROL), 0), world.clock)
    try:
        controller = Controller(controlled.cluster, control, world, controlled.limits, workers, controlled.needs)
        while not (stop.is_set() or generations.has_news()):
            controller.turn()
            conditions.look()
            world.health.is_ready = True
            world.metrics.caught_up.set(1)
            world.health.tick()
            stop.wait(TURN_S)
    finally:
        control.close()


def _cluster(settings: Settings) -> Cluster:
    try:
        from spojoin.roles.controller.kubernetes_cluster import connect  # noqa: PLC0415  (only this service needs it)
    except ImportError as error:
        raise ConfigurationError(
            f"the controller needs a package ({error}): pip install 'spojoin[kubernetes]'"
        ) from error
    return connect(settings.namespace, settings.statefulset, settings.workers_packed(), settings.scale_once)


if __name__ == "__main__":
    leave(main(Role.CONTROLLER, lambda: serve(load_settings())))
