"""EXPLAIN: the plan's parts, and selectivities against a plain nested loop."""

import io
import itertools

import numpy as np
import pyarrow as pa
import pytest
import yaml
from rich.console import Console

from spojoin.columns.stream_columns import arrow_schema
from spojoin.errors import ConfigurationError
from spojoin.explain.footprint import WORKER_BYTES_MAX, SetupSizes
from spojoin.explain.plan import explain, render
from spojoin.protocol.topology import TOPOLOGY
from spojoin.query.load import parse_query
from tests.support.chart import CHART
from tests.support.query_texts import TRIPS, typed


def shown(plan) -> str:
    console = Console(file=io.StringIO(), width=200)
    render(plan, console)
    return console.file.getvalue()


def test_the_plan_of_a_self_join():
    plan = explain(parse_query(TRIPS))
    assert [(k.stream, k.slot, k.text) for k in plan.keys] == [("trips", 0, "distance"), ("trips", 1, "air_time")]
    assert [(i.direction, i.intervals) for i in plan.indexes] == [("as left", 2), ("as right", 2)]
    assert "prefix bitmaps" in plan.indexes[0].structure  # as the first partners alone are listed
    assert (plan.batch_tuples, plan.batches) == (5_000, 20)
    assert "ceil(c / 10000) * 10000 - 100000" in plan.window_rules[0]
    assert plan.window_rules[1] == "the bound is constant in a frame"
    assert (plan.selectivity, plan.matches_per_probe) == (None, None)


@pytest.mark.parametrize(
    ("predicates", "intervals", "structure"),
    [
        ("l.i < r.i", 1, "sorted ranks"),
        ("l.i < r.i AND l.i > r.i - 5", 2, "wavelet"),
        ("l.g <= r.i AND l.d >= r.i", 2, "wavelet"),
        ("l.i < r.i AND l.g != r.g", 2, "wavelet"),
        ("l.i = r.i", 1, "sorted ranks: two binary searches"),
        ("l.i = r.i AND l.g > r.g", 2, "two binary searches, within equal keys"),
        ("l.i = r.i AND l.g > r.g AND l.d != r.d", 3, "rectangle counts, within equal keys"),
        ("l.i < r.i AND l.g > r.g AND l.d != r.d", 3, "box counts"),
        ("l.i < r.i AND l.g > r.g AND l.d != r.d AND l.g != r.g", 4, "prefix bitmaps for the rest"),
    ],
)
def test_the_index_follows_the_number_of_intervals(predicates: str, intervals: int, structure: str):
    direction = explain(parse_query(typed(predicates))).indexes[0]
    assert direction.intervals == intervals
    assert structure in direction.structure


def test_the_plan_says_whether_columns_may_be_by_key():
    assert "are by batch: its condition has no equality" in explain(parse_query(TRIPS)).columns_rule
    plan = explain(parse_query(typed("l.i < r.i AND l.g = r.g")))
    assert plan.columns_rule == "columns of workers may be by key, that of l.g = r.g (columns_by: key)"
    assert plan.columns_rule in shown(plan)


@pytest.mark.parametrize(
    ("window", "needs"), [(1_000_000, "this window needs no more"), (100_000_000, "100,000,000 need 11 columns")]
)
def test_the_plan_says_how_many_columns_a_window_needs(window: int, needs: str):
    plan = explain(parse_query(TRIPS.replace("'10K' ON '100K'", f"'{window // 10}' ON '{window}'")))
    assert plan.memory_rule.startswith("a worker may have 2 GiB in the chart: enough for a window of about ")
    assert needs in plan.memory_rule
    assert plan.memory_rule in shown(plan)


def test_the_chart_gives_a_worker_the_memory_that_the_plan_counts_on():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["pojoin"]["resources"]["limits"]["memory"] == f"{WORKER_BYTES_MAX >> 30}Gi"


def test_the_share_of_hot_searches_comes_from_the_sample():
    query = parse_query(
        "name: q\nstreams:\n  s: {schema: {a: long}}\n"
        "sql: SELECT * FROM s AS l JOIN s AS r ON l.a = r.a WINDOW AS (SLIDE INTERVAL '10' ON '100')\n"
    )
    sample = pa.table({"a": [7] * 30 + [*range(100, 170)]})
    plan = explain(query, {"s": sample}, SetupSizes(workers=2, columns=2))
    assert "with 2 columns 30.0% of the sample's searches are for hot keys" in plan.columns_rule


def test_predicates_on_one_stored_column_are_one_interval():
    plan = explain(parse_query(typed("l.i < r.i AND l.g > r.i")))
    assert [(i.probe, i.target, i.intervals) for i in plan.indexes] == [("a", "b", 1), ("b", "a", 2)]


def test_a_small_slide_and_a_time_window_carry_their_bound_in_the_frame():
    for window in ("'1' ON '100'", "'1 min' ON '5 min'"):
        plan = explain(parse_query(typed("l.i < r.i").replace("'10' ON '100'", window)))
        assert plan.window_rules[1] == "the bound is a column of the frame"
    assert "ceil(c / 1 min) * 1 min - 5 min, c: event time" in plan.window_rules[0]


def test_it_is_said_for_whom_event_time_waits():
    text = typed("l.i < r.i")
    assert "for a row or a heartbeat of each partition (no idle_timeout)" in shown(explain(parse_query(text)))
    impatient = shown(explain(parse_query(f"{text}idle_timeout: 90 s\n")))
    assert "but not for one without records for 90 s (idle_timeout)" in impatient
    assert "event time waits" not in shown(explain(parse_query(TRIPS)))


def test_topics_come_from_the_topology():
    plan = explain(parse_query(typed("l.i < r.i AND l.g > r.g")), sizes=SetupSizes(workers=3))
    topics = {topic.name: topic for topic in plan.topics}
    assert len(topics) == len(plan.topics)
    assert {"in.a", "in.b", "in.a.dlq", "in.b.dlq"} < set(topics)
    assert topics["typed.matches"].partitions == 4
    assert topics["typed.batches"].partitions == 2
    assert topics["typed.partials"].partitions == 2
    taking = {"frames", "runs", "batches", "partials", "matches", "results"}
    assert {name for name, topic in topics.items() if topic.full} == {f"typed.{name}" for name in taking}
    of_intakes = {"blocks", "positions"}
    assert not {f"typed.{name}" for name in of_intakes} & topics.keys(), "a release has intakes where it asks for them"
    for edge in TOPOLOGY:
        if edge.role == "intake":
            continue
        for topic in set(edge.writes) - {"dlq", *of_intakes}:
            assert edge.role in topics[f"typed.{topic}"].written_by
        for topic in set(edge.reads) - {"input", *of_intakes}:
            assert edge.role in topics[f"typed.{topic}"].read_by


def test_state_grows_with_the_window_and_shrinks_with_columns():
    def worker(window: str, columns: int) -> int:
        query = parse_query(TRIPS.replace("'10K' ON '100K'", window).replace("limit: 1000", ""))
        sizes = SetupSizes(workers=2, columns=columns)
        (state,) = [s for s in explain(query, sizes=sizes).state if s.service == "PO-Join worker"]
        return state.bytes_each

    assert worker("'10K' ON '1M'", 1) == 10 * worker("'10K' ON '100K'", 1)
    assert worker("'10K' ON '1M'", 2) * 2 == worker("'10K' ON '1M'", 1)
    assert worker("'100K' ON '1M'", 1) <= 60_000_000


def naive_share(left, right, holds, is_self: bool) -> float:
    pairs = [(x, y) for (i, x), (j, y) in itertools.product(enumerate(left), enumerate(right)) if not is_self or i != j]
    return sum(holds(x, y) for x, y in pairs) / len(pairs)


def test_selectivity_of_a_self_join():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 5, (60, 2)).astype(float)
    table = pa.table({"distance": rows[:, 0], "air_time": rows[:, 1]})
    plan = explain(parse_query(TRIPS), {"trips": table})
    tuples = rows.tolist()
    longer, sooner = (lambda x, y: x[0] > y[0]), (lambda x, y: x[1] < y[1])
    assert plan.selectivity.each == (
        pytest.approx(naive_share(tuples, tuples, longer, True)),
        pytest.approx(naive_share(tuples, tuples, sooner, True)),
    )
    whole = naive_share(tuples, tuples, lambda x, y: longer(x, y) and sooner(x, y), True)
    assert plan.selectivity.whole == pytest.approx(whole)
    assert plan.matches_per_probe == pytest.approx(2 * 100_000 * whole)
    assert plan.selectivity.rows == (60,)


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        ("l.i < r.i", lambda x, y: x < y),
        ("l.i <= r.i", lambda x, y: x <= y),
        ("l.i = r.i", lambda x, y: x == y),
        ("l.i != r.i", lambda x, y: x != y),
        ("ABS(l.i - r.i) < 2", lambda x, y: abs(x - y) < 2),
        ("ABS(l.i - r.i) <= 2", lambda x, y: abs(x - y) <= 2),
        ("ABS(l.d - r.i) <= 1.5", lambda x, y: abs(x - y) <= 1.5),
        ("ABS(l.g - r.g) < 9000000000000000000", lambda x, y: abs(x * 2**60 - y * 2**60) < 9 * 10**18),
    ],
)
def test_selectivity_of_a_cross_join(predicate: str, holds):
    rng = np.random.default_rng(2)
    sides = [rng.integers(-7, 8, size) for size in (40, 30)]
    samples = {
        name: pa.table({"i": side, "d": side.astype(float), "g": side * 2**60})
        for name, side in zip("ab", sides, strict=True)
    }
    plan = explain(parse_query(typed(predicate)), samples)
    left, right = (side.tolist() for side in sides)
    assert plan.selectivity.each == (pytest.approx(naive_share(left, right, holds, False)),)
    assert plan.selectivity.rows == (40, 30)


def test_a_large_sample_is_sampled():
    values = np.arange(20_000, dtype=float)
    plan = explain(parse_query(TRIPS), {"trips": pa.table({"distance": values, "air_time": -values})})
    assert plan.selectivity.rows == (2_000,)
    assert plan.selectivity.whole == pytest.approx(0.5)


def test_samples_that_do_not_fit():
    query = parse_query(typed("l.i < r.i"))
    good = pa.table({"i": [1, 2, 3]})
    with pytest.raises(ConfigurationError, match="no sample of stream 'b'"):
        explain(query, {"a": good})
    with pytest.raises(ConfigurationError, match="unknown stream of the samples 'c'"):
        explain(query, {"a": good, "c": good})
    with pytest.raises(ConfigurationError, match="fewer than two usable rows"):
        explain(query, {"a": good, "b": pa.table({"i": [2**40, 2]})})


def test_the_plan_as_rendered_text():
    table = pa.table({"distance": [1.0, 2.0, 3.0], "air_time": [3.0, 2.0, 1.0]})
    text = shown(explain(parse_query(TRIPS), {"trips": table}))
    for part in (
        "farther-in-less-time",
        "l.distance > r.distance",
        "50 %",
        "20 in a window",
        "in.trips",
        "PO-Join worker",
    ):
        assert part in text
    assert "100,000 matches a probe" in text


def test_explain_shows_no_batches_for_another_layout():
    text = " ".join(shown(explain(parse_query(TRIPS + "layout: scale_join\n"))).split())
    assert "layout scale_join: each worker holds its share of the window" in text
    assert "layout batch" not in shown(explain(parse_query(TRIPS)))


def test_explain_shows_no_batches_for_another_method():
    text = " ".join(shown(explain(parse_query(TRIPS + "method: scan\n"))).split())
    assert "method scan: `spojoin run` holds the window in one part" in text
    assert "describe method spo" in text
    assert "method" not in shown(explain(parse_query(TRIPS)))
    both = shown(explain(parse_query(TRIPS + "method: scan\nlayout: scale_join\n")))
    assert "layout scale_join" in both
    assert "method scan" not in both, "workers of a layout are many, and served"


def test_odd_names_are_not_parsed_as_markup():
    text = TRIPS.replace("air_time: double", '"[red]x": double').replace("air_time", '"[red]x"')
    assert "[red]x" in shown(explain(parse_query(text)))


def test_the_arrow_schema_holds_what_a_query_reads():
    query = parse_query(typed("l.p < r.p AND l.at + INTERVAL '1 s' > r.at"))
    assert arrow_schema(query.streams[0]) == pa.schema([("p", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC"))])
    trips = parse_query(TRIPS).streams[0]
    assert arrow_schema(trips).names == ["distance", "air_time", "time_hour", "flight_id"]
    assert arrow_schema(trips, needs_time=False).names == ["distance", "air_time", "flight_id"]
    assert arrow_schema(trips).field("time_hour").type == pa.null()
