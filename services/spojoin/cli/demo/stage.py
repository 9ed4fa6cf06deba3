"""What the main job needs around it: a broker, a Redis and a Spark session, started at once and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spojoin.runtime.kafka import KafkaConfig, KafkaLog
from spojoin.runtime.local.broker import LocalBroker
from spojoin.runtime.local.children import Children
from spojoin.runtime.local.redis import LocalRedis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_END_S = 10.0

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(slots=True)
class Stage:
    """What runs. `spark` may still be starting."""

    children: Children
    broker: LocalBroker
    redis: LocalRedis
    log: KafkaLog
    pool: ThreadPoolExecutor
    spark: Future[SparkSession]


@contextmanager
def stage(say: Say) -> Iterator[Stage]:
    """Start all; what takes long goes on in threads. Gone with the block."""
    with ExitStack() as stack:
        children = stack.enter_context(Children())
        pool = stack.enter_context(ThreadPoolExecutor(4, "demo"))
        spark = pool.submit(_start_spark, say)
        stack.callback(_end_spark, spark)
        redis = stack.enter_context(LocalRedis(children))
        broker = stack.enter_context(LocalBroker(children, progress=say))
        say(f"Kafka at {broker.bootstrap}, Redis at {redis.url}")
        log = KafkaLog(KafkaConfig(broker.bootstrap))
        stack.callback(log.close)
        yield Stage(children, broker, redis, log, pool, spark)


def _start_spark(say: Say) -> SparkSession:
    from loadgen.spark import start  # noqa: PLC0415  (Spark is an extra)

    session = start(name="spojoin-demo", progress=say)
    say(f"Spark {session.version}")
    return session


def _end_spark(spark: Future[SparkSession]) -> None:
    """Stop Spark and wait for its Java process, which would outlive this one for a moment."""
    if spark.cancel() or spark.exception() is not None:
        return
    from pyspark import SparkContext  # noqa: PLC0415

    spark.result().stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        process = gateway.proc
        gateway.shutdown()
        process.stdin.close()
        process.wait(SPARK_END_S)
