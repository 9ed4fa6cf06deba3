"""How busy the workers are, according to their reports to the store every second."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spojoin.protocol.packing import roles_of
from spojoin.protocol.topology import Role
from spojoin.roles.controller.policy import WorkerLoad

#: CPU time is averaged over this span, so that one busy second doesn't count
SPAN_MS = 10_000
#: the least span; a shorter one is meaningless
SPAN_MS_MIN = 2_000
#: an older report does not count
AGE_MS_MAX = 5_000
_PREFIX = "pojoin-"


class CpuSample(NamedTuple):
    """A worker's CPU time since its process began, and the time of the report."""

    wall_ms: int
    cpu_s: float


class LoadMeter:
    """Turns workers' status entries into loads; the first `inside` workers have the load of their shared process."""

    def __init__(self, inside: int = 0) -> None:
        self._inside = inside
        self._samples: dict[tuple[int, str], deque[CpuSample]] = {}

    def read(self, statuses: Mapping[str, Mapping[str, str]], wall_ms: int) -> dict[int, WorkerLoad]:
        """Loads by worker number, of the workers whose CPU time has been known for long enough.

        statuses: fields by service name; wall_ms: the current time
        """
        fresh = {name: fields for name, fields in statuses.items() if _is_fresh(fields, wall_ms)}
        keys = {
            _key(worker, fields): fields for name, fields in fresh.items() for worker in _workers(name, self._inside)
        }
        self._samples = {key: self._grown(key, fields) for key, fields in keys.items()}
        loads = {}
        for key, fields in keys.items():
            cpu = _rate(self._samples[key])
            if cpu is not None:
                loads[key[0]] = WorkerLoad(cpu, int(fields["lag"]))
        return loads

    def _grown(self, key: tuple[int, str], fields: Mapping[str, str]) -> deque[CpuSample]:
        samples = self._samples.get(key, deque())
        sample = CpuSample(int(fields["wall_ms"]), float(fields["cpu_s"]))
        if not samples or sample.wall_ms > samples[-1].wall_ms:
            samples.append(sample)
        while samples[-1].wall_ms - samples[0].wall_ms > SPAN_MS:
            samples.popleft()
        return samples


def _is_fresh(fields: Mapping[str, str], wall_ms: int) -> bool:
    return {"wall_ms", "cpu_s", "lag"} <= fields.keys() and wall_ms - int(fields["wall_ms"]) <= AGE_MS_MAX


def _workers(name: str, inside: int) -> Sequence[int]:
    """The numbers of a service's workers."""
    number = name.removeprefix(_PREFIX)
    if name.startswith(_PREFIX) and number.isdecimal():
        return (int(number),)
    roles = roles_of(name)
    return range(inside) if len(roles) > 1 and Role.POJOIN in roles else ()


def _key(worker: int, fields: Mapping[str, str]) -> tuple[int, str]:
    """A worker's number and its process, since CPU time restarts with the process."""
    return worker, f"{fields.get('host')} {fields.get('pid')} {fields.get('started_ms')}"


def _rate(samples: deque[CpuSample]) -> float | None:
    span_ms = samples[-1].wall_ms - samples[0].wall_ms
    if span_ms < SPAN_MS_MIN:
        return None
    return 1000 * (samples[-1].cpu_s - samples[0].cpu_s) / span_ms
