"""The checker of rows that ask: it accepts DuckDB's answers, and finds each planted error.

Spark runs in this process, without a broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from loadgen.check import rows as input_rows
from loadgen.check.judging import settle_rejects
from loadgen.check.reading import read_rows
from loadgen.check.row_check import RowCheck
from loadgen.check.verdict import Verdict
from loadgen.load import spark
from tests.support.asked import query_of
from tests.support.asking_statements import FORMS, AskingStatement, draw
from tests.support.checked import INPUT, OUTPUT, answer_headers, answer_table, as_frame, as_message
from tests.support.full_statements import FullStatement, draw_full
from tests.support.long import first_of

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ANSWERED = 7

Answers = list[tuple[Any, ...]]


def of_form(form: tuple[str, str, str], *, at_close: bool) -> AskingStatement:
    """The first drawn statement of a form with enough answers."""
    for seed in range(1_000_000, 1_010_000):
        statement = draw(seed)
        drawn_form = statement.kind, statement.items, statement.clauses
        is_wanted = drawn_form == form and statement.at_close is at_close and len(statement.rows) > 100
        if is_wanted and len(statement.answer()) > 20:
            return statement
    raise AssertionError(f"no statement of {form}")


class Checked:
    """A statement, and its answers by row, as messages."""

    def __init__(self, session: SparkSession, statement: AskingStatement) -> None:
        self._session, self._statement = session, statement
        self.query = query_of(statement)
        self.answers = statement.of_closed()

    def verdict(self) -> Verdict:
        verdict, inputs = Verdict("q"), []
        for number, stream in enumerate(self.query.inputs):
            values = [json.dumps(row).encode() for of, row in self._statement.rows if of == number]
            messages = as_frame(self._session, [{"value": value} for value in values], INPUT)
            messages = messages.select(*input_rows.MESSAGE)
            inputs.append(read_rows(messages, stream, [], needs_time=self.query.needs_time))
        inputs = settle_rejects(inputs, [{} for _ in inputs], self.query, verdict)
        results = as_frame(self._session, self._messages(), OUTPUT)
        return RowCheck(self._session, self.query, results, verdict).run(inputs)

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Frames that answer ANSWERED left rows each."""
        for frame, first in enumerate(range(0, len(self.answers), ANSWERED)):
            some = self.answers[first : first + ANSWERED]
            yield {
                "value": as_message(answer_table(self.query, [row for rows in some for row in rows])),
                "headers": answer_headers(frame, len(some)),
            }


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    running = spark.start(cores=1)
    yield running
    running.stop()


@pytest.mark.parametrize(
    "form", first_of(5, FORMS), ids=[f"{kind}{clauses[:7]}-{at}" for at, (kind, _, clauses) in enumerate(FORMS)]
)
def test_answers_of_duckdb_are_exact(session: SparkSession, form: tuple[str, str, str]) -> None:
    checked = Checked(session, of_form(form, at_close=True))
    verdict = checked.verdict()
    assert verdict.is_exact, (verdict, checked.query.text)
    assert verdict.rows_right == sum(map(len, checked.answers)) > 0


def test_at_arrival_earlier_partners_count_alone(session: SparkSession) -> None:
    assert Checked(session, of_form(FORMS[5], at_close=False)).verdict().is_exact


def full(*, at_close: bool, is_time: bool) -> FullStatement:
    """The first drawn FULL JOIN of a kind with enough answers."""
    for seed in range(2_000_000, 2_010_000):
        statement = draw_full(seed)
        is_wanted = statement.at_close is at_close and statement.is_time is is_time and len(statement.rows) > 100
        if is_wanted and len(statement.of_closed()) > 20 and any(None in row[:2] for row in statement.answer()):
            return statement
    raise AssertionError("no such FULL JOIN")


@pytest.mark.parametrize("is_time", [False, True])
@pytest.mark.parametrize("at_close", [False, True])
def test_full_joins_of_duckdb_are_exact(session: SparkSession, at_close: bool, is_time: bool) -> None:
    checked = Checked(session, full(at_close=at_close, is_time=is_time))
    verdict = checked.verdict()
    assert verdict.is_exact, (verdict, checked.query.text)
    assert verdict.rows_right == sum(map(len, checked.answers)) > 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_row_given_back_beside_a_match_is_found(session: SparkSession, side: int) -> None:
    checked = Checked(session, full(at_close=True, is_time=False))
    at = next(n for n, rows in enumerate(checked.answers) if any(row[side] is not None for row in rows))
    row = checked.answers[at][0]
    checked.answers[at] = [*checked.answers[at], (*row[:side], None, *row[side + 1 :])]
    assert not checked.verdict().is_exact


@pytest.mark.parametrize("damage", first_of(3, ["missing", "other", "twice", "unanswered", "early"]))
def test_planted_errors_are_found(session: SparkSession, damage: str) -> None:
    checked = Checked(session, of_form(FORMS[5], at_close=True))
    at = len(checked.answers) // 2
    match damage:
        case "missing":
            checked.answers[at] = []
        case "other":
            checked.answers[at] = [(row[0], row[1] + 1, *row[2:]) for row in checked.answers[at]]
        case "twice":
            checked.answers[at] *= 2
        case "unanswered":
            checked.answers = checked.answers[:at]
        case _:
            checked.answers = checked.answers[1:] + checked.answers[:1]
    verdict = checked.verdict()
    assert not verdict.is_exact
    assert verdict.first_difference is not None
