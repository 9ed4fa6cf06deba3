"""The writing half of the Kafka adapter: idempotent, and transactional if it has an id."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from spojoin.errors import Fenced, SpoJoinError
from spojoin.ports.interfaces import AmbiguousAppend, LogPartition, LogUnavailable
from spojoin.ports.kafka_client import CLIENT_LOGGER, KnownBrokers, OnTraffic, unheard
from spojoin.wire.records import MessageHeaders

#: bounds of the producer's queue; a full one makes `append` wait
QUEUE_MESSAGES_MAX = 20_000
QUEUE_KBYTES_MAX = 96 << 10
#: the broker aborts an abandoned transaction after this long, and readers no longer wait for it
TRANSACTION_TIMEOUT_MS = 30_000
CLOSE_TIMEOUT_S = 5.0
#: how long a commit waits between two checks of the client's reports
COMMIT_S = 2.0
#: how long each of the first clients waits for its transactional id before a new client tries
HASTE_S = (0.1, 0.1)

_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class KafkaWriter:
    """One producer.

    `wait_s_max` bounds how long an append waits for room in the queue. Raises LogUnavailable if a transactional
    writer can't be registered.
    """

    def __init__(
        self,
        common: Mapping[str, object],
        transactional_id: str | None,
        wait_s_max: float,
        on_traffic: OnTraffic = unheard,
    ) -> None:
        self._wait_s_max = wait_s_max
        self._is_transactional = transactional_id is not None
        self._in_transaction = False
        self._failure: KafkaError | None = None
        self._commits: ThreadPoolExecutor | None = None
        self._committing: Future[None] | None = None
        self._flush_until = 0.0
        self._brokers = KnownBrokers(on_traffic)
        properties = {
            **common,
            **self._brokers.properties,
            "enable.idempotence": True,
            "linger.ms": 0.5,
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
            "delivery.report.only.error": True,
            "retry.backoff.ms": 50,
            "retry.backoff.max.ms": 100,
        }
        if transactional_id is not None:
            properties |= {"transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
            properties["delivery.timeout.ms"] = min(int(wait_s_max * 1000), TRANSACTION_TIMEOUT_MS)
        if self._is_transactional:
            self._producer = _registered(properties, wait_s_max)
        else:
            self._producer = Producer(properties, logger=CLIENT_LOGGER)

    def append(
        self,
        target: LogPartition,
        value: bytes,
        headers: MessageHeaders = (),
        timestamp_ms: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """Queue a record, waiting for room; begins a transaction if none is open."""
        self.serve()
        if self._is_transactional and not self._in_transaction:
            self._attempt(self._producer.begin_transaction)
            self._in_transaction = True
        deadline = time.monotonic() + self._wait_s_max
        while not self._queue(target, value, headers, timestamp_ms, key):
            if time.monotonic() > deadline:
                raise AmbiguousAppend(f"no append was acknowledged for {self._wait_s_max:.0f} s")
            self._attempt(lambda: self._producer.poll(0.05))
            self._raise_failure()

    def serve(self) -> None:
        """Check earlier appends, without waiting."""
        self._attempt(lambda: self._producer.poll(0))
        self._raise_failure()

    def flush(self, timeout_s: float) -> None:
        """Return when all that was appended is readable."""
        if self._in_transaction:
            self._commit(timeout_s)
        elif self._attempt(lambda: self._producer.flush(timeout_s)):
            raise AmbiguousAppend(f"appends were not acknowledged within {timeout_s:.0f} s")
        self._raise_failure()

    def begin_flush(self, timeout_s: float) -> None:
        """Begin to make all that was appended readable; the commit waits in its own thread."""
        if self._in_transaction:
            self._commits = self._commits or ThreadPoolExecutor(1, "commit")
            self._committing = self._commits.submit(self._commit, timeout_s)
        self._flush_until = time.monotonic() + timeout_s

    def is_flushed(self) -> bool:
        """Whether the flush that was begun has ended."""
        if self._committing is not None:
            if not self._committing.done():
                return False
            ended, self._committing = self._committing, None
            ended.result()
        self.serve()
        if len(self._producer) == 0:
            return True
        if time.monotonic() > self._flush_until:
            raise AmbiguousAppend("appends were not acknowledged in time")
        return False

    def close(self) -> None:
        """Abort the open transaction; drop what is queued."""
        if self._commits is not None:
            self._commits.shutdown()  # a commit under way must end first: it may be too late to abort it
        try:
            if self._in_transaction:
                self._in_transaction = False
                self._producer.abort_transaction(CLOSE_TIMEOUT_S)
            else:
                self._producer.purge(blocking=False)
                self._producer.flush(CLOSE_TIMEOUT_S)
        except KafkaException as error:
            # the broker aborts an open transaction when a successor registers, or when its time is over
            _log.info("a writer was closed in the middle", error=str(error.args[0]))

    def _queue(
        self, target: LogPartition, value: bytes, headers: MessageHeaders, timestamp_ms: int | None, key: bytes | None
    ) -> bool:
        """Queue a record and return whether there was room."""
        try:
            self._producer.produce(
                target.topic,
                value or None,  # other programs' deserialisers skip a message without a value, and fail on an empty one
                key,
                partition=target.partition,
                headers=list(headers),
                timestamp=timestamp_ms or 0,
                on_delivery=self._on_delivery,
            )
        except BufferError:
            return False
        except KafkaException as error:
            raise _translated(error.args[0], AmbiguousAppend) from error
        return True

    def _commit(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._producer.commit_transaction(max(0.1, min(COMMIT_S, deadline - time.monotonic())))
            except KafkaException as error:
                if error.args[0].retriable() and time.monotonic() < deadline:
                    self.serve()
                    continue
                raise _translated(error.args[0], AmbiguousAppend) from error
            self._in_transaction = False
            return

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise _translated(self._failure, AmbiguousAppend)
        if self._brokers.are_lost:
            raise AmbiguousAppend("the Kafka client finds no broker any more: a new one is needed")

    @staticmethod
    def _attempt(action: Callable[[], T]) -> T:
        """Call the client. It raises fatal errors from any call; within a callback, as the cause of a SystemError."""
        try:
            return action()
        except (KafkaException, SystemError) as error:
            cause = error if isinstance(error, KafkaException) else error.__cause__
            if not isinstance(cause, KafkaException):
                raise
            raise _translated(cause.args[0], AmbiguousAppend) from error


def _registered(properties: Mapping[str, object], timeout_s: float) -> Producer:
    """The only producer with its transactional id; the broker has aborted what an earlier one left open.

    While an abort is under way, the client waits 500 ms before it asks again; a new client asks at once.
    """
    try:
        for patience_s in HASTE_S:
            producer = _connected(properties, timeout_s)
            if _takes_id(producer, patience_s):
                return producer
        producer = _connected(properties, timeout_s)
        producer.init_transactions(timeout_s)
    except KafkaException as error:
        raise _translated(error.args[0], LogUnavailable) from error
    return producer


def _connected(properties: Mapping[str, object], timeout_s: float) -> Producer:
    """A producer that knows a broker; without one, it would wait 500 ms before it looks for its coordinator."""
    producer = Producer(dict(properties), logger=CLIENT_LOGGER)
    producer.list_topics(timeout=timeout_s)
    return producer


def _takes_id(producer: Producer, patience_s: float) -> bool:
    try:
        producer.init_transactions(patience_s)
    except KafkaException as error:
        if error.args[0].retriable():
            return False
        raise
    return True


def _translated(error: KafkaError, otherwise: type[SpoJoinError]) -> SpoJoinError:
    if error.code() in _FENCED:
        return Fenced(f"a newer instance of this role writes to the log: {error}")
    return otherwise(f"appending failed: {error}")
