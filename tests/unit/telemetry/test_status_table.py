"""`spojoin status` shows which services are gone, and truncates nothing in 80 columns."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from spojoin.ports.memory import ManualClock, MemoryStore
from spojoin.ports.shared_state import STATUS_TTL_S, key
from spojoin.protocol.topology import Hop
from spojoin.telemetry import status_table as table
from spojoin.telemetry.durations import bar, duration, milliseconds, precise_milliseconds, unanswered_text
from spojoin.telemetry.expected_services import ServiceReport
from spojoin.telemetry.status import read_status, unanswered_ms
from spojoin.telemetry.status_table import status_table

NEEDS = ("router", "mutable-0", "mutable-1", "permutation", "logical-and", "sink")
WORKERS = ("pojoin-0", "pojoin-1")
RED = "\x1b[1;31m"


class Services:
    """The services of a query, each reporting as in production; those in `gone` don't report."""

    def __init__(self, monkeypatch, query: str = "racks") -> None:
        self.clock = ManualClock(1_000_000.0)
        self.store = MemoryStore(self.clock)
        self.query = query
        self.gone: set[str] = set()
        self.fields: dict[str, dict[str, object]] = {}
        self.workers, self.columns = 2, 1
        monkeypatch.setattr(table.time, "time_ns", lambda: 1_000_000 * self.clock.wall_ms())

    def pass_seconds(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.sleep(1)
            for name in {*NEEDS, *WORKERS[: self.workers], "predictor"} - self.gone:
                self._report(name)

    def _report(self, name: str) -> None:
        wall_ms = self.clock.wall_ms()
        status = {"role": name.rstrip("-0123456789"), "state": "ready", "wall_ms": wall_ms, "started_ms": 0}
        status |= self.fields.get(name, {})
        self.store.put({key(self.query, "status", name): status}, STATUS_TTL_S)
        report = ServiceReport(wall_ms, NEEDS, self.workers, columns=self.columns)
        self.store.put({key(self.query, "expected", name): report.fields()})

    def put(self, *parts: str, **fields: object) -> None:
        self.store.put({key(self.query, *parts): fields})

    def shown(self, width: int = 80, *, is_coloured: bool = False) -> str:
        out = StringIO()
        console = Console(file=out, width=width, color_system="standard" if is_coloured else None)
        console.print(status_table(self.store))
        return out.getvalue()


@pytest.fixture
def services(monkeypatch) -> Services:
    return Services(monkeypatch)


def line_of(text: str, service: str) -> str:
    return next(line for line in text.splitlines() if f"  {service} " in line)


def state_column(text: str) -> str:
    """The last column from top to bottom, without blanks."""
    lines = text.splitlines()
    head = next(at for at, line in enumerate(lines) if "state" in line)
    return "".join(line[lines[head].index("state") :].replace(" ", "") for line in lines[head:])


def test_a_lost_worker_stays_in_the_table_and_is_red(services):
    services.pass_seconds(3)
    services.gone.add("pojoin-1")
    services.pass_seconds(45)
    line = line_of(services.shown(120, is_coloured=True), "pojoin-1")
    assert RED in line
    assert "gone for 45 s: results wait for it" in line
    assert RED not in line_of(services.shown(is_coloured=True), "pojoin-0")


def test_the_last_service_names_all_others_in_a_wiped_store(services):
    services.gone = {*NEEDS, *WORKERS} - {"permutation"}
    services.pass_seconds()
    text = services.shown(120)
    for name in (*NEEDS, *WORKERS):
        assert ("has never reported" in line_of(text, name)) == (name != "permutation")


def test_a_released_worker_is_not_missed(services):
    services.pass_seconds()
    services.workers = 1
    services.pass_seconds(60)
    assert "pojoin-1" not in services.shown()


@pytest.mark.parametrize(
    ("workers", "columns", "sentence"),
    [
        (2, 1, "2 workers share the frames"),
        (2, 2, "2 workers share the window"),
        (4, 2, "4 workers: 2 rows share the frames, 2 columns the window"),
        (5, 2, "4 workers: 2 rows share the frames, 2 columns the window, 1 more without work"),
    ],
)
def test_the_grid_of_several_workers_is_shown(services, workers, columns, sentence):
    services.workers, services.columns = workers, columns
    services.pass_seconds()
    assert f"  {sentence}\n" in services.shown()


def test_one_worker_is_no_grid(services):
    services.workers = 1
    services.pass_seconds()
    assert "share" not in services.shown().replace("share  ", "")


def test_a_lost_predictor_delays_nothing(services):
    services.pass_seconds()
    services.gone.add("predictor")
    services.pass_seconds(12)
    assert line_of(services.shown(120), "predictor").rstrip().endswith("gone for 12 s")


def test_silence_is_shown_before_a_report_expires(services):
    services.pass_seconds()
    services.gone.add("sink")
    services.pass_seconds(7)
    assert "silent for 7 s" in line_of(services.shown(), "sink")


def test_differing_clocks_do_not_look_like_silence(services):
    services.fields["sink"] = {"wall_ms": 0}
    services.pass_seconds()
    assert "ready" in line_of(services.shown(), "sink")


def test_nothing_is_truncated_in_eighty_columns(services):
    numbers = {"lag": 1_234_567_890, "retries": 99_999}
    topic = "in.a-topic-with-quite-a-long-name-of-its-own.readings"
    services.fields = {
        "router": {"result_frame": 1_234_567_890, "head_frame": 1_234_567_999, **numbers},
        "logical-and": {"state": f"waiting: input topic {topic}", **numbers},
    }
    services.put("totals", rows=9_876_543_210, answered=9_876_543_200, matches=123_456_789_012_345, refused=77_777)
    services.pass_seconds()
    text = services.shown(80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    for whole in ("1234567890/1234567999", "1,234,567,890", "99,999", "9,876,543,210", "123,456,789,012,345"):
        assert whole in text
    assert f"waiting: input topic {topic}".replace(" ", "") in state_column(text)


def test_latency_and_the_oldest_row_are_side_by_side(services):
    services.fields = {
        "sink": {"latency_ms_p50": 82.0, "latency_ms_p99": 15_600.0, "unanswered_ms": "nan"},
        "router": {"unanswered_ms": 45_000.0},
    }
    services.pass_seconds()
    text = " ".join(services.shown().split())
    assert "latency of the last minute p50 82 ms, p99 15.6 s; oldest unanswered row: 45.0 s" in text


def test_a_line_a_hop_says_where_a_frames_time_goes(services):
    services.fields = {
        "router": {"hop:arrival": "6.000,5.5,30.0", "hop:framing": "3.000,2.7,5.0", "hop:writing": "nan,nan,nan"},
        "pojoin-0": {"hop:delivery": "1.000,0.9,2.0", "hop:search": "7.000,6.8,12000.0"},
        "pojoin-1": {"hop:delivery": "2.000,1.9,4.0", "hop:search": "5.000,4.6,9.0"},
        "sink": {"hop:evaluation": "11.000,10.6,41.0", "hop:settling": "0.000,0.1,0.1", "hop:of-a-later-version": "x"},
    }
    services.pass_seconds()
    lines = [line.split() for line in services.shown().splitlines()]
    table = lines[next(at for at, line in enumerate(lines) if line[:2] == ["hop", "p50"]) + 1 :]
    slowest = ["the", "slowest", "of", "2"]
    assert table == [
        ["arrival", "5.5", "ms", "30", "ms", "30%", "█" * 6, "router"],
        ["framing", "2.7", "ms", "5.0", "ms", "15%", "█" * 3, "router"],
        ["evaluation", "11", "ms", "41", "ms", "55%", "█" * 11, "sink"],
        ["delivery", "1.9", "ms", "4.0", "ms", "pojoin-1,", *slowest],
        ["search", "6.8", "ms", "12.0", "s", "pojoin-0,", *slowest],
        ["settling", "0.1", "ms", "0.1", "ms", "0%", "sink"],
    ]


def test_hops_fit_into_eighty_columns(services):
    name = "router+mutable+permutation+pojoin+logical-and"
    services.fields = {"router": {f"hop:{hop}": "99999999.000,99999999.0,99999999.0" for hop in Hop}}
    for other in ("mutable-0", "mutable-1"):
        services.fields[other] = services.fields["router"]
    services.pass_seconds()
    services.store.put({key("racks", "status", name): {"role": name, **services.fields["router"]}})
    text = services.shown()
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    assert all(hop in text for hop in Hop)


def test_hops_that_no_frame_made_lately_are_not_shown(services):
    services.fields = {"sink": {"hop:evaluation": "nan,nan,nan"}}
    services.pass_seconds()
    assert "hop" not in services.shown()


def test_an_empty_store_says_so(services):
    assert services.shown() == "no service reports to this Redis\n"


def test_only_the_router_knows_that_no_row_waits(services):
    def known(**ages):
        services.fields = {name: {"unanswered_ms": age} for name, age in ages.items()}
        services.clock.sleep(60)
        services.pass_seconds()
        (status,) = read_status(services.store, services.clock.wall_ms())
        return unanswered_ms(status.services)

    assert known(router="nan", sink="nan") == 0
    assert known(router="nan", sink=300.0) == 300
    assert known(router=900.0, sink=300.0) == 900
    services.gone.add("router")
    assert known(sink=300.0) == 300
    assert known(sink="nan") is None


@pytest.mark.parametrize("role", ["together", "router+sink"])
def test_a_router_that_shares_its_process_knows_as_much(services, role):
    services.fields = {"sink": {"role": role, "unanswered_ms": "nan"}}
    services.pass_seconds()
    (status,) = read_status(services.store, services.clock.wall_ms())
    assert unanswered_ms(status.services) == 0


def test_spans_in_words():
    assert [duration(seconds) for seconds in (0, 89, 90, 7_200, 200_000)] == ["0 s", "89 s", "2 min", "2 h", "2 d"]
    assert [milliseconds(ms) for ms in (None, float("nan"), 82.4, 15_600)] == ["-", "-", "82 ms", "15.6 s"]
    assert [precise_milliseconds(ms) for ms in (0.04, 9.94, 9.96, 15_600)] == ["0.0 ms", "9.9 ms", "10 ms", "15.6 s"]
    assert [unanswered_text(ms) for ms in (None, 0.0, 45_000)] == ["not known", "none", "45.0 s"]


def test_a_bar_shows_every_share_that_is_not_nothing():
    assert [len(bar(share, 20)) for share in (0, 0.001, 0.5, 1)] == [0, 1, 10, 20]
