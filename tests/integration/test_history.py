"""A statement over a history on a real Spark gives the rows of `spojoin run`, in order, with any number of shares."""

import datetime
import os
import sys
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions

import spojoin
import spojoin.spark
from loadgen.load import spark as local
from spojoin.errors import BadData, ConfigurationError, QueryError
from spojoin.spark import history
from tests.support.asking_statements import draw, table_of
from tests.support.full_statements import draw_full
from tests.support.long import first_of, long_only
from tests.support.nested_loop import pairs_of_rows
from tests.support.truth import KINDS, on_the_page, said

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROWS = 700
PAIRS = (
    "SELECT l.id, r.id AS other, l.seq AS n FROM trips AS l JOIN trips AS r ON l.miles > r.miles AND l.fare < r.fare "
    "WINDOW AS (SLIDE INTERVAL '10' ON '100')"
)


@pytest.fixture(scope="module")
def spark():
    """A session that tries a task up to three times, with its own time zone."""
    session = local.start(tries=3)
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16 rows, so that a history of a few hundred rows has many."""
    monkeypatch.setattr(history, "BLOCK_ROWS", 16)


@pytest.fixture(autouse=True)
def default_settings(spark):
    yield
    for name in ("shares", "memory"):
        spark.conf.unset(f"spark.spojoin.{name}")


def joined(spark, statement, shares="", memory="2g", **frames_and_order):
    """The DataFrame of a statement, with settings of the session."""
    spark.conf.set("spark.spojoin.shares", str(shares))
    spark.conf.set("spark.spojoin.memory", memory)
    return spojoin.spark.sql(spark, statement, **frames_and_order)


def by_query(spark, frame, file, shares=1):
    """The DataFrame of a query file that joins one stream with itself."""
    spark.conf.set("spark.spojoin.shares", str(shares))
    return spojoin.spark.join(frame, None, file, order_by="id")


def trips(seed=1, rows=ROWS):
    """Tie-dense trips in the order of `id`, which is unique; times don't fall."""
    rng = np.random.default_rng(seed)
    start = datetime.datetime(2026, 3, 8, 1, 59, tzinfo=datetime.UTC)
    seconds = np.sort(rng.integers(0, rows // 4, rows)).tolist()
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "miles": rng.integers(0, 9, rows).astype(float),
            "fare": rng.integers(0, 9, rows),
            "at": pa.array([start + datetime.timedelta(seconds=each) for each in seconds], pa.timestamp("us", "UTC")),
            "city": pa.array(rng.choice(["a", "b", "c"], rows).tolist()),
        }
    )


def shuffled(spark, table, seed=3):
    """The table's rows shuffled over some partitions."""
    rows = table.take(pa.array(Random(seed).sample(range(table.num_rows), table.num_rows), pa.int64()))
    return spark.createDataFrame(rows).repartition(4)


def nested_loop(table, length, slide):
    """The pairs of PAIRS by a nested loop: the later row finds the earlier one in its window."""
    rows = table.to_pylist()
    found = pairs_of_rows(rows, lambda a, b: a["miles"] > b["miles"] and a["fare"] < b["fare"], length, slide)
    return [(rows[left]["id"], rows[right]["id"], left) for _, left, right in found]


@pytest.mark.parametrize(("shares", "is_shuffled"), [(17, False), (5, True), long_only(1, False), long_only(2, True)])
def test_pairs_are_those_of_the_nested_loop(spark, shares, is_shuffled):
    table = trips(shares)
    frame = shuffled(spark, table) if is_shuffled else spark.createDataFrame(table)
    found = joined(spark, PAIRS, order_by="id", shares=shares, trips=frame)
    assert [tuple(row) for row in found.collect()] == nested_loop(table, 100, 10)


def test_expressions_may_name_lists(spark):
    frame = spark.createDataFrame(trips()).withColumn("miles", functions.array("miles"))
    found = joined(spark, PAIRS, order_by="id", shares=3, trips=frame)
    assert [tuple(row) for row in found.collect()] == nested_loop(trips(), 100, 10)


def test_parquet_files_are_read_by_tasks(spark, tmp_path):
    table = trips()
    for number, begin in enumerate((400, 0)):  # the names of files don't show their order
        part = table.slice(begin, 300 if begin else 400)
        pq.write_table(part, tmp_path / f"part-{number}.parquet", row_group_size=90)
    frame = spark.read.parquet(str(tmp_path))
    assert "in the order of id as they are" in spojoin.spark.explain(spark, PAIRS, order_by="id", trips=frame)
    found = joined(spark, PAIRS, order_by="id", shares=4, trips=frame).collect()
    assert [tuple(row) for row in found] == nested_loop(table, 100, 10)


def test_parquet_files_without_an_order_are_sorted(spark, tmp_path):
    table = trips()
    rows = Random(5).sample(range(ROWS), ROWS)
    pq.write_table(table.take(pa.array(rows)), tmp_path / "rows.parquet", row_group_size=90)
    frame = spark.read.parquet(str(tmp_path))
    assert "sorted by id" in spojoin.spark.explain(spark, PAIRS, order_by="id", trips=frame)
    found = joined(spark, PAIRS, order_by="id", shares=4, trips=frame).collect()
    assert [tuple(row) for row in found] == nested_loop(table, 100, 10)


@pytest.mark.parametrize("seed", first_of(3, range(40, 48)))
def test_what_left_rows_ask_is_answered_as_by_duckdb(spark, seed):
    statement = draw(seed)
    found = drawn(spark, statement, seed, Random(seed).choice((1, 3, 6))).collect()
    assert [tuple(map(plain, row)) for row in found] == statement.answer()


FULL = {"one input, interval": 57, "two inputs, by time": 66, "one input, by count": 124, "two inputs, by count": 90}


@pytest.mark.parametrize("name", first_of(2, FULL))
def test_a_full_join_is_answered_in_the_order_of_closing(spark, name):
    statement = draw_full(FULL[name])
    assert statement.at_close
    found = drawn(spark, statement, FULL[name], 5)
    expected = [tuple(row) for row in statement.answer()]
    assert [tuple(row) for row in found.collect()] == expected
    assert sum(1 for rows in found.rdd.glom().collect() if rows) > 1


def drawn(spark, statement, seed, shares):
    """The DataFrame of a drawn statement over shuffled rows."""
    names = statement.names
    own = [[row for of, row in statement.rows if of == stream] for stream in range(len(names))]
    frames = {
        name: shuffled(spark, pa.Table.from_batches([table_of(rows)]), seed)
        for name, rows in zip(names, own, strict=True)
    }
    order = {"time": dict.fromkeys(names, "at"), "order_by": ["at", "id"]} if statement.is_timed else {"order_by": "id"}
    return joined(spark, statement.sql(), shares=shares, **order, **frames)


def plain(value):
    """An integral decimal as an integer."""
    return int(value) if type(value).__name__ == "Decimal" else value


def test_ties_are_ordered_by_what_rows_hold(spark):
    """Two orders of the same rows give the same numbers: rows are sorted by time, then by all columns read."""
    table = trips().drop_columns("id")
    statement = (
        "SELECT l.seq AS n, r.seq AS p, l.city FROM trips AS l JOIN trips AS r "
        "ON l.miles > r.miles AND l.fare < r.fare WINDOW AS (SLIDE INTERVAL '1 s' ON '30 s')"
    )
    ordered = table.sort_by([(name, "ascending") for name in ("at", "miles", "fare", "city")])
    expected = spojoin.sql(statement, trips=ordered).to_arrow().to_pylist()
    for seed in (1, 2):
        found = joined(spark, statement, shares=3, trips=shuffled(spark, table, seed)).collect()
        assert [row.asDict() for row in found] == expected


def nested_trips(seed, rows=300):
    """Trips with lists, structs and maps, some NULL or empty; many are otherwise equal."""
    draw, table = Random(seed), trips(seed, rows).select(["at"])
    table = table.append_column("miles", pa.array([draw.choice((0.0, 4.0)) for _ in range(rows)]))
    table = table.append_column("fare", pa.array([draw.choice((0, 1)) for _ in range(rows)], pa.int64()))
    stops = [draw.choice((None, [], ["x"], ["y", None])) for _ in range(rows)]
    fees = [draw.choice((None, [], [("tip", 2)], [("tip", None), ("toll", 1)])) for _ in range(rows)]
    parts = [draw.choice((None, {"km": 1.5, "by": [[("a", 1)]]}, {"km": None, "by": None})) for _ in range(rows)]
    by = pa.list_(pa.map_(pa.string(), pa.int64()))
    table = table.append_column("stops", pa.array(stops, pa.list_(pa.string())))
    table = table.append_column("fees", pa.array(fees, pa.map_(pa.string(), pa.int64())))
    return table.append_column("part", pa.array(parts, pa.struct([("km", pa.float64()), ("by", by)])))


NESTED = (
    "SELECT l.seq AS n, l.stops, l.fees, r.seq AS p, r.fees AS others, r.part FROM trips AS l LEFT JOIN trips AS r "
    "ON l.miles > r.miles + 2 AND l.fare < r.fare WINDOW AS (SLIDE INTERVAL '1 s' ON '5 s') EMIT ON CLOSE"
)


def test_nested_columns_are_passed_on(spark, tmp_path):
    """Any input order gives the same, even if rows differ only in a map, which Spark can't order."""
    table = nested_trips(1)
    orders = [joined(spark, NESTED, shares=3, trips=shuffled(spark, table, seed)).toArrow() for seed in (1, 2)]
    assert orders[0].equals(orders[1])
    pq.write_table(table.append_column("id", pa.array(range(table.num_rows))), tmp_path / "trips.parquet")
    frame = spark.read.parquet(str(tmp_path))
    found = joined(spark, NESTED, order_by=["at", "id"], shares=3, trips=frame).toArrow()
    expected = spojoin.sql(NESTED, trips=table).to_arrow()
    assert found.to_pylist() == expected.to_pylist()
    assert sorted(map(repr, orders[0].drop_columns(["n", "p"]).to_pylist())) == sorted(
        map(repr, expected.drop_columns(["n", "p"]).to_pylist())
    )


def test_two_inputs_with_times_of_two_kinds_are_refused(spark, tmp_path):
    left, right = trips(1), trips(2, 300)
    naive = right.set_column(3, "at", right["at"].cast(pa.timestamp("us")))
    statement = (
        "SELECT l.id, r.id AS other FROM trips AS l JOIN fares AS r "
        "ON l.miles > r.miles AND r.at BETWEEN l.at - INTERVAL '9 s' AND l.at + INTERVAL '4 s'"
    )
    pq.write_table(naive, tmp_path / "fares.parquet")  # Spark reads times without a zone only from files
    frames = {"trips": shuffled(spark, left), "fares": spark.read.parquet(str(tmp_path)).repartition(3)}
    assert dict(frames["fares"].dtypes)["at"] == "timestamp_ntz"
    with pytest.raises(QueryError, match=r"has a time zone, .*, which has none"):
        joined(spark, statement, order_by=["at", "id"], shares=5, **frames)


def test_a_table_side_is_held_by_every_task(spark):
    table, tiers = trips(), pa.table({"name": ["low", "high"], "least": [0, 5], "most": [5, 9]})
    statement = (
        "SELECT l.id, l.seq AS n, r.name FROM trips AS l JOIN TABLE(tiers) AS r "
        "ON l.fare >= r.least AND l.fare < r.most WHERE l.city <> 'b'"
    )
    expected = spojoin.sql(statement, trips=table, tiers=tiers).to_arrow().to_pylist()
    frames = {"trips": shuffled(spark, table), "tiers": spark.createDataFrame(tiers)}
    found = joined(spark, statement, order_by="id", shares=3, **frames).collect()
    assert [row.asDict() for row in found] == expected


def test_a_query_file_gives_counts_with_keys(spark, tmp_path):
    file = tmp_path / "trips.yaml"
    file.write_text(
        "name: trips\nstreams:\n  trips:\n    schema: {miles: double, fare: long}\n    key: city\nsql: |\n"
        "  SELECT * FROM trips AS l JOIN trips AS r ON l.miles > r.miles AND l.fare < r.fare\n"
        "  WINDOW AS (SLIDE INTERVAL '10' ON '100')\norder: arrival\noutput: count\n"
    )
    table = trips()
    with spojoin.Join(file) as join:
        expected = pa.concat_tables([join.push(table), join.flush()]).to_pylist()
    found = by_query(spark, shuffled(spark, table), file, 3).collect()
    assert [row.asDict() for row in found] == expected


def test_a_task_that_fails_is_tried_again_with_the_same_result(spark, tmp_path):
    failed = tmp_path / "failed"

    def fails_once(batches):
        for number, batch in enumerate(batches):
            if number == 0 and not failed.exists():
                failed.touch()
                raise OSError("this executor is lost")
            yield batch

    table = trips()
    frame = spark.createDataFrame(table).repartition(2)
    found = joined(spark, PAIRS, order_by="id", shares=4, trips=frame.mapInArrow(fails_once, frame.schema)).collect()
    assert failed.exists()
    assert [tuple(row) for row in found] == nested_loop(table, 100, 10)


def test_workers_are_made_with_what_tasks_import(spark):
    def of_daemon(batches):
        imported = {"pandas", "spojoin.spark"} <= sys.modules.keys()
        for batch in batches:
            with open(f"/proc/{os.getppid()}/cmdline", "rb") as file:
                found = {"command": [file.read().decode()], "imported": [imported]}
                yield pa.RecordBatch.from_pydict({name: each * batch.num_rows for name, each in found.items()})

    (row,) = spark.range(1).mapInArrow(of_daemon, "command string, imported boolean").collect()
    assert "spojoin.spark.daemon" in row.command
    assert row.imported


def test_no_rows_give_no_answers(spark):
    frame = spark.createDataFrame([], "id long, miles double, fare long")
    found = joined(spark, PAIRS, order_by="id", trips=frame)
    assert found.collect() == []
    assert found.columns == ["id", "other", "n"]


def test_the_plan_is_said(spark):
    spark.conf.set("spark.spojoin.shares", "7")
    text = spojoin.spark.explain(spark, PAIRS, order_by="id", trips=spark.createDataFrame(trips()))
    assert f"{ROWS} rows in" in text
    assert "more than a fifth is read twice: that many shares were asked for" in text


MISTAKES = {
    "no order": ({}, lambda f: f, "trips has no order: name the column that numbers its rows"),
    "unknown column": ({"order_by": "idd"}, lambda f: f, "did you mean 'id'"),
    "null": (
        {"order_by": "id"},
        lambda f: f.withColumn("id", functions.when(functions.col("id") != 17, functions.col("id"))),
        'rows without a value in id have no place in the order: leave them out, such as by .where("id IS NOT NULL")',
    ),
    "twice": (
        {"order_by": "id"},
        lambda f: f.withColumn("id", functions.col("id") - functions.when(functions.col("id") == 41, 1).otherwise(0)),
        "two rows have id 40",
    ),
    "a part that nobody knows": (
        {"order_by": "id"},
        lambda f: f.withColumn("fare", functions.array(functions.expr("INTERVAL '1' MONTH"))),
        "fare is of type array<interval month>, which statements don't know",
    ),
    "order by a list": (
        {"order_by": "all"},
        lambda f: f.withColumn("all", functions.array("id")),
        "all is of type array<bigint>, by which no rows are ordered: expected a number, a time or a text",
    ),
    "memory": ({"order_by": "id", "memory": "300 MiB"}, lambda f: f, "raise spark.spojoin.memory"),
    "size": ({"order_by": "id", "memory": "much"}, lambda f: f, "expected a size such as '4g'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence_before_a_task_answers(spark, name):
    options, spoil, sentence = MISTAKES[name]
    with pytest.raises((ConfigurationError, BadData)) as raised:
        joined(spark, PAIRS, **options, trips=spoil(spark.createDataFrame(trips())))
    assert sentence in str(raised.value)


def test_a_query_with_a_layout_of_its_own_is_refused(spark, tmp_path):
    file = tmp_path / "layout.yaml"
    file.write_text(
        "name: trips\nstreams:\n  trips:\n    schema: {miles: double, fare: long}\nsql: |\n"
        "  SELECT * FROM trips AS l JOIN trips AS r ON l.miles > r.miles AND l.fare < r.fare\n"
        "  WINDOW AS (SLIDE INTERVAL '10' ON '100')\norder: arrival\noutput: count\nlayout: {name: split_join}\n"
    )
    with pytest.raises(ConfigurationError, match="divide a history by its order alone"):
        by_query(spark, spark.createDataFrame(trips()), file)


#: By kind, the value in Spark.
SPARK = {
    "whole number": "9007199254740993L",
    "unsigned, 64 bits": "CAST('18446744073709551615' AS DECIMAL(20,0))",
    "double": "0.1D",
    "NaN": "double('NaN')",
    "decimal(10,2)": "CAST('15.25' AS DECIMAL(10,2))",
    "decimal(38,18)": "CAST('12345.678000000000000001' AS DECIMAL(38,18))",
    "text": "'Größe'",
    "category": "'low'",
    "bytes": "X'00FF'",
    "boolean": "true",
    "UUID": "'00000000-0000-0000-0000-000000000007'",
    "date": "DATE'9999-12-31'",
    "timestamp": "TIMESTAMP_NTZ'2024-03-01 10:00:00.123456'",
    "year 9999": "TIMESTAMP_NTZ'9999-12-31 00:00:00'",
    "with a zone": "TIMESTAMP'2024-03-01 10:00:00.123456Z'",
    "duration": "INTERVAL '90.500001' SECOND",
    "list": "array(1L, 2L)",
    "struct": "named_struct('a', 1L)",
    "NULL": "CAST(NULL AS BIGINT)",
}


def test_values_of_every_kind_are_what_the_page_says(spark):
    rows = spark.sql(f"SELECT 1 AS id, {', '.join(f'{sql} AS `{kind}`' for kind, sql in SPARK.items())}")
    told = {kind: cells["Spark"] for kind, cells in on_the_page().items()}
    assert told.keys() - SPARK.keys() == {kind for kind, what in told.items() if what == "–"}
    statement = "SELECT {} FROM x AS l JOIN TABLE(x) AS r ON l.id = r.id"
    for kind in [kind for kind, what in told.items() if what == "column"]:
        with pytest.raises((ConfigurationError, QueryError), match=f"{kind}"):
            joined(spark, statement.format(f'l."{kind}"'), order_by="id", x=rows)
    taken = [kind for kind in SPARK if told[kind] == "same"]
    named = ", ".join(f'l."{kind}"' for kind in taken)
    found = joined(spark, statement.format(named), order_by="id", x=rows).toArrow()
    assert {kind: said(found[kind].combine_chunks()) for kind in taken} == {kind: KINDS[kind][1] for kind in taken}
