"""What a service reports: health, metrics, shared state, the status table."""

from __future__ import annotations

import urllib.error
import urllib.request
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from spojoin.errors import ConfigurationError
from spojoin.ports.interfaces import StoreUnavailable
from spojoin.ports.memory import ManualClock, MemoryStore
from spojoin.ports.shared_state import RETRY_MS, SharedState, key
from spojoin.protocol.machine import ResultPosition, Trim
from spojoin.protocol.topology import Role, Topic
from spojoin.telemetry.health_server import Health, HealthServer
from spojoin.telemetry.metrics import LatencyHistogram, Metrics, value_of
from spojoin.telemetry.status import read_status
from spojoin.telemetry.status_table import status_table
from tests.support.runtime_world import FRAMES, Bench, barrier, emits, result


def fetch(server: HealthServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_reports_the_truth():
    clock = ManualClock()
    health = Health(clock, stall_ms_max=1000)
    metrics = Metrics()
    metrics.tuples.inc(7)
    with HealthServer("127.0.0.1", 0, health, metrics.registry) as server:
        assert fetch(server, "/healthz")[0] == 200
        health.waits_for = "input topic in.trips"
        assert fetch(server, "/readyz") == (503, "waiting: input topic in.trips\n")
        health.is_ready = True
        assert fetch(server, "/readyz")[0] == 200
        clock.sleep(1.5)
        assert [fetch(server, path)[0] for path in ("/healthz", "/readyz")] == [503, 503]
        health.tick()
        assert [fetch(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        assert "spojoin_tuples_total 7.0" in fetch(server, "/metrics")[1]
        assert fetch(server, "/nothing")[0] == 404


def test_a_port_in_use_is_one_sentence():
    health, registry = Health(ManualClock(), 1000), Metrics().registry
    with (
        HealthServer("127.0.0.1", 0, health, registry) as server,
        pytest.raises(ConfigurationError, match=f"127.0.0.1:{server.port}.*metrics_port"),
    ):
        HealthServer("127.0.0.1", server.port, health, registry)


def test_latency_quantiles_bound_the_true_ones():
    rng = np.random.default_rng(5)
    latencies = rng.integers(0, 5000, 300)
    runs = rng.integers(1, 9, 300).astype(np.uint32)
    histogram = LatencyHistogram()
    for start in range(0, 300, 100):
        histogram.observe(latencies[start : start + 100], runs[start : start + 100], 10.0 * start)
    tuples = np.repeat(latencies, runs)
    for share in (0.5, 0.9, 0.99, 1.0):
        exact = np.quantile(tuples, share, method="inverted_cdf")
        assert exact <= histogram.recent_ms(share, 3_000) <= max(2.0, exact * 1.3)
    (family,) = histogram.collect()
    samples = {(s.name, s.labels.get("le")): s.value for s in family.samples}
    assert samples["spojoin_result_latency_seconds_count", None] == len(tuples)
    assert samples["spojoin_result_latency_seconds_bucket", "+Inf"] == len(tuples)
    assert samples["spojoin_result_latency_seconds_sum", None] == pytest.approx(tuples.sum() / 1000)


def test_no_latency_before_the_first_result():
    assert np.isnan(LatencyHistogram().recent_ms(0.5, 0))


class BrokenStore(MemoryStore):
    calls = 0
    is_broken = True

    def put(self, entries, ttl_s=None) -> None:
        self.calls += 1
        if self.is_broken:
            raise StoreUnavailable("gone")
        super().put(entries, ttl_s)


def test_a_dead_store_is_counted_and_retried_after_a_pause():
    clock, store, metrics = ManualClock(5.0), BrokenStore(), Metrics()
    shared = SharedState(store, "q", clock, metrics.store_failures)
    for _ in range(10):
        shared.put_result_position(ResultPosition(1, 2))
    assert shared.result_position() is None
    assert store.calls == 1 == value_of(metrics.store_failures)
    clock.sleep(RETRY_MS / 1000)
    store.is_broken = False
    shared.put_result_position(ResultPosition(1, 2))
    assert shared.result_position() == ResultPosition(1, 2)


def test_without_a_store_nothing_happens():
    shared = SharedState(None, "q", ManualClock(), Metrics().store_failures)
    shared.put_result_position(ResultPosition(1, 2))
    assert shared.result_position() is None


def test_keys_name_their_schema():
    assert key("my.query", "batches", "0") == "spojoin:v1:my.query:batches:0"


def test_the_sink_keeps_the_batch_directory():
    from spojoin.wire.records import Batch

    bench = Bench(Role.SINK)
    reporter = bench.world.reporter
    for offset, batch_id in enumerate((4, 5, 6)):
        batch = Batch(0, batch_id, 10 * batch_id, 10 * batch_id + 10, 2, (), {}, np.arange(0), None, None)
        reporter.saw(0, offset, batch)
    reporter.publish({}, ResultPosition(0, 0))
    assert bench.store.get(key("q", "batches", "0"))["5"] == "50,60,2"
    reporter.trimmed(Trim(Topic.BATCHES, 0, 2))
    reporter.publish({}, ResultPosition(0, 0))
    assert bench.store.get(key("q", "batches", "0")) == {"6": "60,70,2"}
    assert bench.store.get(key("q", "replay")) == {"batches/0": "2"}


def test_the_status_table_shows_every_service_and_forgets_silent_ones():
    bench = Bench(Role.SINK)
    bench.prepare = lambda m: setattr(m, "answer", lambda _: emits(Topic.RESULTS, result(0, 0, 4)))
    bench.append(FRAMES, barrier(0))
    loop = bench.loop()
    loop.step(0)
    bench.clock.sleep(2)
    loop.step(0)
    ((row,),) = (status.services for status in read_status(bench.store, bench.clock.wall_ms() + 500))
    assert (row.query, row.service, row.role, row.state, row.metrics) == ("q", "x-0", "sink", "ready", "9")
    assert (row.result_frame, row.tuples, row.matches, row.age_s, row.uptime_s) == (1, 4, 8, 0.5, 2.0)
    shown = StringIO()
    Console(file=shown, width=300).print(status_table(bench.store))
    assert "x-0" in shown.getvalue()
    bench.clock.sleep(60)
    assert read_status(bench.store, bench.clock.wall_ms()) == []


def test_the_table_reports_an_unreachable_store():
    class Gone(MemoryStore):
        def scan(self, prefix):
            raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        status_table(Gone())
