"""The state that services share through the store, under documented keys. It is a cache: losing it changes no result.

All keys start with `spojoin:v1:<query>:` (v1 is the version of this schema) and are hashes:

    head                   frame_id, next_seq, epoch, wall_ms,    router: behind its latest frame; that frame's worker
                           workers, layout_frame                  count, and the first frame known to have it
    result_position        log, frame_id, position                sink: results are out before; the router's credits
    result_position:<partition>   the same                        each of several sinks: what its partition lacks
    progress:<service>     <topic>/<partition> = next offset      each service: what it has read
    batches:<stream>       <batch id> = first, end, group         sink: sealed batches that a window can reach
    replay                 <topic>/<partition> = earliest offset  each role that trims: where a rebuilt service begins
    hot:<stream>:<slot>    <code> = count                         router: the predictor's hot keys in force
    completeness           ratio, is_exact, checked_ms            the checker: its last verdict on the results
    totals                 rows, refused; answered, matches       router; sinks (matches:<service> of several): in all
    expected:<service>     wall_ms, needs, workers                each service: see `telemetry.expected_services`
    status:<service>       see `telemetry.status`                 each service, every second; gone some seconds after it

Everything except the verdict is rewritten at intervals, so that a wiped store fills again. `log` is the id of the
frames topic: a result position from an earlier topic with the same name does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import structlog
from prometheus_client import Counter

from spojoin.ports.interfaces import Clock, Fields, Store, StoreUnavailable
from spojoin.protocol.machine import ResultPosition
from spojoin.protocol.result_partitions import WHOLE, ResultPartition

SCHEMA_VERSION = 1
#: a store that failed is left alone for this long, so that a dead one costs at most one timeout per second
RETRY_MS = 1_000
STATUS_TTL_S = 10.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Completeness(NamedTuple):
    """A check's verdict: right result rows / expected rows; whether nothing differs; the time, ms since 1970."""

    ratio: float
    is_exact: bool
    checked_ms: int

    def fields(self) -> Fields:
        """The fields for the store."""
        return {"ratio": self.ratio, "is_exact": int(self.is_exact), "checked_ms": self.checked_ms}


def key(query: str, *parts: str) -> str:
    return ":".join(("spojoin", f"v{SCHEMA_VERSION}", query, *parts))


def store_rules(query: str) -> str:
    """Redis's ACL rules for the services that share a query's state: its keys, and the commands of their client."""
    commands = ("hset", "hgetall", "hdel", "del", "persist", "pexpire", "scan", "hello")
    return " ".join((f"~{key(query)}:*", *(f"+{command}" for command in commands)))


class SharedState:  # P1.2
    """One service's view of the store. No operation raises: a failure is counted, logged once and otherwise ignored.

    `store`: None stands for a store that is never there. `log_id`: the id of the frames topic.
    """

    def __init__(self, store: Store | None, query: str, clock: Clock, failures: Counter) -> None:
        self.log_id = ""
        self._store = store
        self._query = query
        self._clock = clock
        self._failures = failures
        self._is_down = False
        self._retry_at_ms = 0.0

    def put_result_position(self, result_position: ResultPosition, share: ResultPartition = WHOLE) -> None:
        """Report that results before `result_position` are out; of several partitions, those of `share`."""
        fields: Fields = {
            "log": self.log_id,
            "frame_id": result_position.frame_id,
            "position": result_position.position,
        }
        self.put({self._key_of(share): fields})

    def result_position(self, share: ResultPartition = WHOLE) -> ResultPosition | None:
        """What a partition of this log's results lacks, or None if the store doesn't know it."""
        nothing: dict[str, str] = {}
        found = self._attempt(lambda store: store.get(self._key_of(share)), nothing)
        if found.get("log") != self.log_id or not {"frame_id", "position"} <= found.keys():
            return None
        return ResultPosition(int(found["frame_id"]), int(found["position"]))

    def _key_of(self, share: ResultPartition) -> str:
        return key(self._query, "result_position", *([] if share == WHOLE else [str(share.number)]))

    def head(self) -> dict[str, str]:
        """The router's report about its latest frame; empty if the store doesn't have it."""
        nothing: dict[str, str] = {}
        return self._attempt(lambda store: store.get(key(self._query, "head")), nothing)

    def statuses(self) -> dict[str, dict[str, str]]:
        """Each service's report from the last seconds, by the service's name."""
        nothing: dict[str, dict[str, str]] = {}
        prefix = key(self._query, "status", "")
        found = self._attempt(lambda store: store.scan(prefix), nothing)
        return {name.removeprefix(prefix): fields for name, fields in found.items()}

    def reports(self) -> dict[str, dict[str, str]]:
        """Each service's latest report, and reports about which services should run, by the store's keys."""
        nothing: dict[str, dict[str, str]] = {}
        kinds = [key(self._query, kind, "") for kind in ("status", "expected")]
        return self._attempt(lambda store: {n: f for kind in kinds for n, f in store.scan(kind).items()}, nothing)

    def completeness(self) -> Completeness | None:
        """The last check's verdict, or None if the store doesn't have one."""
        nothing: dict[str, str] = {}
        found = self._attempt(lambda store: store.get(key(self._query, "completeness")), nothing)
        if not set(Completeness._fields) <= found.keys():
            return None
        return Completeness(float(found["ratio"]), found["is_exact"] == "1", int(found["checked_ms"]))

    def put(self, entries: Mapping[str, Fields], ttl_s: float | None = None) -> None:
        """Set fields of keys made by `key`."""
        self._attempt(lambda store: store.put(entries, ttl_s), None)

    def remove(self, name: str, *fields: str) -> None:
        """Remove fields of a key made by `key`, or the key."""
        self._attempt(lambda store: store.remove(name, *fields), None)

    def _attempt(self, action: Callable[[Store], T], otherwise: T) -> T:
        if self._store is None or self._clock.monotonic_ms() < self._retry_at_ms:
            return otherwise
        try:
            result = action(self._store)
        except StoreUnavailable as error:
            self._note_failure(error)
            return otherwise
        if self._is_down:
            _log.info("the store answers again")
        self._is_down = False
        return result

    def _note_failure(self, error: StoreUnavailable) -> None:
        self._failures.inc()
        self._retry_at_ms = self._clock.monotonic_ms() + RETRY_MS
        if not self._is_down:
            _log.warning("the store does not answer; going on without it", error=str(error))
        self._is_down = True
