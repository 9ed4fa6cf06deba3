"""The input that rows wait for: since when, in words, and through the store; what `spojoin up` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spojoin.cli.up import HoldNotice
from spojoin.ports.memory import ManualClock, MemoryStore
from spojoin.ports.shared_state import SharedState
from spojoin.protocol.machine import START, Holder, InputMachine, ResultPosition
from spojoin.protocol.topology import Role
from spojoin.query.load import parse_query
from spojoin.roles.router.config import RouterConfig
from spojoin.roles.router.machine import RouterMachine
from spojoin.telemetry.health_server import Health
from spojoin.telemetry.metrics import Metrics
from spojoin.telemetry.reporter import Identity, Reporter
from spojoin.telemetry.status import holder_of, read_status
from spojoin.telemetry.waiting_input import HeldBy, HeldSince, held_by
from tests.support.feeding import FakeRouter

QUERY = parse_query("""
name: q
streams:
  orders: {schema: {a: long, at: timestamp}, time: at}
  views: {schema: {a: long, at: timestamp}, time: at}
sql: SELECT l.a, r.a AS b FROM orders AS l JOIN views AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '20')
order: event_time
""")
TEN_O_CLOCK_US = 1_709_287_200_000_000


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        (Holder(1, 0, 1, None, 12), "event time waits for views, which has no row yet, for 7 s: 12 rows wait"),
        (
            Holder(0, 2, 3, TEN_O_CLOCK_US, 1),
            "event time waits for orders, partition 2, which is at 2024-03-01T10:00:00Z, for 7 s: 1 row waits",
        ),
        (Holder(0, 0, 1, TEN_O_CLOCK_US, 0), "event time waits for orders, which is at 2024-03-01T10:00:00Z, for 7 s"),
    ],
)
def test_what_holds_rows_is_said_in_words(holder: Holder, said: str):
    since = HeldSince()
    since.note(holder, QUERY, 1_000)
    found = since.note(holder._replace(rows=holder.rows), QUERY, 8_000)
    assert str(found) == said
    assert found is not None
    assert held_by({name: str(value) for name, value in found.fields().items()}) == found


def test_a_table_without_a_row_is_what_rows_wait_for():
    query = parse_query(
        "name: q\nstreams: {orders: {schema: {a: long}}}\ntables: {tiers: {topic: tiers, schema: {low: long}}}\n"
        "sql: SELECT l.a FROM orders AS l LEFT JOIN tiers AS r ON l.a >= r.low\n"
    )
    router = RouterMachine(query, START, RouterConfig("r"))
    router.active = True
    found = HeldSince().note(router.holder(), query, 1_000)
    assert str(found) == "rows wait for a first row of the table tiers, for 0 s"


def test_the_time_begins_anew_where_the_input_has_gone_on():
    since = HeldSince()
    since.note(Holder(1, 0, 1, None, 12), QUERY, 1_000)
    assert since.note(Holder(1, 0, 1, 5, 12), QUERY, 3_000) == HeldBy(
        "views", is_table=False, reached="1970-01-01T00:00:00.000005Z", ms=0, rows=12
    )
    since.note(None, QUERY, 4_000)
    found = since.note(Holder(1, 0, 1, 5, 12), QUERY, 5_000)
    assert found is not None
    assert found.ms == 0
    assert held_by({name: str(value) for name, value in found.fields().items()}) is None, "it may just be slow"


class Waiting(FakeRouter, InputMachine):  # type: ignore[misc]
    """A router whose rows wait for an input."""

    holds: Holder | None = Holder(1, 0, 1, None, 12)
    is_lingering = False

    def on_table(self, version):
        yield from ()

    def holder(self) -> Holder | None:
        return self.holds


def test_services_report_it_and_up_says_once_what_to_do():
    clock, metrics, said = ManualClock(1_000), Metrics(), []
    store = MemoryStore(clock)
    shared, who = SharedState(store, "q", clock, metrics.store_failures), Identity((Role.ROUTER,), "router", "q", 1)
    reporter = Reporter(who, shared, clock, metrics, Health(clock, 60_000))
    reporter.watch_windows(QUERY)
    machine = Waiting()
    reporter.begin_life(machine)
    notice = HoldNotice(Path("q.yaml"), "k:1", said.append)
    for _ in range(9):
        reporter.publish({}, ResultPosition(0, 0))
        notice.look(store)
        clock.now_ms += 1_000
    assert len(said) == 1
    assert said[0].startswith("event time waits for views, which has no row yet, for 5 s: 12 rows wait; send its rows")
    assert "`spojoin send q.yaml --end --bootstrap k:1`" in said[0]
    (sample,) = [s for family in metrics.held.collect() for s in family.samples]
    assert (sample.labels, sample.value) == ({"stream": "views", "partition": "0"}, 8.0)
    machine.holds = None
    reporter.publish({}, START)
    assert [holder_of(status.services) for status in read_status(store, clock.now_ms)] == [None], "it holds no longer"
    assert not [s for family in metrics.held.collect() for s in family.samples]
