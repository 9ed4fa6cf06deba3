"""Makes /state.json, all that the page shows as plain data, from what was seen, with pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spojoin.page.flow import readers, writers
from spojoin.page.latest import Letter, ResultRows
from spojoin.page.sightings import Instance, PartitionName, Sighting
from spojoin.page.subject import Subject, window_text
from spojoin.protocol.packing import roles_of
from spojoin.protocol.services import NEEDED, names, role_of, service_of
from spojoin.protocol.topology import TOPOLOGY, Role, Topic
from spojoin.telemetry.expected_services import NOBODY
from spojoin.telemetry.hop import ABOUT
from spojoin.telemetry.status import FINE, holder_of, hop_rows, open_rows, unanswered_ms

Json = dict[str, Any]
#: removes secrets from a sentence
Censor = Callable[[str], str]

#: the state shown for a service that has gone silent
SILENT = "reports nothing"

#: roles that count tuples; the others count the records that they read
_COUNTS_TUPLES = (Role.ROUTER, Role.SINK)


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known at a moment. None: never seen. `troubles` are sentences about what is away.

    is_store_up: whether the store answered the last request; older content is shown, but no state relies on it.
    out_per_s: records per second appended to topics that no service reports to read.
    workers: the last requested worker count; None if there is none.
    events: services that were away for long or came back, the latest first: when, ms since 1970, and a sentence.
    """

    subject: Subject
    wall_ms: int
    sighting: Sighting | None = None
    is_store_up: bool = False
    results: ResultRows | None = None
    letters: Sequence[Letter] | None = None
    out_per_s: Mapping[Topic, float] | None = None
    workers: int | None = None
    troubles: Sequence[str] = ()
    events: Sequence[tuple[int, str]] = ()

    def expected(self, role: Role) -> tuple[str, ...]:
        """The services of a role that should run, by services' reports; an optional service only if it ran lately.

        Before the first report they follow from the settings, which may differ from the services' settings.
        """
        reported = NOBODY if self.sighting is None else self.sighting.expected
        if self.sighting is None or (role in NEEDED and not reported.needed):
            return self.subject.expected(role, self.workers)
        found = [name for name in reported.seen_ms if role in roles_of(role_of(name))]
        if role in NEEDED:
            found = [name for name in found if name in reported.needed]
        if self.subject.is_of_workers(role) and self.workers is not None:
            shared = [name for name in found if role_of(name) != Role.POJOIN]
            found = [*shared, *names(Role.POJOIN, self.workers)[reported.inside :]]
        return tuple(found)


def state_of(known: Known, censor: Censor) -> Json:
    """The whole state; every sentence that a service wrote passes through `censor`."""
    roles = {edge.role.value: _role(edge.role, known) for edge in TOPOLOGY}
    return {
        "query": _query(known.subject),
        "wall_ms": known.wall_ms,
        "troubles": [censor(text) for text in known.troubles],
        "events": [{"wall_ms": wall_ms, "text": censor(text)} for wall_ms, text in known.events],
        "summary": _summary(known, roles),
        "roles": roles,
        "topics": {topic.value: _topic(topic, known) for topic in _topics()},
        "services": _services(known, censor),
        "hops": _hops(known),
        "windows": list(_windows(known)),
        "results": {"columns": known.results.columns, "rows": known.results.rows} if known.results else None,
        "dead_letters": None if known.letters is None else [letter._asdict() for letter in known.letters],
    }


def _query(subject: Subject) -> Json:
    query = subject.query
    return {
        "name": query.name,
        "text": query.text,
        "window": window_text(query),
        "output": query.results.output.value,
        "streams": [source.name for source in query.inputs],
    }


def _topics() -> list[Topic]:
    named = {topic for edge in TOPOLOGY for topic in (*edge.reads, *edge.writes)}
    return [topic for topic in Topic if topic in named]


def _instances(known: Known, role: Role | None = None) -> list[Instance]:
    found = known.sighting.instances if known.sighting else ()
    return [each for each in found if role is None or role in roles_of(each.status.role)]


# -- summary


def _summary(known: Known, roles: Mapping[str, Json]) -> Json:
    seen = known.sighting
    router, sink = (_live(known, role) for role in _COUNTS_TUPLES)
    latencies = sink[0].status if sink else None
    still_open = open_rows(each.status for each in (*router, *sink))
    totals = seen.totals if seen else {}
    held = holder_of(each.status for each in router)
    return {
        "roles_ready": sum(role["state"] == "ready" for role in roles.values()),
        "roles": sum(role["state"] != "off" for role in roles.values()),
        "in_per_s": _sum(each.tuples_per_s for each in router),
        "out_per_s": _sum(each.tuples_per_s for each in sink),
        "matches_per_s": _sum(each.matches_per_s for each in sink),
        "latency_ms_p50": _finite(latencies.latency_ms_p50) if latencies else None,
        "latency_ms_p99": _finite(latencies.latency_ms_p99) if latencies else None,
        "unanswered_ms": unanswered_ms(each.status for each in (*router, *sink)),
        "open_rows": None if still_open is None else still_open[0],
        "open_ms": None if still_open is None else still_open[1],
        "held": None if held is None else str(held),
        "tuples": totals.get("rows"),
        "answered": totals.get("answered"),
        "matches": totals.get("matches"),
        "dead_letters": totals.get("refused"),
        "epoch": seen.epoch if seen else None,
        "frames_out": seen.result_frame if seen else None,
        "frames_under_way": _under_way(seen),
        "completeness": _completeness(seen),
    }


def _hops(known: Known) -> list[Json]:
    """Where a frame's time went in the last minute; `share` is None for a hop that overlaps others."""
    return [
        {
            "hop": row.hop.value,
            "about": ABOUT[row.hop],
            "service": row.service,
            "services": row.services,
            **row.took._asdict(),
            "share": row.share,
        }
        for row in hop_rows(each.status for each in _instances(known) if not each.is_gone)
    ]


def _under_way(seen: Sighting | None) -> int | None:
    if seen is None or seen.head_frame is None:
        return None
    return max(0, seen.head_frame - (seen.result_frame or 0))


def _completeness(seen: Sighting | None) -> Json | None:
    """The checker's last verdict."""
    said = seen.completeness if seen else {}
    if not {"ratio", "is_exact", "checked_ms"} <= said.keys():
        return None
    return {"ratio": float(said["ratio"]), "is_exact": said["is_exact"] == "1", "checked_ms": int(said["checked_ms"])}


def _windows(known: Known) -> Iterator[Json]:
    """For each stream, its tuples in the window, and how many a full window holds (None: a time window or a table)."""
    query = known.subject.query
    length = query.window.rows
    for number, name in enumerate(query.stream_names):
        yield {"stream": name, "tuples": _window_tuples(known, number, length), "tuples_max": length}


def _window_tuples(known: Known, stream: int, length: int | None) -> int | None:
    """As the router reports; otherwise by the tuples so far for a count window, or by sealed batches."""
    query, seen = known.subject.query, known.sighting
    if seen is None:
        return None
    if (reported := seen.windows.get(query.stream_names[stream])) is not None:
        return reported
    first, end = seen.sealed.get(stream, (0, 0))
    if length is None:
        return end - first
    return min(length, max(end, seen.next_seq or 0) if query.is_self else end)


# -- roles and services


def _role(role: Role, known: Known) -> Json:
    live, expected = _live(known, role), known.expected(role)
    return {
        "state": _role_state(role, known, live),
        "instances": len(live),
        "expected": max(len(expected), len(live)),
        "tuples_per_s": _sum(each.tuples_per_s for each in live) if role in _COUNTS_TUPLES else None,
        "records_per_s": _records_per_s(live),
        "lag": max((each.status.lag for each in live), default=None),
        "cpu_share": _sum(each.cpu_share for each in live),
        "rss_bytes": sum(each.status.rss_bytes for each in live) or None,
        "grid": _grid(known) if role is Role.POJOIN else None,
    }


def _grid(known: Known) -> Json | None:
    """The rows and columns of several workers; None for one, or if they aren't known."""
    grid = None if known.sighting is None else known.sighting.expected.grid
    return None if grid is None or grid.workers < 2 else {"rows": grid.rows, "columns": grid.columns}


def _live(known: Known, role: Role) -> list[Instance]:
    return [each for each in _instances(known, role) if not each.is_gone]


def _role_state(role: Role, known: Known, live: Sequence[Instance]) -> str:
    """A role's state: gone or waiting if a service is, off if none runs or is needed, unknown without the store."""
    if not known.is_store_up:
        return "unknown"
    answered = {service_of(each.status.service) for each in live}
    if not set(known.expected(role)) <= answered:
        return "gone"
    if not live:
        return "off"
    return "ready" if all(each.status.state in FINE for each in live) else "waiting"


def _services(known: Known, censor: Censor) -> list[Json]:
    """The services that report and those that should, in the order of the data's flow."""
    found = [_service(instance, known, censor) for instance in _instances(known)] + list(_missing(known))
    return sorted(found, key=lambda one: (_place(one["role"]), one["service"]))


def _place(name: str) -> int:
    """The rank of a process in the data's flow, by its name: that of its first role."""
    order = list(Role)
    return min((order.index(role) for role in roles_of(name)), default=len(order))


def _service(instance: Instance, known: Known, censor: Censor) -> Json:
    status = instance.status
    return {
        "service": status.service,
        "role": status.role,
        "state": _service_state(instance, known),
        "said": SILENT if instance.is_gone else censor(status.state),
        "place": status.process,
        "tuples_per_s": instance.tuples_per_s if set(_COUNTS_TUPLES).intersection(roles_of(status.role)) else None,
        "records_per_s": _records_per_s([instance]),
        "lag": status.lag,
        "retries": status.retries,
        "uptime_s": status.uptime_s,
        "cpu_share": instance.cpu_share,
        "rss_bytes": status.rss_bytes or None,
    }


def _service_state(instance: Instance, known: Known) -> str:
    if not known.is_store_up:
        return "unknown"
    if instance.is_gone:
        return "gone"
    return "ready" if instance.status.state in FINE else "waiting"


def _missing(known: Known) -> Iterator[Json]:
    """Services that should run but aren't in the store."""
    present = {each.status.service for each in _instances(known)}
    missing = {name: role for edge in TOPOLOGY for role in (edge.role,) for name in known.expected(role)}
    state = "gone" if known.is_store_up else "unknown"
    for name, role in missing.items():
        if name not in present:
            group = role_of(name)
            yield {"service": name, "role": group if roles_of(group) else role.value, "state": state, "said": SILENT}


# -- topics


def _topic(topic: Topic, known: Known) -> Json:
    """A topic's names, ends and records per second; the rates by reading role, since one may lag behind another."""
    by_role = {role.value: _topic_per_s(topic, _live(known, role)) for role in readers(topic) if _live(known, role)}
    outside = (known.out_per_s or {}).get(topic)
    rates = [rate for rate in by_role.values() if rate is not None]
    return {
        "names": known.subject.names(topic),
        "writers": [role.value for role in writers(topic)],
        "readers": [role.value for role in readers(topic)],
        "records_per_s": max(rates, default=outside),
        "read_per_s": by_role,
    }


def _topic_per_s(topic: Topic, instances: Sequence[Instance]) -> float | None:
    """A topic's records per second. Services may read the same partitions, so each partition counts once."""
    fastest: dict[PartitionName, float] = {}
    for instance in instances:
        for partition, rate in instance.records_per_s.items():
            if partition.topic is topic:
                fastest[partition] = max(rate, fastest.get(partition, 0.0))
    return sum(fastest.values()) if fastest else None


def _records_per_s(instances: Sequence[Instance]) -> float | None:
    return _sum(_topic_per_s(topic, instances) for topic in _topics())


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
