"""One query of the main job, from its topics to its checked result."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.demo.follower import Follower, OutputMark, OutputTrace, latency, rate
from loadgen.demo.jobs import Job, Tables, answered, answers_due, rows_until_full, split
from loadgen.demo.screen import PlayProgress, Screen
from loadgen.demo.stage import Stage
from spojoin.local.serve import WORKERS, ServedQuery, ServePlan, serve
from spojoin.local.services import WORKERS_INSIDE
from spojoin.local.supervise import ServiceError
from spojoin.local.usage import Usage, usage_of
from spojoin.model import Order, Query
from spojoin.ports.interfaces import LogPartition
from spojoin.protocol.packing import APART
from spojoin.protocol.topology import HEARTBEAT

if TYPE_CHECKING:
    from loadgen.check.verdict import Verdict
    from loadgen.load.feed import Feed

REFRESH_S = 0.2
#: The play fails if rows are due and no result comes for this long.
STALL_S = 60.0
FLUSH_TIMEOUT_S = 30.0
#: The paced part comes at this share of the measured rate, and no faster than Spark can easily write. The next values
#: bound its rate and, on a busy machine, its length in seconds.
PACED_SHARE = 0.5
PACED_ROWS_PER_SECOND_MAX = 20_000.0
PACED_S_MAX = 12.0
#: The end of the year 9999.
FOREVER_MS = 253_402_300_799_999


@dataclass(slots=True)
class QueryOutcome:
    """The outcome of a query.

    usage: by service; window_full_tuples: tuples until the windows are full; full_speed_tuples: tuples sent at full
    speed, before the paced ones; seconds: from the first row sent to the last result
    """

    job: Job
    query: Query
    verdict: Verdict
    trace: OutputTrace
    usage: dict[str, Usage]
    window_full_tuples: int
    full_speed_tuples: int
    seconds: float

    def report(self) -> dict[str, Any]:
        """The query's entry in report.json."""
        verdict, trace = self.verdict.as_json(), self.trace
        speed = rate(trace, self.window_full_tuples, self.full_speed_tuples)
        return {
            "name": self.query.name,
            "tuples": verdict["tuples"],
            "rejected": sum(verdict["rejected"].values()),
            "rejected_by_reason": verdict["rejected"],
            "matches": verdict["matches"],
            "completeness": verdict["completeness"],
            "false_positives": verdict["false_positives"],
            "duplicates": verdict["duplicates"],
            "misordered": verdict["misordered"],
            "rejects_wrong": verdict["rejects_wrong"],
            "probes_checked": verdict["probes_checked"],
            "is_exact": verdict["is_exact"],
            "first_difference": verdict["first_difference"],
            "tuples_per_second": None if speed is None else round(speed, 1),
            "tuples_window_full": max(0, self.full_speed_tuples - self.window_full_tuples),
            **latency(trace, self.full_speed_tuples),
            "latency_tuples": max(0, trace.last.tuples - self.full_speed_tuples),
            "seconds": round(self.seconds, 3),
            "messages": self.job.message,
            "packing": self.job.packing,
            "services": {
                name: {
                    "cpu_us_per_tuple": round(1e6 * used.cpu_s / max(1, trace.last.tuples), 2),
                    "peak_rss_bytes": used.peak_rss_bytes,
                }
                for name, used in self.usage.items()
            },
        }


def play(job: Job, tables: Tables, stage: Stage, logs: Path, screen: Screen) -> QueryOutcome:
    """Serve the query, send it all rows, wait for all results, end the services, check."""
    return _Play(job, tables, stage, logs, screen).run()


class _Play:
    def __init__(self, job: Job, tables: Tables, stage: Stage, logs: Path, screen: Screen) -> None:
        self.job, self.query, self.tables = job, job.query(), tables
        self.stage, self.logs, self.screen = stage, logs, screen
        self.follower = Follower(stage.log, self.query, self._topics.values())
        self.feed: Feed | None = None
        self.rows_before = self.answerable = self.due = 0
        self.passing_share = 1.0
        self.served: ServedQuery | None = None

    def run(self) -> QueryOutcome:
        self._show("starting services")
        try:
            with serve(self._plan(), self.stage.servers) as self.served:
                self.follower.start()
                parts = split(self.tables, self.query)
                started = time.monotonic()
                self._send("at full speed", parts.first, None, parts.cut_ms or FOREVER_MS)
                full_speed = self.follower.trace.last.tuples
                self._send("paced", parts.rest, self._pace(parts.rest, full_speed), FOREVER_MS)
                seconds = time.monotonic() - started
                pids = self.served.supervisor.pids()
                usage = {name: used for name, pid in pids.items() if (used := usage_of(pid))}
        finally:
            self.served = None
            self.follower.close()
        verdict = self._check()
        window_full = rows_until_full(self.tables, self.query)
        return QueryOutcome(self.job, self.query, verdict, self.follower.trace, usage, window_full, full_speed, seconds)

    def _plan(self) -> ServePlan:
        self.logs.mkdir(parents=True, exist_ok=True)
        query_file = self.logs / f"{self.job.name}.yaml"
        query_file.write_text(self.job.text)
        return ServePlan(
            self.query,
            query_file,
            workers=WORKERS if self.job.packing == APART else WORKERS_INSIDE,
            packing=self.job.packing,
            input_topics=self._topics,
            partitions=self.job.partitions,
            logs=self.logs,
        )

    @property
    def _topics(self) -> dict[str, str]:
        return {stream.name: self.job.topic(stream.name) for stream in self.query.inputs}

    def _send(self, how: str, tables: Tables, rows_per_second: float | None, until_ms: int) -> None:
        """Send rows of all streams, all earlier than `until_ms`; wait until each has its result or is refused."""
        total, taking = sum(table.num_rows for table in tables.values()), answered(tables, self.query)
        self.passing_share = taking / max(1, total)
        self._show(how)
        self.feed = self._wait(self.stage.pool.submit(self._fed, tables, rows_per_second), how)
        self._wait(self.stage.pool.submit(self.feed.wait), how)
        self.feed = None
        self.rows_before += total
        self.answerable += taking
        self.due = answers_due(self.tables, self.query, self.answerable, until_ms)
        if self.query.order.by is Order.EVENT_TIME:
            self._beat(until_ms)
        self._drain(how)

    def _beat(self, until_ms: int) -> None:
        """Send heartbeats: no input has any further row from before `until_ms`."""
        writer = self.stage.log.writer()
        try:
            for stream in self.query.inputs:
                for partition in range(self.job.partitions):
                    header = (HEARTBEAT, str(until_ms).encode())
                    writer.append(LogPartition(self.job.topic(stream.name), partition), b"", (header,))
            writer.flush(FLUSH_TIMEOUT_S)
        finally:
            writer.close()

    def _fed(self, tables: Tables, rows_per_second: float | None) -> Feed:
        from loadgen.load.feed import MessageFormat, Pace, Target, feed_tables  # noqa: PLC0415  (Spark is an extra)
        from loadgen.load.spark import Kafka  # noqa: PLC0415

        kafka, message = Kafka(self.stage.servers.bootstrap), MessageFormat(self.job.message)
        targets = [Target(kafka, self.job.topic(stream), self.job.partitions, message) for stream in tables]
        sent = [*zip(tables.values(), targets, strict=True)]
        by_time = self.query.order.by is Order.EVENT_TIME and rows_per_second is not None
        times = {stream.time for stream in self.query.inputs if by_time}
        pace = Pace(rows_per_second, time=times.pop() if len(times) == 1 else None)
        return feed_tables(self.stage.spark.result(), sent, pace)

    def _drain(self, how: str) -> None:
        """Wait until every row that takes a number has its result or its dead letter."""
        before, moved, due = -1, time.monotonic(), self.due
        while (out := self._out()) < due:
            self._show(how)
            self._tend()
            if out > before:
                before, moved = out, time.monotonic()
            if time.monotonic() - moved > STALL_S:
                raise ServiceError(
                    f"{self.query.name}: {due - out} of {due} rows have no result and nothing has moved for "
                    f"{STALL_S:.0f} s; the services' logs are in {self.logs}"
                )
            time.sleep(REFRESH_S)
        self._show(how)

    def _out(self) -> int:
        return self.follower.trace.last.tuples + self.follower.trace.refused

    def _pace(self, rest: Tables, full_speed_tuples: int) -> float:
        measured = rate(self.follower.trace, 0, full_speed_tuples) or PACED_ROWS_PER_SECOND_MAX
        slowest: float = sum(table.num_rows for table in rest.values()) / PACED_S_MAX
        return max(slowest, min(PACED_SHARE * measured, PACED_ROWS_PER_SECOND_MAX))

    def _check(self) -> Verdict:
        from loadgen.check.checker import check  # noqa: PLC0415  (Spark is an extra)
        from loadgen.check.history import CheckPlan, CheckWay  # noqa: PLC0415
        from loadgen.check.reading import CheckedTopics  # noqa: PLC0415
        from loadgen.check.verdict import publish  # noqa: PLC0415
        from loadgen.load.spark import Kafka  # noqa: PLC0415

        topics = CheckedTopics(Kafka(self.stage.servers.bootstrap), self._topics)
        verdict: Verdict = self._wait(
            self.stage.pool.submit(check, self.stage.spark.result(), self.query, topics, CheckPlan(way=CheckWay.LOOP)),
            "checking every probe",
        )
        publish(verdict, self.stage.servers.redis_url)
        self._show("exact" if verdict.is_exact else "[red]differs[/]")
        if verdict.first_difference:
            self.screen.note(verdict.first_difference)
        return verdict

    def _wait(self, future: Future[Any], phase: str) -> Any:  # noqa: ANN401  (what the future gives)
        while not future.done():
            self._show(phase)
            self._tend()
            time.sleep(REFRESH_S)
        return future.result()

    def _tend(self) -> None:
        if self.served is not None:
            self.served.supervisor.tend()
        if self.follower.error is not None:
            raise self.follower.error

    def _show(self, phase: str) -> None:
        trace = self.follower.trace
        last: OutputMark = trace.last
        fed = 0 if self.feed is None else self.feed.rows
        due = self.answerable + round(self.passing_share * fed)
        progress = PlayProgress(
            query=self.query.name,
            phase=phase,
            rows=self.rows_before + fed,
            refused=trace.refused,
            tuples=last.tuples,
            matches=last.matches,
            result_position=last.frame_id,
            filtered=self.rows_before + fed - due,
        )
        self.screen.show(progress)
