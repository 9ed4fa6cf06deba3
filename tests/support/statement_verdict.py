"""Compares the product's answer to a statement with the oracle's: right, refused with a sentence, or a finding."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import spojoin
from spojoin.errors import BadData, ConfigurationError
from tests.support.statement_draw import DrawnStatement
from tests.support.statement_oracle import Expected, StatementOracle
from tests.support.statement_text import Refusable, Undecided

#: Text that no sentence for people may contain.
_RAW = re.compile(r"Traceback|\b[A-Z]\w*(Error|Exception)\(|<class |object at 0x|\bNone\b.*\bNone\b")
#: Refusals of useless statements of the grammar, though these have an answer.
_MAY_REFUSE = re.compile("two columns of results are called|the interval is empty")
#: Columns have no smaller integer types than these.
_ARROW_NAMES = {
    "INTEGER": "int32",
    "BIGINT": "int64",
    "HUGEINT": "decimal(38,0)",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date32[day]",
    "TIMESTAMP": "timestamp[us]",
    "VARCHAR": "string",
    "BOOLEAN": "bool",
    "UUID": "string",
    "BLOB": "binary",
    "INTERVAL": "month_day_nano_interval",
    "TINYINT": "int32",
    "SMALLINT": "int32",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: `kind` is crash, message, refused, accepted, rows, names or types."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind of the product's answer, for counting, and the finding, if any.

    outcome: 'right' with rows, 'empty', 'refused', 'undecided' (answered, but the oracle can't judge)
    """

    outcome: str
    finding: Finding | None = None


Answer = Callable[[DrawnStatement], pa.Table]


def judged(statement: DrawnStatement, oracle: StatementOracle, must_answer: bool, answer: Answer) -> Verdict:
    """The verdict on the product's answer to the statement, by the oracle's.

    must_answer: whether the statement follows the grammar, so that a refusal is also a finding
    answer: gets the product's answer
    """
    expected = _expected(statement, oracle)
    try:
        found = answer(statement)
    except ConfigurationError as error:
        return _refused(str(error), expected, must_answer)
    except BadData as error:
        is_right = "all rows were refused" in str(error) and not (isinstance(expected, Expected) and expected.rows)
        return Verdict("empty") if is_right else Verdict("crash", Finding("crash", str(error)))
    except Exception:  # noqa: BLE001 - any error is a finding
        return Verdict("crash", Finding("crash", traceback.format_exc(limit=-4)))
    if isinstance(expected, Expected):
        return _compared(found, expected)
    if expected.startswith("refuse"):
        return Verdict("accepted", Finding("accepted", f"{found.num_rows} rows; expected to {expected}"))
    return Verdict("undecided")


def _expected(statement: DrawnStatement, oracle: StatementOracle) -> Expected | str:
    try:
        return oracle.expected(statement.text)
    except Refusable as error:
        return f"refuse: {error}"
    except Undecided as error:
        return f"undecided: {error}"


def by_sql(statement: DrawnStatement) -> pa.Table:
    """The answer of `spojoin.sql`."""
    tables = {each.name: each.table for each in statement.tables}
    time = {"time": statement.time} if statement.time else {}
    return spojoin.sql(statement.text, **time, **tables, max_rejects="100%").to_arrow()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as Python values; two columns may have the same name."""
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def expected_rows(expected: Expected) -> list[tuple[Any, ...]]:
    """The oracle's rows in the form of `rows_of`."""
    return [tuple(map(_plain, row)) for row in expected.rows]


def _refused(message: str, expected: Expected | str, must_answer: bool) -> Verdict:
    if not re.search(r"\w+ \w+", message) or _RAW.search(message):
        return Verdict("refused", Finding("message", repr(message)))
    if must_answer and isinstance(expected, Expected) and not _MAY_REFUSE.search(message):
        return Verdict("refused", Finding("refused", message))
    return Verdict("refused")


def _compared(found: pa.Table, expected: Expected) -> Verdict:
    if found.num_columns != len(expected.names):
        return Verdict("wrong", Finding("names", f"{found.column_names} for {expected.names}"))
    rows, right = rows_of(found), expected_rows(expected)
    if list(map(repr, rows)) != list(map(repr, right)):
        return Verdict("wrong", Finding("rows", _difference(rows, right)))
    wrong = [f"{a!r} for {b!r}" for a, b in zip(found.column_names, expected.names, strict=True) if b not in {None, a}]
    if wrong:
        return Verdict("wrong", Finding("names", "; ".join(wrong)))
    kinds = [_kind(kind) for kind in found.schema.types]
    if not all(kind == _expected_kind(wanted) for kind, wanted in zip(kinds, expected.types, strict=True)):
        return Verdict("wrong", Finding("types", f"{kinds} for {expected.types}"))
    return Verdict("right" if rows else "empty")


def _difference(found: Sequence[object], expected: Sequence[object]) -> str:
    at = next((k for k, (a, b) in enumerate(zip(found, expected, strict=False)) if repr(a) != repr(b)), None)
    at = min(len(found), len(expected)) if at is None else at
    return f"{len(found)} rows for {len(expected)}; row {at}: {found[at : at + 1]} for {expected[at : at + 1]}"


def _plain(value: Any) -> Any:
    """The value independent of its library: times in UTC without a zone, intervals as DuckDB gives them."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=30 * value.months + value.days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return str(value) if type(value).__name__ == "UUID" else value


def _kind(kind: pa.DataType) -> str:
    if isinstance(kind, pa.ExtensionType) or kind == pa.uuid():
        return "string"
    name = str(kind).replace("large_", "").replace("_view", "")
    return re.sub(r", tz=[^\]]*|128", "", name).replace(" ", "")


def _expected_kind(name: str) -> str:
    return _ARROW_NAMES.get(name, name.lower()).replace(" ", "")
