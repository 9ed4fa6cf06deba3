"""A grammar of statements that a user may write, drawn from a seed; each must be answered."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.support.statement_oracle import quoted
from tests.support.statement_tables import DrawnTable, Field, draw_tables
from tests.support.statement_text import tokens_of

NUMBERS = ("int", "long", "float", "double", "decimal(10,2)", "decimal(18,4)")
_WHOLE = ("int", "long")
_ORDER = ("<", "<=", ">", ">=")
_EQUAL_ONLY = ("string", "boolean", "uuid", "binary")
_NUMBER_TEXTS = ("0", "1", "2", "3", "0.5", "1.75", "-1", "1e0", "(-0.25)")
_STRING_TEXTS = ("'a'", "''", "'it''s'", "'ß'", "'%'", "'--'", "'/*'", "';'", "'Ab '", "'WHERE'", "' AND '")
_DATE_TEXTS = ("DATE '2024-02-29'", "DATE '2024-03-01'", "'2024-02-29'::DATE")
_STAMP_TEXTS = ("TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '2024-01-31 23:59:59'")
_PATTERNS = ("'a%'", "'%b'", "'_'", "'%''%'", "'A%'", "'%'", "''")
_SPANS = ("INTERVAL '1 day'", "INTERVAL '2' HOUR", "INTERVAL '1 month'", "INTERVAL 3 DAYS")
_COMMENTS = ("/* ; ) ' \" */", "-- it's (\n", "/**/", "/* SELECT */", "--\n", "/* WINDOW AS ( */")


@dataclass(frozen=True, slots=True)
class DrawnStatement:
    """A statement and the streams that it reads: one, or two with the left one first.

    time: the columns of event times by stream; empty if the statement needs none
    """

    text: str
    tables: tuple[DrawnTable, ...]
    time: dict[str, str]


def draw_statement(rng: Random, tables: tuple[DrawnTable, ...] | None = None) -> DrawnStatement:
    """A statement over `tables`, by default over one or two drawn ones."""
    given = tables or draw_tables(rng, rng.choice([1, 1, 2]))
    return _Draw(rng, given).statement()


@dataclass(frozen=True, slots=True)
class _Side:
    """A side: its alias as written, its stream, and the names that only it has."""

    alias: str
    table: DrawnTable
    lone: frozenset[str]


class _Draw:
    """Draws one statement; every method returns SQL text."""

    def __init__(self, rng: Random, tables: tuple[DrawnTable, ...]) -> None:
        self.rng, self.tables = rng, tables
        names = [{f.name.lower() for f in table.fields} for table in (tables[0], tables[-1])]
        aliases = rng.choice([("l", "r")] * 6 + [("p", "q"), ('"Left One"', '"right;"'), ("L", "R")])
        self.sides = tuple(
            _Side(alias, table, frozenset(names[k] - names[1 - k]))
            for k, (alias, table) in enumerate(zip(aliases, (tables[0], tables[-1]), strict=True))
        )

    # --- the statement ------------------------------------------------------------------------------------------------

    def statement(self) -> DrawnStatement:
        rng = self.rng
        time = {t.name: t.time for t in self.tables} if len(self.tables) == 2 or rng.random() < 0.4 else {}
        interval = self.interval() if time and rng.random() < 0.08 else ""
        on, where = self.conditions()
        on = f"{interval} AND {on}" if interval else on
        window = "" if interval else f" WINDOW AS (SLIDE INTERVAL {self.window(bool(time))})"
        left, right = (
            f"{t.name if t.name.isidentifier() and rng.random() < 0.9 else quoted(t.name)}"
            f" {rng.choice(['AS ', 'AS ', ''])}{s.alias}"
            for t, s in zip((self.tables[0], self.tables[-1]), self.sides, strict=True)
        )
        text = (
            f"SELECT {', '.join(self.items())} FROM {left} {rng.choice(['', '', 'INNER '])}JOIN {right} ON {on}"
            f"{f' WHERE {where}' if where else ''}{window}{rng.choice(['', '', ';'])}"
        )
        return DrawnStatement(dressed(rng, text), self.tables, time)

    def interval(self) -> str:
        """Both bounds of the difference of event times, in place of a window."""
        rng, (one, other) = self.rng, self.sides
        left, right = (f'{side.alias}."{side.table.time}"' for side in (one, other))
        unit = rng.choice(["us", "ms", "s"])
        ends = [
            f"{left} - INTERVAL '{rng.choice([0, 1, 5])} {unit}'",
            f"{left} + INTERVAL '{rng.choice([1, 3, 9])} {unit}'",
        ]
        if rng.random() < 0.7:
            return f"{right} BETWEEN {ends[0]} AND {ends[1]}"
        return f"{right} > {ends[0]} AND {right} <= {ends[1]}"

    def window(self, has_time: bool) -> str:
        rng = self.rng
        slide = rng.choice([1, 1, 1, 2, 3, 5, 8])
        length = slide * rng.choice([2, 4, 10, 40])
        if not has_time or rng.random() < 0.5:
            return f"'{slide}' ON '{length}'"
        unit = rng.choice(["us", "ms", "s"])
        return f"'{slide} {unit}' ON '{length} {unit}'"

    def conditions(self) -> tuple[str, str]:
        """The conditions of ON and of WHERE, which may be empty."""
        rng = self.rng
        index = [self.index() for _ in range(rng.choice([1] * 6 + [2, 2, 2, 3, 4]))]
        filters = [self.truth(rng.choice(self.sides), 2) for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))]
        residuals = [self.residual() for _ in range(rng.choice([0, 0, 0, 1, 2]))]
        both = [*index, *filters, *residuals]
        rng.shuffle(both)
        cut = rng.choice([0, 0, 1, 2])
        on, where = (both[cut:], both[:cut]) if len(both) > cut else (both, [])
        return self.all_of(on), self.all_of(where) if where else ""

    def all_of(self, conditions: list[str]) -> str:
        """The conditions joined by AND, sometimes in parentheses."""
        rng = self.rng
        if len(conditions) > 2 and rng.random() < 0.2:
            return f"({self.all_of(conditions[:2])}) AND {self.all_of(conditions[2:])}"
        return " AND ".join(f"({c})" if " OR " in c or rng.random() < 0.15 else c for c in conditions)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def index(self) -> str:
        """A comparison of an expression of one side with one of the other."""
        rng, (first, second) = self.rng, self.sides
        one, other = (first, second) if rng.random() < 0.8 else (second, first)
        kind = rng.choice(["number"] * 6 + ["moment", "text", "text", "band", "between", "same"])
        if kind == "moment":
            return f"{self.moment(one, 1)} {rng.choice([*_ORDER, '=', '<>'])} {self.moment(other, 1)}"
        if kind == "text":
            return self.alike(one, other)
        if kind == "band":
            return f"{rng.choice(['ABS', 'abs'])}({self.number(one, 0)} - {self.number(other, 0)}) {self.width()}"
        if kind == "between":
            ends = [self.number(rng.choice([other, other, one]), 0) for _ in range(2)]
            return f"{self.number(one, 0)} BETWEEN {ends[0]} AND {self.number(other, 0)}"
        if kind == "same":
            found = self.same(one, other)
            if found:
                return found
        return f"{self.number(one, 1)} {rng.choice([*_ORDER, *_ORDER, '=', '=', '<>', '!='])} {self.number(other, 1)}"

    def alike(self, one: _Side, other: _Side) -> str:
        """An equality of texts, mostly of the same expression of both sides if these share columns."""
        rng, state = self.rng, self.rng.getstate()
        left = self.text(one, 1)
        if one.table is other.table and rng.random() < 0.7:
            rng.setstate(state)
        return f"{left} = {self.text(other, 1)}"

    def width(self) -> str:
        return f"{self.rng.choice(['<', '<='])} {self.rng.choice(['1', '2', '0.5', '3', '1.25'])}"

    def same(self, one: _Side, other: _Side) -> str | None:
        """An equality of two columns of a type that only equalities compare; None if there are none."""
        for kind in self.rng.sample(_EQUAL_ONLY, 4):
            columns = [side.table.of(kind) for side in (one, other)]
            if all(columns):
                fields = [self.rng.choice(found) for found in columns]
                if one.table is other.table and self.rng.random() < 0.7:
                    fields[1] = fields[0]
                names = [self.column(s, field) for s, field in zip((one, other), fields, strict=True)]
                return f"{names[0]} = {names[1]}"
        return None

    def residual(self) -> str:
        """A condition on both sides that, by its text, no index answers."""
        rng, (one, other) = self.rng, self.sides
        return rng.choice(
            [
                lambda: f"{self.truth(one, 1)} OR {self.truth(other, 1)}",
                lambda: f"NOT ({self.truth(one, 1)} AND {self.truth(other, 1)})",
                lambda: f"{self.number(one, 0)} - {self.number(other, 0)} < {rng.choice(_NUMBER_TEXTS)}",
                lambda: f"{self.number(one, 0)} * {self.number(other, 0)} >= {self.number(one, 0)}",
                lambda: f"CASE WHEN {self.truth(one, 0)} THEN {self.truth(other, 1)} ELSE {self.index()} END",
                lambda: f"{self.text(one, 0)} || {self.text(other, 0)} LIKE {rng.choice(_PATTERNS)}",
                lambda: f"{self.text(one, 0)} LIKE {self.text(other, 0)} || '%'",
                lambda: f"{self.number(one, 0)} IS DISTINCT FROM {self.number(other, 0)}",
                lambda: f"{self.index()} OR {self.index()}",
                lambda: f"NOT ({self.index()})",
                lambda: f"{self.number(one, 0)} IN ({self.number(other, 0)}, 1, NULL)",
                lambda: f"{one.alias}.seq {rng.choice([*_ORDER, '<>'])} {other.alias}.seq",
                lambda: f"{other.alias}.seq - {one.alias}.seq BETWEEN -3 AND 5",
                lambda: f"{rng.choice([one, other]).alias}.seq % 2 = {rng.choice([0, 1])}",
                lambda: f"coalesce({self.number(one, 0)}, {self.number(other, 0)}) > 0",
            ]
        )()

    def truth(self, side: _Side, depth: int) -> str:
        """A condition of one side."""
        rng = self.rng
        if depth and rng.random() < 0.35:
            parts = [self.truth(side, depth - 1) for _ in range(2)]
            word = rng.choice(["AND", "OR"])
            return rng.choice([f"({parts[0]} {word} {parts[1]})", f"NOT ({parts[0]})", f"({parts[0]}) IS NOT TRUE"])
        drawn = rng.choice(
            [
                lambda: f"{self.number(side, 1)} {rng.choice([*_ORDER, '=', '<>'])} {self.number(side, 0)}",
                lambda: f"{self.number(side, 1)} {rng.choice([*_ORDER, '=', '!='])} {rng.choice(_NUMBER_TEXTS)}",
                lambda: f"{self.any(side)} IS {rng.choice(['NOT ', ''])}NULL",
                lambda: f"{self.number(side, 0)} {rng.choice(['NOT ', ''])}IN (0, 1, 2.5, {rng.choice(_NUMBER_TEXTS)})",
                lambda: f"{self.number(side, 0)} {rng.choice(['NOT ', ''])}BETWEEN 0 AND {rng.choice(['2', '3.5'])}",
                lambda: f"{self.text(side, 1)} {rng.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} {rng.choice(_PATTERNS)}",
                lambda: f"{self.text(side, 1)} {rng.choice(['=', '<>', '<', '>='])} {rng.choice(_STRING_TEXTS)}",
                lambda: f"CASE WHEN {self.truth(side, 0)} THEN {self.truth(side, 0)} ELSE TRUE END",
                lambda: f"{self.moment(side, 1)} {rng.choice(_ORDER)} {rng.choice([*_DATE_TEXTS, *_STAMP_TEXTS])}",
                lambda: f"starts_with({self.text(side, 0)}, 'a')",
                lambda: f"{self.text(side, 0)} IN ({rng.choice(_STRING_TEXTS)}, 'a', 'b')",
                lambda: f"{self.number(side, 0)} IS NOT DISTINCT FROM {self.number(side, 0)}",
                lambda: f"isnan({self.number(side, 0)}::DOUBLE)",
            ]
        )
        booleans = side.table.of("boolean")
        return self.column(side, rng.choice(booleans)) if booleans and rng.random() < 0.2 else drawn()

    # --- expressions of one side --------------------------------------------------------------------------------------

    def column(self, side: _Side, field: Field) -> str:
        name = field.sql(self.rng)
        is_alone = field.name.lower() in side.lone and field.name.lower() not in {"l", "r", "p", "q"}
        return name if is_alone and self.rng.random() < 0.3 else f"{side.alias}.{name}"

    def any(self, side: _Side) -> str:
        return self.column(side, self.rng.choice(side.table.fields))

    def number(self, side: _Side, depth: int) -> str:
        """A number: a column, arithmetic, or a function that returns numbers."""
        rng, found = self.rng, self.rng.choice(side.table.of(*NUMBERS))
        column = self.column(side, found)
        if depth == 0 or rng.random() < 0.5:
            return column
        inner = self.number(side, depth - 1)
        return rng.choice(
            [
                lambda: f"{column} {rng.choice('+-')} {rng.choice(_NUMBER_TEXTS)}",
                lambda: f"{rng.choice(_NUMBER_TEXTS)} * {column}",
                lambda: f"{column} {rng.choice('+-*')} {inner}",
                lambda: f"abs({inner})",
                lambda: f"-{inner}",
                lambda: f"({inner}) / 2",
                lambda: f"length({self.text(side, 0)})",
                lambda: f"coalesce({inner}, 0)",
                lambda: f"nullif({inner}, 1)",
                lambda: f"greatest({inner}, 1)",
                lambda: f"CASE WHEN {self.truth(side, 0)} THEN {inner} ELSE {column} END",
                lambda: f"CAST({column} AS DOUBLE)",
                lambda: f"{column}::{rng.choice(['DOUBLE', 'DECIMAL(12,2)' if found.type in _WHOLE else 'FLOAT'])}",
                lambda: f"{rng.choice(['year', 'month', 'day', 'dayofweek'])}({self.moment(side, 0)})",
                lambda: f"date_diff('day', {self.moment(side, 0)}, DATE '2024-03-01')",
                lambda: f"round({inner})",
                lambda: f"sign({inner})",
                lambda: f"CAST({self.text(side, 0)} AS INTEGER)" if rng.random() < 0.2 else f"ceil({column})",
                lambda: f"({column}) % 2" if found.type in _WHOLE else f"floor({column})",
            ]
        )()

    def text(self, side: _Side, depth: int) -> str:
        rng, strings = self.rng, side.table.of("string")
        column = self.column(side, rng.choice(strings)) if strings else f"{self.number(side, 0)}::VARCHAR"
        if depth == 0 or rng.random() < 0.4:
            return column
        return rng.choice(
            [
                lambda: f"{rng.choice(['lower', 'UPPER', 'trim', 'reverse'])}({column})",
                lambda: f"{column} || {rng.choice(_STRING_TEXTS)}",
                lambda: f"substr({column}, 1, {rng.choice([1, 2])})",
                lambda: f"left({column}, 1)",
                lambda: f"coalesce({column}, {rng.choice(_STRING_TEXTS)})",
                lambda: f"concat({column}, {self.text(side, 0)})",
                lambda: f"replace({column}, 'a', {rng.choice(_STRING_TEXTS)})",
                lambda: f"CAST({self.number(side, 0)} AS VARCHAR)",
                lambda: f"CASE {column} WHEN 'a' THEN 'b' WHEN 'b' THEN NULL ELSE {self.text(side, 0)} END",
                lambda: f"strftime({self.moment(side, 0)}, '%Y-%m')",
            ]
        )()

    def moment(self, side: _Side, depth: int) -> str:
        """A date or timestamp."""
        rng, found = self.rng, self.rng.choice(side.table.of("date", "timestamp"))
        column = self.column(side, found)
        if depth == 0 or rng.random() < 0.5:
            return column
        return rng.choice(
            [
                lambda: f"{column} {rng.choice('+-')} {rng.choice(_SPANS)}",
                lambda: f"date_trunc('month', {column})",
                lambda: f"{column}::DATE",
                lambda: f"CAST({column} AS TIMESTAMP)",
                lambda: f"coalesce({column}, {rng.choice(_DATE_TEXTS)})",
            ]
        )()

    # --- the select list ----------------------------------------------------------------------------------------------

    def items(self) -> list[str]:
        rng, (one, other) = self.rng, self.sides
        if rng.random() < 0.15:
            return rng.choice([["*"], [f"{one.alias}.*"], [f"{one.alias}.*", f"{other.alias}.*"]])
        found = [self.item(k) for k in range(rng.randint(1, 5))]
        seqs = [f"{side.alias}.seq AS {rng.choice(['n', 'N'])}{k}" for k, side in enumerate(self.sides)]
        found += rng.sample(seqs, rng.choice([0, 1, 2]))
        found += [f"{rng.choice([one, other]).alias}.*"] * (rng.random() < 0.1)
        rng.shuffle(found)
        return found

    def item(self, number: int) -> str:
        rng, side = self.rng, self.rng.choice(self.sides)
        expression = rng.choice(
            [
                lambda: self.any(side),
                lambda: self.any(side),
                lambda: self.any(side),
                lambda: self.number(side, 2),
                lambda: self.text(side, 2),
                lambda: self.truth(side, 1),
                lambda: self.moment(side, 1),
                lambda: f"{self.number(self.sides[0], 1)} - {self.number(self.sides[1], 1)}",
                lambda: f"{self.text(self.sides[0], 0)} || ' ' || {self.text(self.sides[1], 0)}",
                lambda: f"CASE WHEN {self.truth(side, 0)} THEN {self.number(side, 0)} END",
                lambda: rng.choice([*_NUMBER_TEXTS, *_STRING_TEXTS, "TRUE"]),
            ]
        )()
        name = rng.choice([f"c{number}", f"C{number}", f'"Column {number}"', f'"ç;{number}"'])
        return f"{expression} {rng.choice(['AS', 'AS', 'as'])} {name}" if rng.random() < 0.95 else expression


def dressed(rng: Random, text: str) -> str:
    """The statement with other blanks, comments and letter case."""
    if rng.random() < 0.3:
        return text
    tokens = tokens_of(text)
    pieces = []
    noise = rng.choice([0.02, 0.1])
    for k, token in enumerate(tokens):
        gap = text[tokens[k - 1].end : token.start] if k else ""
        if gap:
            gap = rng.choice([" "] * 6 + ["  ", "\n", "\t", "\r\n"])
            gap += f"{rng.choice(_COMMENTS)} " if rng.random() < noise else ""
        word = token.text
        if token.kind == "keyword" and rng.random() < noise:
            word = rng.choice([word.lower(), word.capitalize()])
        pieces.append(gap + word)
    return "".join(pieces)
