"""Publishes a service's reports in the store, for other services and for people, every second."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from spojoin.model import Query
from spojoin.ports.interfaces import Clock, Fields
from spojoin.ports.shared_state import STATUS_TTL_S, SharedState, key
from spojoin.protocol.grid import grid_of
from spojoin.protocol.machine import Emit, InputMachine, Machine, ResultPosition, Trim
from spojoin.protocol.packed_machine import Pack
from spojoin.protocol.packing import group_name
from spojoin.protocol.services import names, role_of, service_of
from spojoin.protocol.standby import Standby
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.due_frames import FrameTrail
from spojoin.telemetry.expected_services import ServiceReport
from spojoin.telemetry.frame_hops import FrameHops
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.metrics import MachineGauges, Metrics, WindowGauges, value_of
from spojoin.telemetry.status import READY, STANDBY
from spojoin.telemetry.waiting_input import NOTHING_HELD, HeldSince
from spojoin.wire.records import Barrier, Batch, Block, Frame, HotKeys, Record

PUBLISH_MS = 1_000

_log = structlog.get_logger(__name__)

#: the file in which Linux reports a process's sizes in pages; the resident size is the second
_PAGES = Path("/proc/self/statm")


class Identity(NamedTuple):
    """Who reports: the service is the role and its number, the port is where its metrics are served."""

    roles: tuple[Role, ...]
    service: str
    query: str
    metrics_port: int

    @property
    def counts(self) -> bool:
        """Whether this process follows the log for totals and for waiting rows."""
        return Role.ROUTER in self.roles or Role.SINK in self.roles


class Reporter:
    """Gathers the values for the keys of `ports.shared_state`, and publishes them."""

    def __init__(self, who: Identity, shared: SharedState, clock: Clock, metrics: Metrics, health: Health) -> None:
        self._who = who
        self._shared = shared
        self._clock = clock
        self._metrics = metrics
        self._health = health
        self._publish_at_ms = 0.0
        self._started_ms = clock.wall_ms()
        self._head: Fields = {}
        self._count_since = (0, 0)
        self._plan: HotKeys | None = None
        self._batches: dict[tuple[int, int], tuple[int, str]] = {}
        self._gone: list[tuple[int, int]] = []
        self._replay: dict[str, int] = {}
        self._machine = MachineGauges(metrics)
        self._windows: WindowGauges | None = None
        self._query: Query | None = None
        self._held = HeldSince()
        self._needs: tuple[str, ...] = ()
        self._workers = self._inside = 0
        self._columns: int | None = None
        self._instances, self._knows_workers = 1, False
        self._needed: dict[str, int] = {}
        self._trail = FrameTrail()
        self._inputs_wait_since_ms: int | None = None
        self._matches_out = 0
        self._was_ready = self._is_silent = False
        self._life: Machine | None = None
        self.hops = FrameHops(who.roles, clock, metrics.hops)

    def expect(self, needs: Sequence[str], workers: int, inside: int = 0, instances: int = 1) -> None:
        """From now on, report which services should run: `needs`, and the log's worker count, at first `workers`.

        inside: how many of the first workers aren't separate services
        instances: how many of each service should run
        """
        self._needs, self._workers, self._inside, self._instances = tuple(needs), workers, inside, instances
        self._knows_workers = Role.ROUTER in self._who.roles

    def judged(self, refusal: str) -> None:
        """From now on, report why the query that the service was given isn't served; empty if it is."""
        if refusal not in ("", self._health.refusal):
            _log.warning("query not accepted", reason=refusal)
        self._health.refusal = refusal
        self._metrics.accepted.set(not refusal)

    def begin_generation(self) -> None:
        """Forget what was gathered from another generation's topics (rule P12)."""
        self._head, self._count_since, self._plan = {}, (0, 0), None
        self._batches, self._gone, self._replay = {}, [], {}
        self._trail, self._was_ready = FrameTrail(), False
        self._shared.remove(self._key("progress", self._who.service))

    def watch_windows(self, query: Query) -> None:
        """From now on, report how full the query's windows are; for the role that writes frames."""
        self._windows, self._query = WindowGauges(query, self._metrics), query

    def begin_life(self, machine: Machine) -> None:
        """Forget the frames that were under way in an earlier life; listen to each role that shares the process."""
        self.hops.begin()
        self._life = machine
        own = machine.machine if isinstance(machine, Standby) else machine
        if isinstance(own, Pack):
            own.listener = self.hops.made

    def saw(self, partition: int, offset: int, record: Record, appended_ms: int = 0) -> None:
        """A record was read that was appended at `appended_ms` since 1970."""
        if self._times_frames():
            self.hops.took(record, appended_ms)
        if isinstance(record, Frame | Barrier):
            self._metrics.epochs.set(record.epoch + 1)
            if self._who.counts:
                self._trail.follow(record)
        if isinstance(record, Frame):
            self._metrics.head_frame.set(record.frame_id + 1)
            self._show_grid(record)
            self._workers, self._columns, self._knows_workers = record.workers, record.columns, True
            if self._windows is not None:
                self._windows.saw(record)
        elif isinstance(record, Block) and len(record):
            self.hops.took_rows(int(record.produced_ms[0]), int(record.produced_ms[-1]))
        elif isinstance(record, HotKeys):
            self._plan = record
        elif isinstance(record, Batch) and Role.SINK in self._who.roles:
            self._batches[partition, record.batch_id] = (offset, f"{record.first},{record.end},{record.group}")

    def emitted(self, action: Emit) -> None:
        """A record was appended."""
        frame = action.record
        if len(self._who.roles) == 1:
            self.hops.made(frame)
        if isinstance(frame, Frame):
            if self._times_frames():
                self.hops.framed(frame)
            if frame.workers != self._count_since[0]:
                self._count_since = (frame.workers, frame.frame_id)
            self._show_grid(frame)
            self._head = {
                "frame_id": frame.frame_id + 1,
                "next_seq": frame.first_seq + frame.count,
                "workers": frame.workers,
                "layout_frame": self._count_since[1],
                "epoch": frame.epoch,
                "wall_ms": self._clock.wall_ms(),
            }
            if self._windows is not None:
                self._windows.wrote(frame, self._plan)

    def _show_grid(self, frame: Frame) -> None:
        grid = grid_of(frame)
        self._metrics.workers.set(frame.workers)
        self._metrics.rows.set(grid.rows)
        self._metrics.columns.set(grid.columns)

    def _times_frames(self) -> bool:
        """Whether to time frames: not while catching up with the log, nor while another instance speaks."""
        return self._health.is_ready and self._life is not None and not self._life.is_silent

    def trimmed(self, trim: Trim) -> None:
        """Records before an offset are no longer needed."""
        self._replay[f"{trim.topic.value}/{trim.partition}"] = trim.offset
        if trim.topic is Topic.BATCHES:
            gone = [
                (partition, batch_id)
                for (partition, batch_id), (offset, _) in self._batches.items()
                if partition == trim.partition and offset < trim.offset
            ]
            for key in gone:
                del self._batches[key]
            self._gone += gone

    def measure(self, machine: Machine) -> None:
        """Read a machine's figures."""
        self._machine.read(machine)

    def note(self, inputs_wait_since_ms: int | None, matches_out: int, *, is_silent: bool = False) -> None:
        """Note when the oldest row outside all frames was produced (None: there is none), and the matches that are out.

        is_silent: whether another instance of the service speaks; then only that one reports totals
        """
        self._is_silent = is_silent
        self._inputs_wait_since_ms = inputs_wait_since_ms
        self._matches_out = matches_out

    def is_due(self) -> bool:
        """Whether it is time to publish."""
        return self._clock.monotonic_ms() >= self._publish_at_ms

    def publish(self, positions: Mapping[str, int], result_position: ResultPosition) -> None:
        """Write everything; if the store misses something, it is written next time. `positions`: by topic/partition."""
        self._publish_at_ms = self._clock.monotonic_ms() + PUBLISH_MS
        if Role.PREDICTOR not in self._who.roles:
            self._metrics.result_frame.set(result_position.frame_id)
        if Role.SINK in self._who.roles:
            self._shared.put_result_position(result_position)
            self._note_completeness()
        self._was_ready |= self._health.ready()[0]
        self._note_needed()
        self.hops.forget_before(result_position.frame_id)
        entries = {
            self._key("head"): self._head,
            self._key("progress", self._who.service): dict(positions),
            self._key("replay"): self._replay,
            self._key("expected", self._who.service): self._report(),
            self._key("totals"): self._totals(result_position),
            **self._directory(),
            **self._hot(),
        }
        self._shared.put({name: fields for name, fields in entries.items() if fields})
        self._shared.put({self._key("status", self._who.service): self._status(result_position)}, STATUS_TTL_S)
        gone, self._gone = self._gone, []
        for stream, batch_id in gone:
            self._shared.remove(self._key("batches", str(stream)), str(batch_id))

    def _note_needed(self) -> None:
        """Set the needed instances of each service; the worker count may be outdated until the log has been read."""
        knows_workers = self._knows_workers and self._was_ready
        workers = names(Role.POJOIN, self._workers)[self._inside :] if knows_workers else ()
        needed = dict.fromkeys((*self._needs, *workers), self._instances)
        if needed == self._needed:
            return  # unchanged, so that no scrape finds it half written
        self._needed = needed
        self._metrics.needed.clear()
        for service, instances in needed.items():
            self._metrics.needed.labels(service).set(instances)

    def _note_completeness(self) -> None:
        """Read the last check's verdict; the known one stays in force while the store is away."""
        found = self._shared.completeness()
        if found is not None:
            self._metrics.completeness.set(found.ratio)
            self._metrics.exact.set(found.is_exact)
            self._metrics.checked.set(found.checked_ms / 1000)

    def _key(self, *parts: str) -> str:
        return key(self._who.query, *parts)

    def _directory(self) -> dict[str, Fields]:
        found: dict[str, dict[str, str | int | float]] = {}
        for (stream, batch_id), (_, text) in self._batches.items():
            found.setdefault(self._key("batches", str(stream)), {})[str(batch_id)] = text
        return dict(found)

    def _hot(self) -> dict[str, Fields]:
        if self._plan is None:
            return {}
        return {
            self._key("hot", str(stream), str(slot)): dict(zip(map(str, codes.tolist()), counts.tolist(), strict=True))
            for (stream, slot), (codes, counts) in self._plan.hot.items()
        }

    def _report(self) -> Fields:
        report = ServiceReport(self._clock.wall_ms(), self._needs, self._workers, self._inside, self._columns)
        return report.fields() if self._needs else {}

    def _totals(self, result_position: ResultPosition) -> Fields:
        """Totals from the log and the results, once both have been read, so that restarts don't reduce them."""
        if not self._was_ready or self._is_silent:
            return {}
        found: dict[str, int] = {}
        if Role.ROUTER in self._who.roles:
            found |= {"rows": self._trail.rows, "refused": self._trail.refused}
        answered = self._trail.answered(result_position)
        if Role.SINK in self._who.roles and answered is not None:
            service = service_of(self._who.service)
            is_one_of_several = role_of(service) == Role.SINK != service
            found |= {"answered": answered, f"matches:{service}" if is_one_of_several else "matches": self._matches_out}
        return found

    def _unanswered_ms(self, result_position: ResultPosition) -> float:
        """The age of the oldest row that is known to have no result; NaN if none waits."""
        oldest = [self._trail.oldest_ms(result_position), self._inputs_wait_since_ms]
        age_ms = max((float(self._clock.wall_ms() - at) for at in oldest if at is not None), default=math.nan)
        self._metrics.unanswered_age.set(0.0 if math.isnan(age_ms) else max(0.0, age_ms / 1000))
        return age_ms

    def _open_rows(self) -> Fields:
        """The number of open rows, and for how long the oldest has been open; empty if no rows ask."""
        rows, since_ms = self._trail.open.rows, self._trail.open.since_ms
        if rows is None:
            return {}
        age_ms = 0.0 if since_ms is None else max(0.0, float(self._clock.wall_ms() - since_ms))
        self._metrics.open_rows.set(rows)
        self._metrics.open_age.set(age_ms / 1000)
        return {"open_rows": rows, "open_ms": age_ms}

    def _held_by(self) -> Fields:
        """The input that holds rows back, and since when."""
        if self._query is None or not isinstance(self._life, InputMachine):
            return {}
        holder = None if self._is_silent else self._life.holder()
        found = self._held.note(holder, self._query, self._clock.monotonic_ms())
        self._metrics.held.clear()
        if found is None or holder is None:
            return NOTHING_HELD
        stream, partition = self._query.inputs[holder.stream].name, holder.partition
        self._metrics.held.labels(stream, "" if partition is None else partition).set(found.ms / 1_000)
        return found.fields()

    def _status(self, result_position: ResultPosition) -> Fields:
        is_ready, said = self._health.ready()
        metrics = self._metrics
        status: dict[str, str | int | float] = {
            "role": group_name(self._who.roles),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "metrics_port": self._who.metrics_port,
            "state": (STANDBY if self._is_silent else READY) if is_ready else said,
            "started_ms": self._started_ms,
            "wall_ms": self._clock.wall_ms(),
            "head_frame": int(value_of(metrics.head_frame)),
            "lag": int(value_of(metrics.lag)),
            "cpu_s": round(time.process_time(), 3),
            "rss_bytes": resident_bytes(),
            "tuples": int(value_of(metrics.tuples if Role.ROUTER in self._who.roles else metrics.answered_tuples)),
            "matches": int(value_of(metrics.matches)),
            "retries": int(value_of(metrics.retries)),
            "refusal": self._health.refusal,
            **{f"hop:{hop}": took.text() for hop, took in metrics.hops.lately(self._clock.monotonic_ms()).items()},
        }
        if Role.PREDICTOR not in self._who.roles:
            status["result_frame"] = result_position.frame_id
        if self._who.counts:
            status["unanswered_ms"] = self._unanswered_ms(result_position)
            status |= self._open_rows()
        status |= self._held_by()
        if Role.SINK in self._who.roles:
            now_ms = self._clock.monotonic_ms()
            status["latency_ms_p50"] = metrics.latency.recent_ms(0.50, now_ms)
            status["latency_ms_p99"] = metrics.latency.recent_ms(0.99, now_ms)
        return status


def resident_bytes() -> int:
    """Memory of this process; 0 if the system doesn't report it."""
    if not _PAGES.is_file():
        return 0
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
