"""A statement's text as its author wrote it: its words, its SELECTs with their clauses, and the files it names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import TokenError

from spojoin.columns.csv_options import is_csv_option
from spojoin.embedded.input_options import csv_by_name, schema_by_name
from spojoin.embedded.statements import StatementOptions
from spojoin.errors import ConfigurationError, QueryError
from spojoin.query.places import places_in
from spojoin.query.statement import alias_of

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_SETS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_HEADS = {
    TokenType.FROM: "from",
    TokenType.WHERE: "where",
    TokenType.GROUP_BY: "group",
    TokenType.HAVING: "having",
    TokenType.QUALIFY: "qualify",
    TokenType.ORDER_BY: "order",
    TokenType.LIMIT: "limit",
    TokenType.OFFSET: "offset",
    TokenType.FETCH: "fetch",
}
#: Clauses at the end of a SELECT; after a UNION, they belong to the whole UNION.
TRAILING = ("order", "limit", "offset", "fetch")
_BEFORE_JOIN = frozenset(
    ["LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "SEMI", "ANTI", "ASOF", "NATURAL", "POSITIONAL"]
)
_NO_ALIAS = _BEFORE_JOIN | frozenset(["ON", "USING", "JOIN", "MATCH_CONDITION", "TOLERANCE", "STRATEGY"])
_ORDERS = (TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NEQ, TokenType.BETWEEN)

_CSV = ("READ_CSV", "READ_CSV_AUTO")
_OTHERS = ("READ_PARQUET", "PARQUET_SCAN", "READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO")
_TYPES = ("types", "dtypes", "column_types", "columns")

#: Options by which DuckDB finds out what files hold. They are ignored: spojoin finds it out in any case.
_NEEDLESS = ("auto_detect", "sample_size", "ignore_errors", "parallel", "format", "compression", "max_line_size")
_BEFORE = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause, as the indexes of its first word and of the word after its last one."""

    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Source:
    """A source that FROM or JOIN names: its words from `first` up to `stop`, or up to `end` with its alias.

    name: the name of a stream, a table or a file; None for a subquery or a function
    is_table: whether TABLE(...) stands around it
    """

    first: int
    stop: int
    alias: str
    end: int
    name: str | None = None
    is_table: bool = False


class StatementWords:
    """The words of a text, with the parentheses around each.

    levels: for each word, the index of the innermost opening parenthesis around it, or -1
    closes: for each opening parenthesis, the index of the closing one

    Raises QueryError if a quote or a parenthesis isn't closed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tokens: list[Token] = sqlglot.tokenize(text, dialect="duckdb")
        except TokenError as error:
            raise QueryError(f"sql: {error}: expected closed quotes and comments", places_in(text)(0)) from error
        self.levels: list[int] = []
        self.closes: dict[int, int] = {}
        open_ones = [-1]
        for k, token in enumerate(self.tokens):
            if token.token_type in _CLOSING and len(open_ones) > 1:
                self.closes[open_ones.pop()] = k
            self.levels.append(open_ones[-1])
            if token.token_type in _OPENING:
                open_ones.append(k)
        if len(open_ones) > 1:
            first = self.tokens[open_ones[1]]
            raise QueryError(f"'{first.text}' isn't closed", places_in(text)(first.start))

    def kind(self, k: int) -> TokenType | None:
        """The kind of a word, or None after the last one."""
        return self.tokens[k].token_type if 0 <= k < len(self.tokens) else None

    def is_set(self, k: int) -> bool:
        """Whether a word is UNION, INTERSECT or EXCEPT, but not the EXCEPT that leaves out columns of `*`."""
        return self.kind(k) in _SETS and self.kind(k - 1) is not TokenType.STAR

    def word(self, k: int) -> str:
        """A word in upper case, empty after the last one."""
        return self.tokens[k].text.upper() if 0 <= k < len(self.tokens) else ""

    def start(self, k: int) -> int:
        """The character at which a word begins; the end of the text after the last word."""
        return self.tokens[k].start if k < len(self.tokens) else len(self.text)

    def span(self, first: int, stop: int) -> tuple[int, int]:
        """The range of characters that some words take."""
        return (self.start(first), self.tokens[stop - 1].end + 1) if first < stop else (self.start(first),) * 2

    def at(self, level: int, first: int, stop: int) -> Iterator[int]:
        """Those of some words that are at the given level of parentheses."""
        return (k for k in range(first, stop) if self.levels[k] == level)

    def around(self, k: int) -> Iterator[int]:
        """The parentheses around a word, the innermost first; the last is -1, which stands for the whole text."""
        level = self.levels[k]
        while level >= 0:
            yield level
            level = self.levels[level]
        yield -1

    def closing(self, level: int) -> int:
        """The word that ends a level."""
        return self.closes[level] if level >= 0 else len(self.tokens)


class Select:
    """One SELECT of a text, with its clauses and sources. first: the word SELECT; stop: the word after its last one.

    core: the word after its last clause, not counting those in TRAILING, which may belong to a UNION
    """

    def __init__(self, words: StatementWords, first: int) -> None:
        self.words, self.first, self.level = words, first, words.levels[first]
        self.stop, self.is_in_set = self._end()
        self.clauses = self._clauses()
        self.sources: list[Source] = []
        self.boundaries: list[int] = []
        if "from" in self.clauses:
            self._read_sources(self.clauses["from"])

    @property
    def listed(self) -> Clause:
        """The select list, including DISTINCT."""
        return Clause(self.first + 1, min([each.first for each in self.clauses.values()], default=self.stop))

    def text_of(self, *names: str) -> str:
        """The text of the given clauses, as far as the SELECT has them."""
        found = [self.words.span(each.first, each.stop) for name in names if (each := self.clauses.get(name))]
        return " ".join(self.words.text[a:b] for a, b in found)

    def exists(self) -> Select | None:
        """The SELECT of the only EXISTS (SELECT ...) among the conditions that AND joins in WHERE."""
        where, words = self.clauses.get("where"), self.words
        if where is None:
            return None
        at = list(words.at(self.level, where.first, where.stop - 2))
        found = [k for k in at if words.word(k) == "EXISTS" and words.kind(k + 2) is TokenType.SELECT]
        is_either = any(words.kind(k) is TokenType.OR for k in at)
        return Select(words, found[0] + 2) if len(found) == 1 and not is_either else None

    def joins_by_order(self) -> bool:
        """Whether two sides are joined by more than equalities, so that the join isn't left to DuckDB."""
        inner = self.exists() if len(self.sources) == 1 else None
        if len(self.sources) < 2 and inner is None:
            return False
        if {"window", "emit"} & self.clauses.keys() or any(each.is_table for each in (inner or self).sources[:2]):
            return True
        if inner is not None:
            return "where" in inner.clauses and self._orders(inner.clauses["where"])
        join = Clause(self.boundaries[0], self.boundaries[1] if len(self.boundaries) > 1 else self.clauses["from"].stop)
        if any(self.words.word(k) in ("ASOF", "MATCH_CONDITION") for k in range(join.first, join.stop)):
            return True
        if any(self.words.kind(k) is TokenType.SELECT for k in range(self.sources[1].end, join.stop)):
            return False
        return self._orders(join) or ("where" in self.clauses and self._orders(self.clauses["where"]))

    def _orders(self, clause: Clause) -> bool:
        """Whether a clause has comparisons other than equality, subqueries not counted."""
        words = self.words
        within = [k for k in range(clause.first, clause.stop) if words.kind(k) is TokenType.SELECT]
        inside = {words.levels[k] for k in within}
        return any(
            words.kind(k) in _ORDERS or words.word(k) == "ABS"
            for k in range(clause.first, clause.stop)
            if not inside & set(words.around(k))
        )

    def _end(self) -> tuple[int, bool]:
        """Where the SELECT ends, and whether it is a part of a UNION or the like."""
        words, last = self.words, self.words.closing(self.level)
        at = words.at(self.level, self.first, last)
        stop = next((k for k in at if words.kind(k) is TokenType.SEMICOLON or words.is_set(k)), last)
        before = [k for k in words.at(self.level, 0, self.first) if k > self.level]
        is_behind = any(words.is_set(k) for k in before[-4:] if k >= self.first - 4)
        return stop, is_behind or words.is_set(stop)

    def _clauses(self) -> dict[str, Clause]:
        words = self.words
        heads: dict[str, int] = {}
        for k in words.at(self.level, self.first + 1, self.stop):
            name = self._head(k)
            if name is not None:
                heads.setdefault(name, k)
        starts = sorted(heads.items(), key=lambda each: each[1])
        ends = [*(k for _, k in starts), self.stop]
        found = {name: Clause(k, stop) for (name, k), stop in zip(starts, ends[1:], strict=True)}
        if self.is_in_set:
            trailing = [found.pop(name).first for name in TRAILING if name in found]
            self.stop = min([self.stop, *trailing])
        return found

    def _head(self, k: int) -> str | None:
        """The name of the clause that begins at a word, or None."""
        words = self.words
        kind, before = words.kind(k), words.kind(k - 1)
        if kind is TokenType.FROM and before is TokenType.DISTINCT:
            return None
        if before is TokenType.DOT:
            return None
        if kind is TokenType.WINDOW:
            return "window" if words.kind(k + 1) is TokenType.ALIAS else "windows"
        if words.word(k) == "EMIT" and before not in (TokenType.ALIAS, TokenType.COMMA, TokenType.SELECT):
            return "emit"
        return _HEADS.get(kind) if kind is not None else None

    def _read_sources(self, clause: Clause) -> None:
        words, starts = self.words, [(clause.first + 1, clause.first + 1)]
        for k in words.at(self.level, clause.first + 1, clause.stop):
            if words.kind(k) is TokenType.COMMA:
                starts.append((k, k + 1))
            elif words.kind(k) is TokenType.JOIN:
                begin = k
                while words.word(begin - 1) in _BEFORE_JOIN:
                    begin -= 1
                starts.append((begin, k + 1))
        self.boundaries = [begin for begin, _ in starts[1:]]
        self.sources = [self._source(k, clause.stop) for _, k in starts if k < clause.stop]

    def _source(self, k: int, stop: int) -> Source:
        words, name, is_table, end = self.words, None, False, k + 1
        if words.kind(k) is TokenType.L_PAREN:
            end = words.closing(k) + 1
        elif words.kind(k + 1) is TokenType.L_PAREN and words.word(k) != "AS":
            close = words.closing(k + 1)
            is_table = words.word(k) == "TABLE"
            name, end = words.tokens[k + 2].text if is_table and close == k + 3 else None, close + 1
        else:
            name = words.tokens[k].text
            while words.kind(end) is TokenType.DOT:
                name, end = None, end + 2
        alias, after = self._alias(end, stop)
        return Source(k, end, alias or alias_of(name or ""), after, name, is_table)

    def _alias(self, k: int, stop: int) -> tuple[str, int]:
        """The alias at a word, and the index of the word after the alias and its column names."""
        words = self.words
        is_said = words.kind(k) is TokenType.ALIAS
        k += is_said
        is_name = words.kind(k) in (TokenType.VAR, TokenType.IDENTIFIER) and words.word(k) not in _NO_ALIAS
        if k >= stop or not (is_said or is_name):
            return "", k
        named = words.tokens[k].text
        return named, words.closing(k + 1) + 1 if words.kind(k + 1) is TokenType.L_PAREN else k + 1


def selects(words: StatementWords) -> list[Select]:
    """All SELECTs of a text in the order of their ends, so that inner ones come before outer ones."""
    found = [Select(words, k) for k in range(len(words.tokens)) if words.kind(k) is TokenType.SELECT]
    return sorted(found, key=lambda each: (each.stop, -each.first))


def quoted(name: str) -> str:
    """A name in the double quotes of SQL, so that it may hold any character."""
    return exp.to_identifier(name, quoted=True).sql()


@dataclass(frozen=True, slots=True)
class _FileCall:
    """A call, as the indexes of the function's name and of the word after the closing parenthesis."""

    first: int
    stop: int
    path: str
    options: Mapping[str, object]


def with_files_of_calls(words: StatementWords, options: StatementOptions) -> tuple[StatementWords, StatementOptions]:
    """Replace calls that read files by the files' paths, and add their arguments to the options. Raises QueryError."""
    sql = words.text
    schemas, csv = dict(options.schemas), dict(options.csv)
    for call in _file_calls(words):
        start, end = words.span(call.first, call.stop)
        try:
            types = {name: each for name, each in call.options.items() if name in _TYPES}
            form = {name: each for name, each in call.options.items() if name not in types}
            for each in types.values():
                schemas[call.path] = schema_by_name({call.path: each})[call.path]  # type: ignore[dict-item]
            if form:
                csv[call.path] = csv_by_name({call.path: form})[call.path]
        except ConfigurationError as error:
            raise QueryError(str(error), places_in(words.text)(start)) from error
        quoted = "'" + call.path.replace("'", "''") + "'"
        rest = "".join(each if each in "\r\n" else " " for each in sql[start + len(quoted) : end])
        sql = sql[:start] + quoted + rest + sql[end:]
    is_changed = sql != words.text
    return (StatementWords(sql), replace(options, schemas=schemas, csv=csv)) if is_changed else (words, options)


def _file_calls(words: StatementWords) -> Iterator[_FileCall]:
    for k in range(len(words.tokens)):
        name = words.word(k)
        if name not in (*_CSV, *_OTHERS) or words.kind(k + 1) is not TokenType.L_PAREN:
            continue
        if words.kind(k - 1) in _BEFORE and k + 1 in words.closes:
            yield _read_call(words, k, words.closes[k + 1], is_csv=name in _CSV)


def _read_call(words: StatementWords, k: int, close: int, *, is_csv: bool) -> _FileCall:
    commas = [j for j in words.at(k + 1, k + 2, close) if words.kind(j) is TokenType.COMMA]
    firsts = [k + 2, *(each + 1 for each in commas)]
    parts = list(zip(firsts, [*commas, close], strict=True))
    place = places_in(words.text)(words.start(k))
    paths = _value(words, *parts[0])
    path = paths[0] if isinstance(paths, list) and len(paths) == 1 else paths
    if not isinstance(path, str):
        raise QueryError(f"{words.word(k).lower()}: expected one path in quotes, or a pattern such as 'q-*.csv'", place)
    found: dict[str, object] = {}
    for first, stop in parts[1:]:
        name = words.word(first).lower()
        if name in _NEEDLESS:
            continue
        if name not in _TYPES and not (is_csv and is_csv_option(name)):
            raise QueryError(f"{words.word(k).lower()}: '{name}' isn't taken here: expected the path alone"
                             + (", or options of how CSV is written" if is_csv else ""), place)  # fmt: skip
        found[name] = _value(words, first + 2, stop)
    return _FileCall(k, close + 1, path, found)


def _value(words: StatementWords, first: int, stop: int) -> object:
    """The value of an argument: a text, also for a number or a truth value, or a list or a struct of texts."""
    if stop - first == 1:
        return words.tokens[first].text
    try:
        return ast.literal_eval(words.text[slice(*words.span(first, stop))])
    except (ValueError, SyntaxError):
        return None
