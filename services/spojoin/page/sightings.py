"""What the store holds at one moment, and what needs several looks: rates, and which services have gone silent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spojoin.errors import BadData
from spojoin.page.subject import Subject
from spojoin.ports.shared_state import key
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.expected_services import ExpectedServices, expected_of
from spojoin.telemetry.status import ServiceStatus, reports_of, status_rows, totals_of

#: a rate is taken over the latest readings, about one a second
READINGS = 6

Entries = Mapping[str, Mapping[str, str]]

#: services report every second; one that has been silent for this long is gone
SILENCE_MS_MAX = 5_000


class Rates:
    """Readings of counters by name; no more are kept than a rate needs."""

    def __init__(self) -> None:
        self._readings: dict[Hashable, deque[tuple[float, float]]] = {}

    def note(self, name: Hashable, at_ms: float, value: float) -> None:
        """A counter's value at a time of its own clock; one that has fallen was restarted."""
        readings = self._readings.setdefault(name, deque(maxlen=READINGS))
        if readings and value < readings[-1][1]:
            readings.clear()
        if not readings or at_ms > readings[-1][0]:
            readings.append((at_ms, value))

    def per_s(self, name: Hashable) -> float | None:
        """The mean increase a second over the latest readings; None before the second one."""
        readings = self._readings.get(name)
        if readings is None or len(readings) < 2:
            return None
        (first_ms, first), (last_ms, last) = readings[0], readings[-1]
        return 1000 * (last - first) / (last_ms - first_ms)

    def all_per_s(self) -> dict[Hashable, float]:
        """The rates of all counters that have one."""
        return {name: rate for name in self._readings if (rate := self.per_s(name)) is not None}

    def keep(self, names: Iterable[Hashable]) -> None:
        """Forget all other counters."""
        kept = set(names)
        self._readings = {name: readings for name, readings in self._readings.items() if name in kept}


class PartitionName(NamedTuple):
    """A partition of a topic; `name` distinguishes topics of one kind."""

    topic: Topic
    name: str
    partition: str


class Instance(NamedTuple):
    """One service as it was seen last. Rates are None until it has been seen twice.

    `records_per_s`: for each partition that it reads, how many offsets it passes a second.
    """

    status: ServiceStatus
    silent_ms: float
    tuples_per_s: float | None
    matches_per_s: float | None
    cpu_share: float | None
    records_per_s: Mapping[PartitionName, float]

    @property
    def is_gone(self) -> bool:
        """Whether the service has gone silent."""
        return self.silent_ms > SILENCE_MS_MAX


class Sighting(NamedTuple):
    """Everything of one query in the store; `next_seq` and `epoch` are None before the first frame."""

    instances: tuple[Instance, ...]
    next_seq: int | None
    epoch: int | None
    head_frame: int | None
    result_frame: int | None
    result_row: int | None
    sealed: Mapping[int, tuple[int, int]]
    windows: Mapping[str, int]
    completeness: Mapping[str, str]
    totals: Mapping[str, int]
    expected: ExpectedServices


@dataclass(slots=True)
class _Heard:
    """A service's last report by its own clock, and when it came by ours, so that clocks may differ."""

    wall_ms: int = -1
    at_ms: float = 0.0
    rates: Rates = field(default_factory=Rates)


class Observer:
    """Looks at the store's entries again and again; what it keeps is bounded by the number of services."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._heard: dict[str, _Heard] = {}

    def take(self, entries: Entries, now_ms: float, wall_ms: int) -> Sighting:
        """The content of `entries`; `now_ms` never runs backwards. Raises BadData if they can't be read."""
        try:
            return self._sighting(entries, now_ms, wall_ms)
        except (ValueError, IndexError) as error:
            raise BadData(f"Redis holds what no service has written ({error}): delete the query's keys") from error

    def _sighting(self, entries: Entries, now_ms: float, wall_ms: int) -> Sighting:
        statuses = [row for row in status_rows(entries, 0) if row.query == self._subject.query.name]
        self._heard = {row.service: self._heard.get(row.service, _Heard()) for row in statuses}
        for status in statuses:
            self._hear(status, self._positions(entries, status.service), now_ms)
        head, result_position = self._entry(entries, "head"), self._entry(entries, "result_position")
        return Sighting(
            instances=tuple(self._instance(status, now_ms) for status in statuses),
            next_seq=_number(head, "next_seq"),
            epoch=_number(head, "epoch"),
            head_frame=_number(head, "frame_id"),
            result_frame=_number(result_position, "frame_id"),
            result_row=_number(result_position, "position"),
            sealed=dict(self._sealed(entries)),
            windows=dict(self._windows(entries)),
            completeness=dict(self._entry(entries, "completeness")),
            totals=totals_of(self._entry(entries, "totals")),
            expected=expected_of(reports_of(entries).get(self._subject.query.name, {}), wall_ms),
        )

    def _entry(self, entries: Entries, *parts: str) -> Mapping[str, str]:
        return entries.get(key(self._subject.query.name, *parts), {})

    def _positions(self, entries: Entries, service: str) -> dict[Hashable, float]:
        found: dict[Hashable, float] = {}
        for text, offset in self._entry(entries, "progress", service).items():
            name, _, partition = text.rpartition("/")
            topic = self._subject.topic_of(name)
            if topic is not None:
                found[PartitionName(topic, name if topic is Topic.INPUT else topic.value, partition)] = int(offset)
        return found

    def _sealed(self, entries: Entries) -> Iterator[tuple[int, tuple[int, int]]]:
        """For each stream, the indexes [first, end) of the sealed batches that a window can reach."""
        for stream in range(len(self._subject.query.streams)):
            batches = [text.split(",") for text in self._entry(entries, "batches", str(stream)).values()]
            if batches:
                yield stream, (min(int(batch[0]) for batch in batches), max(int(batch[1]) for batch in batches))

    def _windows(self, entries: Entries) -> Iterator[tuple[str, int]]:
        """Tuples in each stream's window, where a service reports them: `window_tuples:<stream>` of its status."""
        names = self._subject.query.stream_names
        for entry in (self._entry(entries, "status", role.value) for role in Role):
            yield from ((name, int(float(entry[f]))) for name in names if (f := f"window_tuples:{name}") in entry)

    def _hear(self, status: ServiceStatus, positions: Mapping[Hashable, float], now_ms: float) -> None:
        heard = self._heard[status.service]
        if status.wall_ms == heard.wall_ms:
            return
        heard.wall_ms, heard.at_ms = status.wall_ms, now_ms
        counted: dict[Hashable, float] = {"tuples": status.tuples, "matches": status.matches}
        counted.update(positions)
        if not math.isnan(status.cpu_s):
            counted["cpu"] = status.cpu_s
        for name, value in counted.items():
            heard.rates.note(name, status.wall_ms, value)
        heard.rates.keep(counted)

    def _instance(self, status: ServiceStatus, now_ms: float) -> Instance:
        heard = self._heard[status.service]
        rates = heard.rates.all_per_s()
        records = {name: rate for name, rate in rates.items() if isinstance(name, PartitionName)}
        return Instance(
            status, now_ms - heard.at_ms, rates.get("tuples"), rates.get("matches"), rates.get("cpu"), records
        )


def _number(fields: Mapping[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None
