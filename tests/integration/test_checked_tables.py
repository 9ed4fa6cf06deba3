"""The checker of a query with a table: it accepts DuckDB's answers over a router's log, and finds planted errors.

Spark runs in this process, without a broker; tests/integration/test_tables.py checks services' answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from pyspark.sql import SparkSession

from loadgen.check import rows as input_rows
from loadgen.check.judging import settle_rejects
from loadgen.check.reading import read_rows
from loadgen.check.row_check import RowCheck
from loadgen.check.table_order import TableLog, answers_of, file_table, log_heads, topic_table
from loadgen.check.verdict import Verdict
from loadgen.load import spark
from spojoin.embedded.statements import StatementOptions, statement_of_streams
from tests.support.asked import SCHEMA, query_of
from tests.support.asking_statements import FORMS, Row
from tests.support.checked import INPUT, LOG, OUTPUT, TOPIC, answer_headers, answer_table, as_frame, as_message
from tests.support.long import first_of
from tests.support.routed_table import RoutedTable
from tests.support.table_statements import TableStatement, draw

pytestmark = [pytest.mark.integration, pytest.mark.spark]

Answers = list[tuple[Any, ...]]


def of_form(form: tuple[str, str, str], emit: str) -> TableStatement:
    """The first drawn statement of a form with enough answers, about several versions."""
    for seed in range(3_000_000, 3_020_000):
        statement = draw(seed)
        is_wanted = (statement.kind, statement.items, statement.clauses) == form and statement.emit == emit
        versions = [list(rows) for is_table, rows in statement.steps if is_table]
        if is_wanted and len(versions) > 2 and len(statement.answer()) > 20:
            return statement
    raise AssertionError(f"no statement of {form}")


class Checked:
    """A statement, the log of a router that took its rows and versions, and its answers by left row."""

    def __init__(self, session: SparkSession, statement: TableStatement) -> None:
        self._session, self._statement = session, statement
        self.query = query_of(statement)
        self.routed = RoutedTable(self.query, frame_tuples=7)
        keys: list[bytes] = []
        for is_table, rows in statement.steps:
            if is_table:
                self._replace(keys, rows)
            else:
                self.routed.feed([as_json(row) for row in rows])
        by_row = {number: list(rows) for number, rows in groupby(statement.answer(), lambda row: row[0])}
        self.answers = [by_row.get(number, []) for lefts, _ in statement.numbered() for number, _ in lefts]

    def _replace(self, keys: list[bytes], rows: tuple[Row, ...]) -> None:
        for key in keys:
            self.routed.change(key, None)
        keys[:] = [b"%d" % row["id"] for row in rows]
        for key, row in zip(keys, rows, strict=True):
            self.routed.change(key, as_json(row))
        self.routed.load()

    def verdict(self) -> Verdict:
        session, query = self._session, self.query
        verdict, (left, right) = Verdict("q"), query.inputs
        messages = as_frame(session, [{"value": each.value} for each in self.routed.rows], INPUT)
        lefts = read_rows(messages.select(*input_rows.MESSAGE), left, [], needs_time=False)
        changes = as_frame(session, [{"key": each.key, "value": each.value} for each in self.routed.changes], TOPIC)
        source = topic_table(changes, "tiers", right, [], {})
        heads = log_heads(session.createDataFrame(self.routed.encoded(), LOG))
        results = as_frame(session, self._messages([head.answers for head in heads]), OUTPUT)
        streams = settle_rejects([lefts, source.rows], [{}, {}], query, verdict)
        table = TableLog(heads, source, answers_of(results))
        return RowCheck(session, query, results, verdict).run(streams, table=table)

    def _messages(self, answers: list[int]) -> Iterator[dict[str, Any]]:
        """A result per frame."""
        left = iter(self.answers)
        for frame, count in enumerate(answers):
            some = [row for _ in range(count) for row in next(left)]
            yield {"value": as_message(answer_table(self.query, some)), "headers": answer_headers(frame, count)}


def of_older_version(statement: TableStatement, answers: list[Answers]) -> Iterator[tuple[int, Answers]]:
    """For the form FORMS[0]: rows, by their number among left rows, that the previous version answers differently."""
    at, before, current = 0, None, None
    for lefts, version in statement.numbered():
        if version != current:
            before, current = current, version
        for left in lefts:
            answer = statement.answer_about([left], before or [])
            if before is not None and answer != answers[at]:
                yield at, answer
            at += 1


def as_json(row: Row) -> bytes:
    return json.dumps(row).encode()


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    running = spark.start(cores=1)
    yield running
    running.stop()


@pytest.mark.parametrize(
    "form", first_of(5, FORMS), ids=[f"{kind}{clauses[:7]}-{at}" for at, (kind, _, clauses) in enumerate(FORMS)]
)
def test_answers_of_duckdb_are_exact(session: SparkSession, form: tuple[str, str, str]) -> None:
    checked = Checked(session, of_form(form, ""))
    verdict = checked.verdict()
    assert verdict.is_exact, (verdict, checked.query.text)
    assert verdict.rows_right == sum(map(len, checked.answers)) > 0


@pytest.mark.parametrize("emit", ["EMIT ON CLOSE", "EMIT ON ARRIVAL"])
def test_answers_on_close_are_those_at_arrival(session: SparkSession, emit: str) -> None:
    assert Checked(session, of_form(FORMS[1], emit)).verdict().is_exact


def test_a_row_that_is_answered_about_the_version_before_is_found(session: SparkSession) -> None:
    statement = of_form(FORMS[0], "")
    checked = Checked(session, statement)
    at, older = next(of_older_version(statement, checked.answers))
    checked.answers[at] = older
    verdict = checked.verdict()
    assert not verdict.is_exact
    assert verdict.first_difference is not None


def test_a_row_of_another_place_in_the_log_is_found(session: SparkSession) -> None:
    checked = Checked(session, of_form(FORMS[0], ""))
    checked.answers = checked.answers[1:] + checked.answers[:1]
    assert not checked.verdict().is_exact


CELLS = "id,x,y,s,at\n1,2,NA,b,0\n2,,7,,0\n3,-1,0,NA,0\n"
LINES = '{"id": 1, "x": 2, "y": null, "s": "b", "at": 0}\n{"id": 2, "x": null, "y": 7, "s": null, "at": 0}\n'


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "jsonl"])
def test_a_file_is_read_as_it_stands(session: SparkSession, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"tiers.{ending}"
    expected = [(2, None, "b"), (None, 7, None), (-1, 0, "NA")]
    columns = {"id": [1, 2, 3], **dict(zip("xys", map(list, zip(*expected, strict=True)), strict=True))}
    match ending:
        case "parquet":
            parquet.write_table(pa.table(columns), file)
        case "arrow":
            feather.write_feather(pa.table(columns), file)
        case "jsonl":
            file.write_text(LINES + '{"id": 3, "x": -1, "y": 0, "s": "NA", "at": 0}\n')
        case _:
            with pa.output_stream(str(file)) as out:
                out.write(CELLS.encode())
    statement = "SELECT l.id, r.s FROM a AS l JOIN TABLE(b) AS r ON l.x <= r.x AND l.y <= r.y"
    query = statement_of_streams(statement, {"a": SCHEMA, "b": SCHEMA}, StatementOptions({}))
    rows = file_table(session, query.inputs[1], [file]).rows
    found = zip(*(rows.table[name].to_pylist() for name in ("k0", "k1", "c0")), strict=True)
    assert (list(found), rows.reasons) == (expected, {})
