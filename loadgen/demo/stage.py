"""The environment of the main job: a broker, a Redis and a Spark session, started and ended together."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.cluster import Servers
from spojoin.local.redis import LocalRedis
from spojoin.ports.kafka import KafkaConfig, KafkaLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_END_S = 10.0

T = TypeVar("T")
Say = Callable[[str], None]


@dataclass(slots=True)
class Stage:
    """The running parts. `spark` may still be starting."""

    servers: Servers
    log: KafkaLog
    pool: ThreadPoolExecutor
    spark: Future[SparkSession]


@contextmanager
def stage(say: Say) -> Iterator[Stage]:
    """Start all parts, the slow ones in threads; the end of the block ends them."""
    with ExitStack() as stack:
        children = stack.enter_context(Children())
        stack.enter_context(_temporary_files_in(children.scratch_folder("demo")))
        pool = stack.enter_context(ThreadPoolExecutor(4, "demo"))
        spark = pool.submit(_start_spark, say)
        stack.push(lambda kind, _error, _trace: _end_spark(spark, is_failure=kind is not None))
        redis = stack.enter_context(LocalRedis(children))
        broker = stack.enter_context(LocalBroker(children, progress=say))
        say(f"Kafka at {broker.bootstrap}, Redis at {redis.url}")
        log = KafkaLog(KafkaConfig(broker.bootstrap))
        stack.callback(log.close)
        yield Stage(Servers(children, broker.bootstrap, redis.url), log, pool, spark)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Keep staged rows and checkpoints in `folder`, so that they are deleted with it."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _start_spark(say: Say) -> SparkSession:
    from loadgen.load.spark import start  # noqa: PLC0415  (Spark is an extra)

    session = start(name="spojoin-demo", progress=say)
    say(f"Spark {session.version}")
    return session


def _end_spark(spark: Future[SparkSession], *, is_failure: bool) -> None:
    """End Spark and wait for its Java process, which would otherwise briefly outlive this one.

    The Java process ends when its standard input closes. After a failure only this is done: the process may be gone,
    and threads that wait for it should give up silently.
    """
    if spark.cancel() or spark.exception() is not None:
        return
    from pyspark import SparkContext  # noqa: PLC0415

    gateway: Any = SparkContext._gateway
    context: Any = spark.result().sparkContext
    process = gateway.proc
    if is_failure:
        logging.disable()
        context._accumulatorServer.shutdown()
    else:
        spark.result().stop()
    process.stdin.close()
    try:
        process.wait(SPARK_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
