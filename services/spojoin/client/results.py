"""Gives a served query's results as Arrow batches while they come, each once and in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import Log, LogRecord
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.ordered_results import OrderedResults
from spojoin.runtime.settings import Settings
from spojoin.wire.result_forms import FRAMES
from spojoin.wire.results import CONTENT_TYPE, result_from_message

POLL_S = 0.5


class ServedQueries:
    """A Kafka cluster with the results of served queries. Each reading has its own client."""

    def __init__(self, settings: Settings) -> None:
        self._config = KafkaConfig(settings.bootstrap_servers, settings.kafka_properties())

    def results(self, query: str, *, from_start: bool = True, follow: bool = True) -> ServedResults:
        """The results of the query with this name, which must be in the form `frames`.

        from_start: whether to begin at the earliest results in the topic, instead of those that come from now on
        follow: whether to wait for more at the end, instead of stopping after the results that exist now

        Raises ConfigurationError if there is no such topic, LogUnavailable if Kafka doesn't answer.
        """
        return ServedResults(KafkaLog(self._config), query, from_start=from_start, follow=follow)


class ServedResults:
    """An iterator of Arrow batches, for `for` and for `async for`; closed at its end, by `close`, or by `with`.

    Only committed records are read; results that the services wrote twice because of a crash are given once.
    """

    def __init__(self, log: Log[bytes], query: str, *, from_start: bool = True, follow: bool = True) -> None:
        self._is_closed = False
        self._log, self._topic, self._follows = log, topic_name(query, Topic.RESULTS), follow
        try:
            self._results = OrderedResults(log, self._topic, from_start=from_start)
        except BaseException:
            log.close()
            raise
        self._ready: deque[pa.RecordBatch] = deque()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        """The next batch that has rows, as soon as there is one."""
        while not self._ready:
            if self._is_closed or not self._read_on():
                self.close()
                raise StopIteration
        return self._ready.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        """The next batch; other tasks run while it waits."""
        found = await asyncio.to_thread(next, self, None)
        if found is None:
            raise StopAsyncIteration
        return found

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; no batch follows."""
        if not self._is_closed:
            self._is_closed = True
            self._ready.clear()
            self._results.close()
            self._log.close()

    def _read_on(self) -> bool:
        """Whether more may follow."""
        is_any = False
        for record in self._results.poll(POLL_S):
            self._take(record)
            is_any = True
        return is_any or self._follows or not self._results.is_at_end

    def _take(self, record: LogRecord[bytes]) -> None:
        headers = dict(record.headers)
        if headers.get(CONTENT_TYPE) != FRAMES.content_type:
            said = headers.get(CONTENT_TYPE, b"unknown").decode(errors="replace")
            raise ConfigurationError(
                f"the results in {self._topic} are {said}: read them with a client of Kafka, or start the "
                "services with results_format frames"
            )
        rows = result_from_message(headers, record.value).rows
        if rows.num_rows:
            self._ready.append(rows)
