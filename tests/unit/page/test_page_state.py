"""What the page shows for given entries of the store."""

import pytest

from spojoin.errors import BadData
from spojoin.page.service import censor_of
from spojoin.page.sightings import READINGS, SILENCE_MS_MAX, Observer, Rates
from spojoin.page.state import Known
from spojoin.protocol.topology import TOPOLOGY, Topic
from spojoin.telemetry.expected_services import ServiceReport
from tests.support.page_world import CROSS, TIMED, World, shown, subject


def look(world: World, seconds: int = 3, observer: Observer | None = None, **known):
    observer = observer or Observer(world.subject)
    for _ in range(seconds):
        world.pass_second()
        sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    return shown(Known(world.subject, world.clock.wall_ms(), sighting, is_store_up=True, **known))


def test_all_roles_are_ready_with_rates():
    state = look(World())
    needed = {name: role for name, role in state["roles"].items() if role["state"] != "off"}
    assert {"router", "predictor", "mutable", "permutation", "pojoin", "logical-and", "sink"} <= needed.keys()
    assert {role["state"] for role in needed.values()} == {"ready"}
    assert state["summary"]["roles_ready"] == state["summary"]["roles"] == len(needed)
    assert state["roles"]["router"]["tuples_per_s"] == state["summary"]["in_per_s"] == 100
    assert (state["summary"]["out_per_s"], state["summary"]["matches_per_s"]) == (100, 300)
    assert state["roles"]["permutation"]["tuples_per_s"] is None
    assert state["roles"]["permutation"]["records_per_s"] == 14  # runs and batches
    assert (state["roles"]["pojoin"]["instances"], state["roles"]["pojoin"]["expected"]) == (2, 2)


def test_a_single_look_gives_no_rate():
    state = look(World(), seconds=1)
    assert state["summary"]["in_per_s"] is None
    assert state["topics"]["frames"]["records_per_s"] is None


def test_a_topic_read_by_many_counts_once():
    frames = look(World())["topics"]["frames"]
    assert frames["records_per_s"] == 7
    assert frames["read_per_s"]["pojoin"] == 7  # both workers read the same partition
    assert frames["writers"] == ["router"]
    assert frames["names"] == ["racks.frames"]


def test_each_reader_of_a_topic_has_its_own_rate():
    world = World()
    observer = Observer(world.subject)
    look(world, 2, observer)
    for _ in range(2):
        world.pass_second()
        world.put("progress", "sink", **{"racks.frames/0": 14})
        sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    state = shown(Known(world.subject, 0, sighting, is_store_up=True))
    assert state["topics"]["frames"]["read_per_s"]["sink"] < 5 < state["topics"]["frames"]["read_per_s"]["pojoin"]


def test_the_log_gives_the_rates_of_results_and_dead_letters():
    topics = look(World(), out_per_s={Topic.RESULTS: 4.5, Topic.DEAD: 0.0})["topics"]
    assert (topics["results"]["records_per_s"], topics["dlq"]["records_per_s"]) == (4.5, 0.0)
    assert topics["dlq"]["names"] == ["in.readings.dlq"]


def test_a_silent_service_is_gone_even_after_the_store_forgets_it():
    world = World()
    observer = Observer(world.subject)
    look(world, 3, observer)
    world.gone.add("pojoin-1")
    assert look(world, SILENCE_MS_MAX // 1000, observer)["roles"]["pojoin"]["state"] == "ready"
    for seconds in (1, 30):
        state = look(world, seconds, observer)
        pojoin = state["roles"]["pojoin"]
        assert (pojoin["state"], pojoin["instances"], pojoin["expected"]) == ("gone", 1, 2)
        (service,) = [one for one in state["services"] if one["service"] == "pojoin-1"]
        assert (service["state"], service["said"]) == ("gone", "reports nothing")
    assert state["roles"]["router"]["state"] == "ready"


def test_a_role_is_answered_by_whichever_instance_reports():
    world = World()
    world.gone.add("sink")
    observer = Observer(world.subject)
    for _ in range(SILENCE_MS_MAX // 1000 + 1):
        world.pass_second()
        wall_ms = world.clock.wall_ms()
        world.put("status", "sink.b", role="sink", state="ready", wall_ms=wall_ms)
        sighting = observer.take(world.entries(), world.clock.monotonic_ms(), wall_ms)
    state = shown(Known(world.subject, wall_ms, sighting, is_store_up=True))
    assert state["roles"]["sink"]["state"] == "ready"
    assert {one["service"]: one["state"] for one in state["services"]}["sink.b"] == "ready"


def test_a_role_without_reports_is_gone():
    world = World()
    world.gone.add("sink")
    state = look(world)
    assert state["roles"]["sink"]["state"] == "gone"
    assert state["summary"]["out_per_s"] is None


def test_a_waiting_service_says_for_what():
    world = World()
    world.fields["router"] = {"state": "waiting: input topic in.readings"}
    state = look(world)
    assert state["roles"]["router"]["state"] == "waiting"
    assert state["services"][0]["said"] == "waiting: input topic in.readings"


def test_clocks_that_differ_do_no_harm():
    world = World()
    world.skew_ms = 3_600_000
    observer = Observer(world.subject)
    assert look(world, 3, observer)["roles"]["sink"]["state"] == "ready"
    world.gone.add("sink")
    assert look(world, 8, observer)["roles"]["sink"]["state"] == "gone"


def test_a_restarted_service_has_no_negative_rate():
    world = World()
    observer = Observer(world.subject)
    look(world, 4, observer)
    world.fields["router"] = {"tuples": 0}
    assert look(world, 1, observer)["summary"]["in_per_s"] is None
    world.fields["router"] = {"tuples": 50}
    assert look(world, 1, observer)["summary"]["in_per_s"] == 50


def test_without_the_store_no_service_is_shown_ready():
    world = World()
    observer = Observer(world.subject)
    world.pass_second()
    sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    state = shown(Known(world.subject, 0, sighting, is_store_up=False, troubles=["Redis does not answer"]))
    assert {role["state"] for role in state["roles"].values()} == {"unknown"}
    assert {one["state"] for one in state["services"]} == {"unknown"}
    assert state["troubles"] == ["Redis does not answer"]


def test_before_the_first_look_everything_is_unknown():
    state = shown(Known(subject(), 0))
    assert state["roles"].keys() == {edge.role.value for edge in TOPOLOGY}
    assert {role["state"] for role in state["roles"].values()} == {"unknown"}
    assert state["results"] is None
    assert state["dead_letters"] is None


def test_services_of_other_queries_are_not_shown():
    world, other = World(), World(subject(CROSS))
    other.pass_second()
    world.store.put(other.store.scan("spojoin:"))
    state = look(world)
    assert [one["service"] for one in state["services"]].count("router") == 1


def test_what_a_service_uses():
    world = World()
    observer = Observer(world.subject)
    for second in range(3):
        world.fields = {f"mutable-{n}": {"cpu_s": 0.25 * second, "rss_bytes": 1 << 20} for n in range(2)}
        state = look(world, 1, observer)
    assert (state["roles"]["mutable"]["cpu_share"], state["roles"]["mutable"]["rss_bytes"]) == (0.5, 2 << 20)
    assert state["roles"]["sink"]["cpu_share"] is None


def test_latency_is_the_sinks_and_absent_before_the_first_result():
    world = World()
    world.fields["sink"] = {"latency_ms_p50": "nan", "latency_ms_p99": "nan"}
    assert look(world)["summary"]["latency_ms_p50"] is None
    world.fields["sink"] = {"latency_ms_p50": 82.0, "latency_ms_p99": 215.0}
    summary = look(world)["summary"]
    assert (summary["latency_ms_p50"], summary["latency_ms_p99"]) == (82.0, 215.0)


def test_where_a_frames_time_goes():
    world = World()
    world.fields = {
        "router": {"hop:arrival": "30.000,28.0,90.0"},
        "pojoin-0": {"hop:search": "8.000,7.0,9.0"},
        "pojoin-1": {"hop:search": "9.000,7.0,9.5"},
        "sink": {"hop:evaluation": "10.000,9.0,11.0", "hop:settling": "nan,nan,nan"},
    }
    arrival, evaluation, search = look(world)["hops"]
    assert arrival == {
        "hop": "arrival",
        "about": "oldest row produced to taken by the router",
        "service": "router",
        "services": 1,
        "mean_ms": 30.0,
        "p50_ms": 28.0,
        "p99_ms": 90.0,
        "share": 0.75,
    }
    assert (evaluation["hop"], evaluation["share"]) == ("evaluation", 0.25)
    assert (search["service"], search["services"], search["share"]) == ("pojoin-1", 2, None)


def test_a_service_that_is_gone_times_no_hop():
    world = World()
    observer = Observer(world.subject)
    world.fields["sink"] = {"hop:settling": "10.000,9.0,11.0"}
    assert [hop["hop"] for hop in look(world, observer=observer)["hops"]] == ["settling"]
    world.gone.add("sink")
    assert look(world, 6, observer)["hops"] == []


def test_totals_come_from_the_log_whichever_services_are_up():
    world = World()
    world.put("totals", rows=900, answered=880, matches=12_345, refused=7)
    world.fields = {"router": {"tuples": 3}, "sink": {"tuples": 2, "matches": 1}}
    for gone in (set(), {"sink", "router"}):
        world.gone = gone
        summary = look(world, 12)["summary"]
        assert [summary[name] for name in ("tuples", "answered", "matches", "dead_letters")] == [900, 880, 12_345, 7]


@pytest.mark.parametrize(
    ("router", "sink", "gone", "expected"),
    [
        ("nan", "nan", set(), 0),
        (45_000.0, 44_000.0, set(), 45_000),
        (45_000.0, "nan", {"sink"}, 45_000),
        (0.0, 44_000.0, {"router"}, 44_000),
        (0.0, "nan", {"router"}, None),
    ],
)
def test_the_age_of_the_oldest_unanswered_row(router, sink, gone, expected):
    world = World()
    world.fields = {"router": {"unanswered_ms": router}, "sink": {"unanswered_ms": sink}}
    world.gone = gone
    assert look(world)["summary"]["unanswered_ms"] == expected


def test_only_a_controller_that_once_reported_is_missed():
    world = World()
    assert look(world)["roles"]["controller"]["state"] == "off"
    world._leave_word("controller")
    state = look(world)
    assert state["roles"]["controller"]["state"] == "gone"
    assert "controller" in [one["service"] for one in state["services"]]


def test_frames_epoch_and_verdict():
    world = World()
    world.put("head", frame_id=40, next_seq=900, epoch=2, wall_ms=1)
    world.put("totals", rows=900)
    world.put("result_position", log="x", frame_id=33, position=5)
    world.put("completeness", ratio=1.0, is_exact=1, checked_ms=77)
    summary = look(world)["summary"]
    assert (summary["tuples"], summary["epoch"], summary["frames_out"], summary["frames_under_way"]) == (900, 2, 33, 7)
    assert summary["completeness"] == {"ratio": 1.0, "is_exact": True, "checked_ms": 77}


@pytest.mark.parametrize(("next_seq", "held"), [(0, 0), (900, 900), (5_000, 1_000)])
def test_the_window_of_a_self_join_fills_to_its_length(next_seq, held):
    world = World()
    world.put("head", frame_id=1, next_seq=next_seq, epoch=0, wall_ms=1)
    assert look(world)["windows"] == [{"stream": "readings", "tuples": held, "tuples_max": 1_000}]


def test_windows_of_two_streams_fill_by_each_streams_sealed_tuples():
    world = World(subject(CROSS))
    world.put("head", frame_id=1, next_seq=9_000, epoch=0, wall_ms=1)
    world.put("batches", "0", **{"0": "0,300,0", "1": "300,640,0"})
    tuples = {window["stream"]: window["tuples"] for window in look(world)["windows"]}
    assert tuples == {"orders": 640, "quotes": 0}


def test_a_time_window_has_tuples_and_no_length():
    world = World(subject(TIMED))
    world.put("batches", "0", **{"4": "400,500,0", "5": "500,620,0"})
    assert look(world)["windows"] == [{"stream": "s", "tuples": 220, "tuples_max": None}]


def test_windows_that_the_router_reports_win():
    world = World(subject(CROSS))
    world.fields["router"] = {"window_tuples:orders": 123}
    assert look(world)["windows"][0]["tuples"] == 123


def test_the_worker_count_in_the_log_sets_the_expected_workers():
    world = World()
    world.gone.add("pojoin-1")
    assert look(world)["roles"]["pojoin"]["state"] == "gone"
    assert look(world, workers=1)["roles"]["pojoin"]["state"] == "ready"
    assert look(world, workers=3)["roles"]["pojoin"]["expected"] == 3


@pytest.mark.parametrize(("workers", "columns", "grid"), [(1, 1, None), (4, 2, {"rows": 2, "columns": 2})])
def test_the_card_of_the_workers_has_their_grid(workers, columns, grid):
    world = World()
    world.gone.update(name for edge in TOPOLOGY for name in world.subject.expected(edge.role))
    report = ServiceReport(world.clock.wall_ms(), ("router", "sink"), workers, columns=columns)
    world.put("expected", "router", **report.fields())
    roles = look(world)["roles"]
    assert roles["pojoin"]["grid"] == grid
    assert roles["sink"]["grid"] is None


@pytest.mark.parametrize(("workers", "beside"), [(1, []), (2, ["pojoin-1"])])
def test_the_services_that_run_say_which_roles_share_a_process_whatever_the_settings_say(workers, beside):
    world = World()
    world.gone.update(name for edge in TOPOLOGY for name in world.subject.expected(edge.role))
    report = ServiceReport(world.clock.wall_ms(), ("together",), workers, inside=1)
    world.put("expected", "together", **report.fields())
    world.put("status", "together", role="together", state="ready", wall_ms=world.clock.wall_ms())
    state = look(world, 1)
    assert [(one["service"], one["state"]) for one in state["services"]] == [
        ("together", "ready"),
        *((name, "gone") for name in beside),
    ]
    gone = {name for name, role in state["roles"].items() if role["state"] == "gone"}
    assert gone == ({"pojoin"} if beside else set())


def test_entries_that_no_service_wrote_are_refused():
    world = World()
    world.put("head", frame_id="soon")
    with pytest.raises(BadData, match="delete the query's keys"):
        look(world)


def test_no_secret_is_shown():
    redis, password = "redis://user:hunter2@redis:6379/0", "s3cret"
    world = World()
    world.fields["router"] = {"state": f"waiting: no answer from {redis} or with {password}"}
    world.fields["sink"] = {"state": "waiting: rediss://:pa/ss@word@host:1/0?password=abc&db=1 is away"}
    observer = Observer(world.subject)
    world.pass_second()
    sighting = observer.take(world.entries(), world.clock.monotonic_ms(), world.clock.wall_ms())
    known = Known(world.subject, 0, sighting, is_store_up=True, troubles=[f"{redis} is away"])
    text = str(shown(known, censor_of([redis, password])))
    for secret in ("hunter2", "s3cret", "pa/ss", "word@host", "abc"):
        assert secret not in text
    assert "waiting: no answer from redis://***@redis:6379/0 or with ***" in text
    assert "//***@host:1/0?password=***&db=1 is away" in text


def test_rates_forget_old_and_discarded_samples():
    rates = Rates()
    assert rates.per_s("a") is None
    for second in range(100):
        rates.note("a", 1000 * second, second**2)
    assert rates.per_s("a") == (99**2 - (100 - READINGS) ** 2) / (READINGS - 1)
    rates.note("a", 99_000, 10**9)  # the same moment again
    assert rates.per_s("a") < 1000
    rates.keep(["b"])
    assert rates.all_per_s() == {}
