"""ReadColumns of results in Spark's types, from results or from the query, and rows brought into them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import MapType, StringType, StructType

from spojoin.errors import BadData, ConfigurationError
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.backfill import Backfill
from spojoin.query.fingerprint import fingerprint
from spojoin.query.load import parse_query
from spojoin.runtime.generations import GenerationsTopic
from spojoin.spark.source_columns import ReadColumns, columns_of, spark_columns
from spojoin.spark.source_options import checked_options
from spojoin.spark.source_range import results_of
from spojoin.wire.records import Announcement
from tests.support.result_records import messages, result

GIVEN = {"query": "q", "kafka.bootstrap.servers": "a:1"}
STREAM = "name: q\nstreams: {t: {schema: {id: long, at: timestamp, name: string, w: 'decimal(9,3)'}KEY}}\n"
SELECT = """
sql: |
  SELECT l.id, r.at, l.name, r.w FROM t AS l JOIN t AS r ON l.id < r.id WINDOW AS (SLIDE INTERVAL '1' ON '9')
"""
COUNT = SELECT.replace("l.id, r.at, l.name, r.w", "*") + "output: count\n"


def log_of(text=None, results=()):
    log = MemoryLog()
    log.create_topics({results_of("q").topic: 1, "q.generations": 1})
    if text is not None:
        query = parse_query(text)
        GenerationsTopic(log, "q").write_record(Announcement(1, fingerprint(query), query.text, Backfill.WINDOW))
    writer = log.writer()
    for message in messages(results):
        writer.append(results_of("q"), message.value, tuple(message.headers.items()))
    writer.flush(1)
    return log


def columns(log, **options):
    return columns_of(log, checked_options({**GIVEN, **options})).simpleString()


def test_a_select_list_has_its_columns_before_any_result():
    found = columns(log_of(STREAM.replace("KEY", "") + SELECT))
    assert found == "struct<id:bigint,at:timestamp_ntz,name:string,w:decimal(9,3)>"


def test_counts_without_a_key():
    found = columns(log_of(STREAM.replace("KEY", "") + COUNT))
    assert found == "struct<seq:bigint,stream:string,key:bigint,matches:bigint,as_left:bigint,as_right:bigint>"


def test_counts_with_a_key_wait_for_the_first_result():
    with pytest.raises(ConfigurationError, match="what type its keys have: wait for the first ones"):
        columns(log_of(STREAM.replace("KEY", ", key: name") + COUNT))


def test_the_first_result_says_what_the_columns_are():
    assert columns(log_of(None, [result(0, []), result(1, [1])])) == "struct<x:bigint>"


def test_results_of_another_generation_say_nothing():
    log = log_of(STREAM.replace("KEY", "") + SELECT, [result(0, [1])])
    assert columns(log) == "struct<x:bigint>"
    with pytest.raises(ConfigurationError, match="no generation 2 yet"):
        columns(log, generation="2")


def test_nothing_is_served_under_the_name():
    with pytest.raises(ConfigurationError, match=r"no topic 'q.results': start the services of query 'q' first"):
        columns(MemoryLog())
    with pytest.raises(ConfigurationError, match="no results and no generation 1 yet"):
        columns(log_of())


def struct(**columns):
    found = StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


def test_arrow_becomes_spark():
    schema = pa.schema(
        [
            ("name", pa.dictionary(pa.int8(), pa.string())),
            ("at", pa.timestamp("us")),
            ("when", pa.timestamp("us", "UTC")),
            ("tags", pa.map_(pa.string(), pa.string())),
        ]
    )
    expected = "struct<name:string,at:timestamp_ntz,when:timestamp,tags:map<string,string>>"
    assert spark_columns(schema).simpleString() == expected
    with pytest.raises(ConfigurationError, match=r"column 't' of the results is time64.* CAST it"):
        spark_columns(pa.schema([("t", pa.time64("us"))]))


def test_rows_take_the_types_that_spark_expects():
    rows = pa.RecordBatch.from_pydict(
        {
            "name": pa.array(["a", "b", None]).dictionary_encode(),
            "at": pa.array([1, None, 3], pa.timestamp("ms")),
            "key": pa.array([1, 2, 3], pa.int32()),
            "tags": pa.array([[("a", "b")], [], None], pa.map_(pa.string(), pa.string())),
        }
    )
    wanted = struct(name="string", at="timestamp_ntz", key="string", tags=MapType(StringType(), StringType()))
    found = ReadColumns(wanted, "q").of(rows, 1)
    assert [str(each) for each in found.schema.types[:3]] == ["string", "timestamp[us]", "string"]
    assert found.column("key").to_pylist() == ["1", "2", "3"]
    assert found.column("tags").to_pylist() == rows.column("tags").to_pylist()


@pytest.mark.parametrize(
    "columns", [{"x": "integer"}, {"x": "double"}, {"y": "long"}, {"x": "long", "y": "long"}, {"x": "timestamp"}]
)
def test_other_columns_are_a_sentence(columns):
    rows = pa.RecordBatch.from_pydict({"x": pa.array([1], pa.int64())})
    with pytest.raises(
        BadData, match=r"generation 3 of query 'q' answers with other columns \(x int64\) .* generation=3"
    ):
        ReadColumns(struct(**columns), "q").of(rows, 3)


def test_small_batches_are_put_together():
    batches = [pa.RecordBatch.from_pydict({"x": [number] * 3}) for number in range(5)]
    found = list(ReadColumns(struct(x="long"), "q").together(iter(batches), 7))
    assert [each.num_rows for each in found] == [9, 6]
    assert pa.Table.from_batches(found) == pa.Table.from_batches(batches).combine_chunks()
