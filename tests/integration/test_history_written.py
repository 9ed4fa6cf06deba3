"""Results that tasks write: complete, in order and once, regardless of repeated tasks; or nothing."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spojoin
from loadgen.load import spark as local
from spojoin.embedded.statements import StatementOptions
from spojoin.spark.api import plan_history
from spojoin.spark.files import is_known, write_parquet
from spojoin.spark.history_query import frame_query_of_statement
from spojoin.spark.session import settings_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]

STATEMENT = (
    "SELECT l.id, r.id AS other, l.city FROM trips AS l JOIN trips AS r ON l.id < r.id AND l.id > r.id - 3 "
    "WINDOW AS (SLIDE INTERVAL '1' ON '10')"
)
FULL = """
SELECT l.id, r.id AS other FROM asks AS l FULL JOIN bids AS r
ON l.item = r.item AND r.at BETWEEN l.at - INTERVAL '2 s' AND l.at + INTERVAL '5 s'
EMIT ON CLOSE
"""
ROWS = 20_000


@pytest.fixture(scope="module")
def spark():
    session = local.start()
    session.conf.set("spark.spojoin.shares", "2")
    yield session
    session.stop()


def history(spark, rows=ROWS):
    table = pa.table({"id": range(rows), "city": [f"c{number % 7}" for number in range(rows)]})
    asked = frame_query_of_statement(STATEMENT, {"trips": spark.createDataFrame(table)}, StatementOptions({}))
    return plan_history(spark, asked, "id", None, settings_of(spark))


def expected(rows=ROWS):
    """The expected results: each row finds the two rows before it, as the right side of the pair."""
    return [(left, right, f"c{left % 7}") for right in range(rows) for left in (right - 2, right - 1) if left >= 0]


def written(folder):
    files = sorted(folder.glob("part-*.parquet"))
    return [tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()]


def test_results_are_written_in_order(spark, tmp_path):
    out = tmp_path / "out"
    assert write_parquet(history(spark), str(out)) == len(expected())
    assert written(out) == expected()
    assert sorted(path.name for path in out.iterdir() if not path.name.startswith("part-")) == ["_SUCCESS"]


def test_a_full_join_that_answers_on_close_is_written_as_its_rows_close(spark, tmp_path):
    tables = {name: events(seed) for seed, name in enumerate(("asks", "bids"))}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    asked = frame_query_of_statement(FULL, frames, StatementOptions({}))
    out = tmp_path / "out"
    expected = [tuple(row.values()) for row in spojoin.sql(FULL, **tables).to_arrow().to_pylist()]
    assert write_parquet(plan_history(spark, asked, None, None, settings_of(spark)), str(out)) == len(expected)
    assert written(out) == expected
    assert {(left is None, right is None) for left, right in expected} == {(False, False), (True, False), (False, True)}


def events(seed):
    """Rows in the order of their distinct times."""
    random = np.random.default_rng(seed)
    at = 2 * np.sort(random.choice(ROWS * 4, ROWS // 2, replace=False)) + seed
    return pa.table(
        {"id": range(len(at)), "item": random.integers(0, 50, len(at)), "at": pa.array(at * 100, pa.timestamp("ms"))}
    )


def test_results_replace_others_or_stand_beside_them(spark, tmp_path):
    out = tmp_path / "out"
    write_parquet(history(spark, 20), str(out))
    write_parquet(history(spark, 30), out.as_uri(), replaces=True)
    assert written(out) == expected(30)
    write_parquet(history(spark, 40), str(out))
    assert sorted(written(out)) == sorted(expected(30) + expected(40))


def test_nothing_is_left_of_a_failure(spark, tmp_path, monkeypatch):
    out = tmp_path / "out"
    failing = history(spark)
    monkeypatch.setattr(failing, "tasks", lambda: _failing(history(spark)))
    with pytest.raises(Exception, match="this task fails"):
        write_parquet(failing, str(out))
    assert not out.exists()


def _failing(found):
    tasks, task = found.tasks()

    def fails(batches):
        yield from batches
        raise OSError("this task fails")

    return tasks.mapInArrow(fails, tasks.schema), task


def test_a_file_system_that_arrow_does_not_know_is_left_to_spark():
    assert is_known("/tmp/out")
    assert not is_known("s3a://lake/out")
