"""The oracle of statements: DuckDB over the numbered input, with the windows written out as conditions on the numbers.

It shares nothing with the product. The statement's own text goes to DuckDB if possible: conditions and select list are
the user's. DuckDB also shows which side a condition belongs to, namely a side that can answer it alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import duckdb
import pyarrow as pa

from loadgen.window import window_begin_sql
from tests.support.by_duckdb import engine
from tests.support.statement_text import (
    Clauses,
    Refusable,
    Side,
    Token,
    Undecided,
    WindowText,
    clauses,
    name_of,
    tokens_of,
)


@dataclass(frozen=True, slots=True)
class Expected:
    """A statement's answer: its columns, rows in order, and the pairs as (probe seq, left seq, right seq).

    names: a column's name, or None if the specification doesn't define it
    """

    names: tuple[str | None, ...]
    types: tuple[str, ...]
    rows: list[tuple[object, ...]]
    pairs: list[tuple[int, int, int]]


class StatementOracle:
    """Answers statements over `tables`, whose event times are in the columns that `time` names."""

    def __init__(self, tables: Mapping[str, pa.Table], time: Mapping[str, str] | None = None) -> None:
        self._columns = {name: table.column_names for name, table in tables.items()}
        self._time = dict(time or {})
        self._db = engine().cursor()
        self._functions = _forbidden_functions()
        for number, (name, table) in enumerate(tables.items()):
            self._load(number, name, table)

    def expected(self, text: str) -> Expected:
        """The statement's answer. Raises Refusable and Undecided."""
        question = self._question(text)
        try:
            question.check_values()
            return question.answer()
        except _StopsAtRow:
            return question.without_failing().answer()

    def positions(self, text: str) -> list[tuple[int, int]]:
        """The stream (0 is the left side's) and the position of each row that takes a number, in number order."""
        return self._question(text).positions()

    def _question(self, text: str) -> _Question:
        parts = clauses(_with_whole_digits(text))
        left, right = self._side(parts.left), self._side(parts.right)
        self._check(parts)
        return _Question(self._db, parts, left, right)

    def _load(self, number: int, name: str, table: pa.Table) -> None:
        time = f"epoch_us({quoted(self._time[name])})" if name in self._time else "NULL::BIGINT"
        self._db.register("arriving", table.append_column("~pos", pa.array(range(table.num_rows), pa.int64())))
        self._db.execute(f'CREATE OR REPLACE TEMP TABLE "~base{number}" AS SELECT *, {time} AS "~time" FROM arriving')
        self._db.unregister("arriving")

    def _side(self, side: Side) -> _Source:
        """The stream with this name exactly, or with a name that differs only in case."""
        names = list(self._columns)
        found = [side.stream] if side.stream in names else [n for n in names if n.lower() == side.stream.lower()]
        if len(found) != 1:
            raise Refusable(f"no stream {side.stream!r}")
        columns = self._columns[found[0]]
        if len({column.lower() for column in columns}) < len(columns) or "seq" in map(str.lower, columns):
            raise Undecided("columns that DuckDB can't tell apart")
        return _Source(
            names.index(found[0]), side.alias, tuple(columns), found[0] in self._time, f'"~base{names.index(found[0])}"'
        )

    def _check(self, parts: Clauses) -> None:
        """Refuse what DuckDB accepts but a statement can't contain."""
        aliases = {parts.left.alias.lower(), parts.right.alias.lower()}
        if len(aliases) == 1:
            raise Refusable("one alias for both sides")
        known = {c for side in (parts.left, parts.right) for c in self._side(side).columns}
        for before, token, after in zip([None, *parts.tokens], parts.tokens, [*parts.tokens[1:], None], strict=False):
            follows = after.text if after else ""
            if follows == "(" and token.word.lower() in self._functions:
                raise Refusable(f"the function {token.text}")
            if token.word in _MOMENTS or token.text in {"?", "$"} or token.text.startswith("$"):
                raise Refusable(f"{token.text}")
            if token.kind == "identifier":
                _check_name(before, token, follows, aliases, known)


def _with_whole_digits(text: str) -> str:
    """The text with `0.1` for `.1`: their types differ by a digit in DuckDB, but not in statements."""
    for token in reversed(tokens_of(text)):
        if token.kind == "numeric_const" and token.text[0] == "." and token.text[1:2].isdigit():
            text = f"{text[: token.start]} 0{text[token.start :]}"
    return text


def _check_name(before: Token | None, token: Token, follows: str, aliases: set[str], known: set[str]) -> None:
    """Refuse a whole row as a value, and a quoted name in another case."""
    name, lower = name_of(token), {column.lower() for column in known}
    is_alias = name.lower() in aliases and name.lower() not in lower and follows != "."
    if is_alias and before is not None and before.text != "." and before.word not in {"AS", "FROM", "JOIN"}:
        is_value = before.word in _BEFORE_VALUES or (before.kind == "operator" and before.text not in _CLOSING)
        if is_value or before.kind == "keyword":
            raise (Refusable if is_value else Undecided)(f"{name} as a value")
    if token.text[0] == '"' and name not in known and name.lower() in lower and before and before.word != "AS":
        raise Refusable(f"the quoted name {token.text} in another case")


@dataclass(frozen=True, slots=True)
class _Source:
    """A side: its table's number, alias, columns, and whether it has event times; `base` holds its rows."""

    number: int
    alias: str
    columns: tuple[str, ...]
    has_time: bool
    base: str

    @property
    def name(self) -> str:
        return quoted(self.alias)


class _StopsAtRow(Undecided):
    """An expression has no value for some row."""


class _Question:
    """One statement over the two sides."""

    def __init__(self, db: duckdb.DuckDBPyConnection, parts: Clauses, left: _Source, right: _Source) -> None:
        self._db, self._parts, self._left, self._right = db, parts, left, right
        self._is_self = left.number == right.number
        if not self._is_self and not (left.has_time and right.has_time):
            raise Refusable("two streams without event times")
        window = parts.window
        if window is not None and window.is_time and not (left.has_time and right.has_time):
            raise Refusable("a window of time without event times")

    def answer(self) -> Expected:
        """DuckDB's answer to the statement with its windows as conditions."""
        left, right, pair = self._sorted_conjuncts()
        items, names = self._select_list()
        numbered = self._numbered(left, right)
        conditions = [f"({text}\n)" for text in pair] + [self._window(self._parts.window)]
        l, r = self._left.name, self._right.name  # noqa: E741 - the sides' own names
        sql = (
            f"WITH {numbered} SELECT {', '.join(items)}, greatest({l}.seq, {r}.seq), {l}.seq, {r}.seq\n"
            f'FROM "~left" AS {l} JOIN "~right" AS {r} ON {" AND ".join(conditions)}\n'
            f"ORDER BY greatest({l}.seq, {r}.seq), {l}.seq, {r}.seq"
        )
        relation = self._asked(sql)
        width = len(names)
        found = relation.fetchall()
        return Expected(
            tuple(names),
            tuple(str(column[1]) for column in relation.description[:width]),
            [row[:width] for row in found],
            [row[width:] for row in found],
        )

    def positions(self) -> list[tuple[int, int]]:
        """The stream (0 is the left side's) and the position of each row that takes a number, in number order."""
        left, right, _ = self._sorted_conjuncts()
        sql = f'WITH {self._numbered(left, right)} SELECT "~stream", "~pos" FROM "~numbered" ORDER BY seq'
        return self._asked(sql).fetchall()

    def _asked(self, sql: str) -> duckdb.DuckDBPyConnection:
        try:
            return self._db.execute(sql)
        except _CANNOT_BE_BOUND as error:
            raise Refusable(str(error)) from error
        except duckdb.Error as error:
            raise _StopsAtRow(f"DuckDB stops at a row: {error}") from error

    # --- rows without a value -----------------------------------------------------------------------------------------

    def without_failing(self) -> _Question:
        """The same statement over the rows for which filters and index conditions have a value.

        A filter counts for every row; an operand of an index condition for the rows that pass a filter of their stream.
        """
        left, right, pair = self._sorted_conjuncts()
        found = []
        for side, filters in ((self._left, left), (self._right, right)):
            both = self._is_self
            dead = self._failing(side, [*left, *right] if both else filters)
            others = [(self._left, left), (self._right, right)] if both else [(side, filters)]
            passing = {pos for each, conditions in others for pos in self._passing_rows(each, conditions, dead)}
            operands = self._operands(pair, [each for each, _ in others])
            dead |= {pos for pos in self._failing(side, operands) if pos in passing}
            found.append(self._kept(side, dead))
        return _Question(self._db, self._parts, found[0], found[1])

    def check_values(self) -> None:
        """Raises _StopsAtRow if an operand has no value for some row, even one that isn't joined."""
        left, right, pair = self._sorted_conjuncts()
        for side, filters in ((self._left, left), (self._right, right)):
            for text in (*filters, *self._operands(pair, [side])):
                self._asked(f"SELECT count(({text}\n)) FROM {side.base} AS {side.name}").fetchall()

    def _failing(self, side: _Source, texts: list[str]) -> set[int]:
        """Positions of the side's rows for which an expression fails, tested one by one."""
        found = set()
        for (position,) in self._asked(f'SELECT "~pos" FROM {side.base}').fetchall():
            for text in texts:
                alias = next(a for a in (self._left, self._right) if self._binds(f"({text}\n) IS NULL", self._rows(a)))
                row = f'(SELECT * FROM {side.base} WHERE "~pos" = {position}) AS {alias.name}'
                try:
                    self._asked(f"SELECT ({text}\n) FROM {row}").fetchall()
                except _StopsAtRow:
                    found.add(position)
        return found

    def _passing_rows(self, side: _Source, conditions: list[str], dead: set[int]) -> list[int]:
        kept = self._kept(side, dead)
        where = " AND ".join(f"({text}\n)" for text in conditions) or "true"
        rows = self._asked(f'SELECT "~pos" FROM {kept.base} AS {side.name} WHERE {where}').fetchall()
        return [position for (position,) in rows]

    def _kept(self, side: _Source, dead: set[int]) -> _Source:
        """The side without the dead rows."""
        kept = replace(side, base=f'"~kept{side.number}"')
        gone = ", ".join(map(str, sorted(dead))) or "NULL"
        self._db.execute(
            f'CREATE OR REPLACE TEMP TABLE {kept.base} AS SELECT * FROM "~base{side.number}" '
            f'WHERE ("~pos" IN ({gone})) IS NOT TRUE'
        )
        return kept

    def _operands(self, pair: list[str], sides: list[_Source]) -> list[str]:
        """The operands of the comparisons that belong to one of these sides."""
        found = []
        for text in pair:
            tokens = tokens_of(text)
            at = [k for k, token in enumerate(tokens) if token.depth == 0 and token.text in _COMPARISONS]
            if len(at) == 1 and not any(token.depth == 0 and token.word in {"AND", "OR"} for token in tokens):
                first = next(token for token in tokens if token.word != "NOT")
                middle = tokens[at[0]]
                found += [text[first.start : middle.start], text[middle.end :]]
        return [each for each in found if any(self._binds(f"({each}\n) IS NULL", self._rows(side)) for side in sides)]

    # --- conditions -------------------------------------------------------------------------------------------------

    def _sorted_conjuncts(self) -> tuple[list[str], list[str], list[str]]:
        """Conditions on the left side alone, on the right side alone, and on the pair."""
        sides: tuple[list[str], list[str], list[str]] = ([], [], [])
        both = f"{self._rows(self._left, True)}, {self._rows(self._right, True)}"
        for text in self._parts.conjuncts:
            if not self._binds(text, both):
                raise (Undecided if _LENIENT.search(text) else Refusable)(f"DuckDB doesn't take {text}")
            if self._binds(text, None):
                self._check_constant(text)
            elif self._binds(text, self._rows(self._left)):
                sides[0].append(text)
            elif self._binds(text, self._rows(self._right)):
                sides[1].append(text)
            else:
                sides[2].append(text)
        return sides

    def _rows(self, side: _Source, with_seq: bool = False) -> str:
        """The side's columns as a table, to test what binds."""
        seq = ", 0::BIGINT AS seq" if with_seq else ""
        return f'(SELECT * EXCLUDE ("~pos", "~time"){seq} FROM {side.base}) AS {side.name}'

    def _binds(self, condition: str, source: str | None) -> bool:
        try:
            self._db.sql(f"SELECT 1{'' if source is None else f' FROM {source}'} WHERE ({condition}\n)")
        except _CANNOT_BE_BOUND:
            return False
        except duckdb.Error as error:
            raise Undecided(f"DuckDB stops at a constant: {error}") from error
        return True

    def _check_constant(self, text: str) -> None:
        if self._asked(f"SELECT ({text}\n)::BOOLEAN").fetchall()[0][0] is not True:
            raise Refusable("a condition that is never true")

    # --- numbers and windows ------------------------------------------------------------------------------------------

    def _numbered(self, left: list[str], right: list[str]) -> str:
        """CTEs: every row that passes its side's filter, numbered, and the two sides with their indexes."""
        order = '"~stream", "~pos"' if self._is_self else '"~time", "~stream", "~pos"'
        return f"""
"~passed" AS ({self._passing(self._left, left, 1, 0, 0)}
              UNION ALL {self._passing(self._right, right, 0, 1, 0 if self._is_self else 1)}),
"~once" AS (SELECT "~stream", "~pos", "~time", max(is_left) AS is_left, max(is_right) AS is_right
            FROM "~passed" GROUP BY ALL),
"~numbered" AS (SELECT *, row_number() OVER (ORDER BY {order}) - 1 AS seq FROM "~once"),
"~counted" AS (SELECT *, sum(is_left) OVER (ORDER BY seq) - is_left AS left_before,
                         sum(is_right) OVER (ORDER BY seq) - is_right AS right_before FROM "~numbered"),
"~left" AS ({self._side(self._left, "left", "right")}),
"~right" AS ({self._side(self._right, "right", "left")})
"""

    def _passing(self, side: _Source, conditions: list[str], is_left: int, is_right: int, stream: int) -> str:
        where = " AND ".join(f"({text}\n)" for text in conditions) or "true"
        own = f'SELECT "~pos", "~time" FROM {side.base} AS {side.name} WHERE {where}'
        return f'SELECT {stream} AS "~stream", {is_left} AS is_left, {is_right} AS is_right, * FROM ({own})'

    def _side(self, side: _Source, this: str, other: str) -> str:
        stream = 1 if this == "right" and not self._is_self else 0
        columns = "".join(f"b.{quoted(name)}, " for name in side.columns)
        return (
            f'SELECT {columns}b."~time", c.seq, c.{this}_before AS "~index", c.{other}_before AS "~before" '
            f'FROM {side.base} AS b JOIN "~counted" AS c ON b."~pos" = c."~pos" '
            f'AND c.is_{this} = 1 AND c."~stream" = {stream}'
        )

    def _window(self, window: WindowText | None) -> str:
        """The condition, on the numbers, that the earlier row of the pair lies in the later one's window."""
        l, r = self._left.name, self._right.name  # noqa: E741 - the sides' own names
        if window is None:
            return f"{l}.seq <> {r}.seq"
        place, bound = ('"~time"', '"~time"') if window.is_time else ('"~index"', '"~before"')

        def inside(earlier: str, later: str) -> str:
            return f"{earlier}.{place} >= {window_begin_sql(f'{later}.{bound}', window.length, window.slide)}"

        return f"CASE WHEN {l}.seq < {r}.seq THEN {inside(l, r)} WHEN {l}.seq > {r}.seq THEN {inside(r, l)} END"

    # --- the select list ----------------------------------------------------------------------------------------------

    def _select_list(self) -> tuple[list[str], list[str | None]]:
        """The items for DuckDB, with stars expanded, and the names of their columns."""
        found: list[tuple[str, str | None, _Source | None]] = []
        for text in self._parts.items:
            starred = self._starred(text)
            if starred is None:
                found.append((text, self._own_name(text), None))
            for side in starred or ():
                found += [(f"{side.name}.{quoted(c)}", c, side) for c in side.columns]
        given = [(name or "").lower() for _, name, _ in found]
        own = [(name or "").lower() for _, name, side in found if side is None]
        names = [self._unique(name, side, own if side is None else given) for _, name, side in found]
        items = [text if side is None else f"{text} AS {quoted(f'c{k}')}" for k, (text, _, side) in enumerate(found)]
        return items, names

    @staticmethod
    def _unique(name: str | None, side: _Source | None, given: list[str]) -> str | None:
        """The name in the result; a star's column gets its side's alias as a prefix if the list has the name twice.

        None if the specification doesn't define it: an expression without an alias, or a name that occurs twice.
        """
        if name is None or given.count(name.lower()) == 1:
            return name
        return None if side is None else f"{side.alias}_{name}"

    def _starred(self, text: str) -> list[_Source] | None:
        words = [token.text if token.text in ".*" else name_of(token) for token in tokens_of(text)]
        if words == ["*"]:
            return [self._left, self._right]
        for side in (self._left, self._right):
            if len(words) == 3 and words[1:] == [".", "*"] and words[0].lower() == side.alias.lower():
                return [side]
        if "*" in words[:1] or (words[-2:-1] == ["."] and words[-1] == "*") or "COLUMNS" in map(str.upper, words):
            raise Undecided(f"the star {text}")
        return None

    def _own_name(self, text: str) -> str | None:
        """DuckDB's name for the item, if it is a column or has an alias."""
        if _ESCAPED_NAME.search(text):
            return None
        tokens = tokens_of(text)
        both = f"{self._rows(self._left, True)}, {self._rows(self._right, True)}"
        try:
            name = self._db.sql(f"SELECT {text}\nFROM {both}").columns
        except _CANNOT_BE_BOUND:
            return None  # perhaps it names an alias of the list, which the whole statement shows
        except duckdb.Error as error:
            raise Undecided(f"DuckDB stops at a constant: {error}") from error
        if len(name) != 1:
            raise Undecided(f"{text} gives {len(name)} columns")
        is_column = (
            len(tokens) == 1 and tokens[0].kind in {"identifier", "keyword"} and tokens[0].word not in _VALUES
        ) or (len(tokens) == 3 and tokens[1].text == ".")
        is_named = is_column or any(token.word == "AS" and token.depth == 0 for token in tokens)
        return name[0] if is_named else None


_CANNOT_BE_BOUND = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.SyntaxException)
#: Functions to which the product's parser adds casts to text, or signs that it drops, so that it takes more types than
#: DuckDB.
_LENIENT = re.compile(r"\b(replace|upper|lower)\s*\(|\+\s*\(", re.IGNORECASE)
#: An alias as an escape string: DuckDB resolves its escapes before 2.0, but not since.
_ESCAPED_NAME = re.compile(r"\bAS\s+E'", re.IGNORECASE)
_VALUES = {"TRUE", "FALSE", "NULL"}
_BEFORE_VALUES = {"SELECT", "AND", "OR", "NOT", "ON", "WHERE", "WHEN", "THEN", "ELSE", "BETWEEN", "IN", "LIKE"}
_CLOSING = {")", "]", "}"}
_COMPARISONS = {"<", "<=", ">", ">=", "=", "<>", "!=", "=="}
_READ_THE_SESSION = {"age", "getenv", "version", "current_setting", "today", "user", "current_user", "session_user"}
_MOMENTS = {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "TODAY"}


@cache
def _forbidden_functions() -> frozenset[str]:
    """Functions that a statement can't call: aggregates, table functions, and those that read more than values."""
    sql = """SELECT DISTINCT lower(function_name) FROM duckdb_functions()
             WHERE function_type IN ('aggregate', 'table', 'pragma', 'table_macro')
                OR stability IN ('VOLATILE', 'CONSISTENT_WITHIN_QUERY') OR function_name = 'unnest'"""
    scalar = """SELECT DISTINCT lower(function_name) FROM duckdb_functions()
                WHERE function_type = 'scalar' AND stability = 'CONSISTENT' AND function_name <> 'unnest'"""
    found, kept = ({name for (name,) in engine().execute(each).fetchall()} for each in (sql, scalar))
    return frozenset(found - kept) | _READ_THE_SESSION


def quoted(name: str) -> str:
    """The name, quoted so that SQL accepts any letters."""
    return '"' + name.replace('"', '""') + '"'
