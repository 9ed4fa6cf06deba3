"""Divides a statement that contains joins: spojoin runs the joins, and DuckDB runs the SQL around them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from spojoin.embedded.arrow_rows import ArrowRows, FileRows, GivenTable
from spojoin.embedded.file_content import COMPRESSED_SUFFIXES
from spojoin.embedded.readers import ARROW_SUFFIXES, CSV_DELIMITERS, JSON_SUFFIXES, PARQUET_SUFFIXES
from spojoin.embedded.run import JoinRows
from spojoin.embedded.statement_text import (
    TRAILING,
    Select,
    Source,
    StatementWords,
    quoted,
    selects,
    with_files_of_calls,
)
from spojoin.embedded.statements import NAME, BareStatement, StatementOptions, bare_statement, mistakes_of_statement
from spojoin.errors import Place, QueryError
from spojoin.query.dialects import check_foreign_words, correcting_dialects, first_foreign_word
from spojoin.query.places import correcting, places_in
from spojoin.suggest import unknown

if TYPE_CHECKING:
    from spojoin.embedded.splitting import Split, Splitter

_T = TypeVar("_T")
_ENDINGS = {*CSV_DELIMITERS, *JSON_SUFFIXES, *PARQUET_SUFFIXES, *ARROW_SUFFIXES, *COMPRESSED_SUFFIXES}
_FIRST = (TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.PIVOT, TokenType.UNPIVOT)


@dataclass(frozen=True, slots=True)
class DividedStatement:
    """A statement, divided into joins and the SQL around them.

    sql: the part that DuckDB runs; relations: the joins, files and tables that `sql` names
    joins: the joins that spojoin runs, by the names of their relations; an outer join comes after its inner joins
    is_alone: whether the last join's rows are the statement's rows; text: the statement as written
    """

    sql: str
    relations: Mapping[str, ArrowRows]
    joins: Mapping[str, BareStatement]
    threads: int | None = None
    is_alone: bool = False
    text: str = ""

    @property
    def files(self) -> list[Path]:
        """The files that DuckDB reads."""
        return [each.path for each in self.relations.values() if isinstance(each, FileRows)]

    @property
    def join(self) -> BareStatement | None:
        """The last join, or None if DuckDB runs the whole statement."""
        return list(self.joins.values())[-1] if self.joins else None

    def rows(self, join: ArrowRows | None = None) -> ArrowRows:
        """The statement's rows. join: rows to use instead of the last join's."""
        if self.is_alone:
            return join or self.relations[list(self.joins)[-1]]
        from spojoin.embedded.duckdb_rows import DuckdbRows  # noqa: PLC0415  (few statements need the engine)

        relations = dict(self.relations)
        if join is not None:
            last = list(self.joins)[-1]
            relations[last] = _FirstReading(join, relations[last])
        with correcting_dialects(self.text):
            return DuckdbRows(self.sql, relations, self.threads)


class _FirstReading(ArrowRows):
    """Gives the rows of `first` when read for the first time, and the rows of `further` afterwards."""

    def __init__(self, first: ArrowRows, further: ArrowRows) -> None:
        super().__init__(first.schema, [first])
        self._readings = chain([first], repeat(further))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        rows = next(self._readings)
        try:
            yield from rows
        finally:
            self.report = rows.report


def divide_statement(
    sql: str, tables: Mapping[str, object], options: StatementOptions, threads: int | None = None
) -> DividedStatement:
    """Divide a statement into joins and the SQL around them. Raises ConfigurationError if the statement is wrong.

    tables: the given tables by name; threads: how many threads each join uses, and DuckDB
    """
    with mistakes_of_statement(), correcting_dialects(sql):
        return _around(sql, tables, options, threads)


def _around(sql: str, tables: Mapping[str, object], options: StatementOptions, threads: int | None) -> DividedStatement:
    check_foreign_words(sql, places_in(sql))
    words, options = with_files_of_calls(StatementWords(sql), options)
    stop = _one_statement(words)
    _check_quotes(words)
    taken = _Divider(words, tables, options, threads)
    if words.kind(0) not in _FIRST or taken.is_plain:
        found = bare_statement(words.text, tables, options)
        return DividedStatement("", {NAME: JoinRows(found, threads)}, {NAME: found}, threads, is_alone=True)
    return taken.divide(stop)


def _one_statement(words: StatementWords) -> int:
    """The index of the word after the statement. Raises QueryError if another statement follows."""
    ends = [k for k in range(len(words.tokens)) if words.kind(k) is TokenType.SEMICOLON]
    for k in range(ends[0], len(words.tokens)) if ends else ():
        if words.kind(k) is not TokenType.SEMICOLON:
            raise QueryError(
                f"a second statement begins with '{words.tokens[k].text}': expected one",
                places_in(words.text)(words.start(k)),
            )
    return ends[0] if ends else len(words.tokens)


def _check_quotes(words: StatementWords) -> None:
    """Raise QueryError if FROM or JOIN names a file without quotes."""
    found = [each for select in selects(words) for each in select.sources if _is_unquoted_file(words, each)]
    if not found:
        return
    spans = [words.span(each.first, each.stop) for each in found]
    text = words.text
    for start, end in sorted(set(spans), reverse=True):
        text = f"{text[:start]}'{text[start:end]}'{text[end:]}"
    start, end = spans[0]
    raise QueryError(
        f"{words.text[start:end]} names a file: expected its path in quotes", places_in(words.text)(start), instead=text
    )


def _is_unquoted_file(words: StatementWords, source: Source) -> bool:
    start, end = words.span(source.first, source.stop)
    is_path = words.kind(source.first + 1) is TokenType.DOT and words.kind(source.first) is TokenType.VAR
    return is_path and Path(words.text[start:end].lower()).suffix in _ENDINGS


@dataclass(frozen=True, slots=True)
class _WithQuery:
    """A query of WITH. first, stop: the range of its words; level: the parentheses around it."""

    name: str
    first: int
    stop: int
    level: int
    is_recursive: bool


@dataclass(slots=True)
class _InnerText:
    """A statement for spojoin, assembled from pieces of the author's text; it maps places back to that text."""

    words: StatementWords
    text: str = ""
    pieces: list[tuple[int, int]] = field(default_factory=list)

    def add(self, text: str, origin: int | None = None) -> None:
        if origin is not None:
            self.pieces.append((len(self.text), origin))
        self.text += text

    def place_of(self, character: int) -> Place:
        """The place in the author's text that a character of this text comes from."""
        known = [(start, origin) for start, origin in self.pieces if start <= character] or self.pieces[:1]
        start, origin = known[-1]
        return places_in(self.words.text)(origin + max(character - start, 0))


class _Divider:
    """Divides one statement. edits: for each edit, by its first character, its end and the new text."""

    def __init__(
        self, words: StatementWords, tables: Mapping[str, object], options: StatementOptions, threads: int | None = None
    ) -> None:
        self._words, self._tables, self._options, self._threads = words, tables, options, threads
        self._selects = selects(words)
        self._named = list(_with_queries(words))
        self._edits: dict[int, tuple[int, str]] = {}
        self._joins: dict[str, BareStatement] = {}
        self._known: dict[str, ArrowRows] = {}
        self._used: set[str] = set()

    @property
    def is_plain(self) -> bool:
        """Whether spojoin alone handles the statement: it runs it as written, or reports the mistake in it."""
        if self._named or self._words.kind(0) is not TokenType.SELECT:
            return False
        root = next(each for each in self._selects if each.first == 0)
        exists = root.exists() if len(root.sources) == 1 else None
        if root.is_in_set or len(self._selects) != (1 if exists is None else 2):
            return False
        sides = [*root.sources, *(exists.sources if exists else ())]
        if len(sides) != 2:
            return not sides or (len(sides) == 1 and bool({"window", "emit"} & root.clauses.keys()))
        if any(each.name is None for each in sides) or any(name in root.clauses for name in TRAILING):
            return False
        is_distinct = self._words.kind(1) is TokenType.DISTINCT
        return not is_distinct and self._splitter(root, sides, "").keeps_all

    def divide(self, stop: int) -> DividedStatement:
        """Divide the statement; `stop` is the index of the word after it."""
        is_alone = False
        for select in self._selects:
            if select.joins_by_order():
                outer = self._replace_join(select)
                is_last = select.level == -1 and not select.is_in_set
                is_alone = is_last and outer == f"SELECT * FROM {list(self._joins)[-1]}"
        sql = self._text(0, stop)
        relations = self._known if is_alone else self._relations(sql)
        self._check_used()
        return DividedStatement(sql, relations, self._joins, self._threads, is_alone, self._words.text)

    def _replace_join(self, select: Select) -> str:
        """Replace a SELECT that has a join with SQL over the relation of the join's rows, and return this SQL."""
        inner = select.exists() if len(select.sources) == 1 else None
        sides = [*select.sources[:1], *inner.sources[:1]] if inner else select.sources[:2]
        tables, edits = self._side_tables(select, sides)
        relation = f"join_{len(self._joins) + 1}"
        splitter = self._splitter(select, sides, relation)
        splitter.counts = self._options.limit is None
        splitter.ask = lambda split: self._bare_statement(select, split, tables, edits).query.results.select
        split = splitter.split()
        found = self._bare_statement(select, split, tables, edits)
        self._joins[relation] = found
        self._known[relation] = JoinRows(found, self._threads)
        start, end = self._words.span(select.first, select.stop)
        self._edits[start] = end, split.outer
        return split.outer

    def _splitter(self, select: Select, sides: Sequence[Source], relation: str) -> Splitter:
        from spojoin.embedded.splitting import Splitter  # noqa: PLC0415  (few statements are taken apart)

        return Splitter(select, sides, relation, self._text)

    def _bare_statement(
        self, select: Select, split: Split, tables: Mapping[str, object], edits: Mapping[int, tuple[int, str]]
    ) -> BareStatement:
        """A SELECT's join as a statement of its own."""
        words, made = self._words, _InnerText(self._words)
        made.add("SELECT ", words.start(select.first))
        made.add(split.listed)
        for name in ("from", "where", *split.clauses, "window", "emit"):
            clause = select.clauses.get(name)
            if clause is None:
                continue
            made.add(" ")
            if name == "where" and split.where is not None:
                made.add(split.where, words.start(clause.first))
                continue
            is_cut = name == "from" and len(select.sources) > 2
            start, end = words.span(clause.first, select.boundaries[1] if is_cut else clause.stop)
            for begin, stop, text in _pieces(words.text, start, end, edits):
                made.add(words.text[begin:stop] if text is None else text, begin)
        made.add(f" {split.group}".rstrip())
        try:
            return bare_statement(made.text, tables, self._options_of(select), made.place_of)
        except QueryError as error:
            if error.instead is None:
                raise
            raise _with_instead(error, self._corrected(select, split, error.instead, edits)) from error

    def _corrected(self, select: Select, split: Split, instead: str, edits: Mapping[int, tuple[int, str]]) -> str:
        """The author's whole statement, with the corrected join `instead` in its place."""
        words, right = self._words, Select(StatementWords(instead), 0)
        taken = ("from", "where", "window", "emit", *split.clauses)
        parts = [words.text[slice(*words.span(select.first, select.listed.stop))], right.text_of("from")]
        if len(select.sources) > 2:
            parts.append(words.text[slice(*words.span(select.boundaries[1], select.clauses["from"].stop))])
        is_parted = split.where is not None and len(split.where) < len(select.text_of("where"))
        parts.append((select if is_parted else right).text_of("where"))
        parts.append(right.text_of("window", "emit", *split.clauses))
        parts += [select.text_of(name) for name in select.clauses if name not in taken]
        whole = " ".join(filter(None, parts))
        for start, (end, new) in edits.items():
            whole = whole.replace(new, words.text[start:end])
        start, end = words.span(select.first, select.stop)
        return words.text[:start] + whole + words.text[end:]

    def _options_of(self, select: Select) -> StatementOptions:
        """The options that apply to this join: those that name one of its sides, and those that name no input."""
        inner = select.exists()
        names = {each.name or each.alias for each in [*select.sources, *(inner.sources if inner else ())]}
        lower = {name.lower() for name in names} | {""}
        options = self._options
        return replace(
            options,
            times=_options_of_names(options.times, lower),
            schemas=_options_of_names(options.schemas, lower),
            csv=_options_of_names(options.csv, lower),
        )

    def _side_tables(
        self, select: Select, sides: Sequence[Source]
    ) -> tuple[dict[str, object], dict[int, tuple[int, str]]]:
        """The tables of a join's sides by name, and the edits that replace subqueries with these names."""
        tables: dict[str, object] = {}
        edits: dict[int, tuple[int, str]] = {}
        for side in sides:
            named = self._visible(select, side.name) if side.name is not None else None
            if named is not None:
                tables.setdefault(named.name, self._derived(select, f"SELECT * FROM {quoted(named.name)}"))
            elif side.name is None:
                name = side.alias or f"side_{side.first}"
                name = name if name.lower() not in map(str.lower, self._tables) else f"{name}_{side.first}"
                start, end = self._words.span(side.first, side.end)
                marked = f"TABLE({quoted(name)})" if self._is_table(side) else quoted(name)
                edits[start] = end, f"{marked} AS {quoted(side.alias or name)}"
                tables[name] = self._derived(select, self._derived_sql(side))
            elif (given := _known_name(side.name, self._tables)) is not None:
                tables[given] = self._tables[given]
                self._used.add(given)
        return tables, edits

    def _is_table(self, side: Source) -> bool:
        return self._words.word(side.first) == "TABLE"

    def _derived_sql(self, side: Source) -> str:
        if self._is_table(side):
            return self._text(side.first + 2, side.stop - 1)
        return f"SELECT * FROM {self._text(side.first, side.end)}"

    def _derived(self, select: Select, sql: str) -> ArrowRows:
        """The rows of a side that is a subquery; DuckDB computes them."""
        visible = [each for each in self._named if self._sees(select, each)]
        wanted = _with_queries_named(sql, {each.name: self._text(each.first, each.stop) for each in visible})
        named = [each for each in visible if each.name in wanted]
        if named:
            recursive = "RECURSIVE " if any(each.is_recursive for each in named) else ""
            sql = f"WITH {recursive}{', '.join(self._text(each.first, each.stop) for each in named)} {sql}"
        return DividedStatement(sql, self._relations(sql), {}, self._threads).rows()

    def _visible(self, select: Select, name: str) -> _WithQuery | None:
        """The query of WITH that a name refers to within a SELECT, or None."""
        found = [each for each in self._named if each.name.lower() == name.lower() and self._sees(select, each)]
        return found[-1] if found else None

    def _sees(self, select: Select, named: _WithQuery) -> bool:
        return named.stop <= select.first and named.level in self._words.around(select.first)

    def _relations(self, sql: str) -> dict[str, ArrowRows]:
        """The rows of each relation that `sql` names: joins, given tables and files."""
        return {name: self._relation(name) for name in _relations_named(sql)}

    def _relation(self, name: str) -> ArrowRows:
        if name in self._known:
            return self._known[name]
        given = _known_name(name, self._tables)
        source = self._tables[given] if given is not None else None
        if given is not None:
            self._used.add(given)
        if given is not None and not isinstance(source, str | Path):
            found: ArrowRows = GivenTable(source)
        elif given is not None or name == "-" or "." in name or "/" in name:
            found = FileRows(Path(str(source or name)), self._options.schemas, self._options.csv)
        else:
            known = unknown("table", name, self._tables) if self._tables else f"'{name}' is no file"
            raise QueryError(f"sql: {known}: expected its path in quotes, such as FROM '{name}.csv'")
        self._known[name] = found
        return found

    def _check_used(self) -> None:
        unused = [name for name in self._tables if name not in self._used]
        known = [each.name for select in self._selects for each in select.sources if each.name is not None]
        for given in (*self._options.schemas, *self._options.csv):
            if given and given not in known:
                raise QueryError(unknown("stream or file", given, dict.fromkeys(known)))
        if unused:
            raise QueryError(
                f"table {unused[0]!r} isn't used by the statement: name it in FROM or JOIN, or don't give it"
            )

    def _text(self, first: int, stop: int) -> str:
        """The text of some words, edited."""
        start, end = self._words.span(first, stop)
        return "".join(
            self._words.text[begin:until] if text is None else text
            for begin, until, text in _pieces(self._words.text, start, end, self._edits)
        )


def _options_of_names(options: Mapping[str, _T], lower: Collection[str]) -> dict[str, _T]:
    """The options of the inputs with these names; `lower` holds the names in lower case."""
    return {name: each for name, each in options.items() if name.lower() in lower}


def _with_instead(error: QueryError, instead: str) -> QueryError:
    """The error, with `instead` as the statement that it proposes."""
    found = QueryError(str(error).removesuffix(f"; write: {error.instead}"), instead=instead)
    found.line, found.column = error.line, error.column
    return found


def _pieces(
    text: str, start: int, end: int, edits: Mapping[int, tuple[int, str]]
) -> Iterator[tuple[int, int, str | None]]:
    """Yield the pieces of text[start:end] with their new texts, None if unchanged. Edits within edits are ignored."""
    at = start
    while at < end:
        begin = min((each for each in edits if at <= each < end), default=end)
        if at < begin:
            yield at, begin, None
        if begin < end:
            at, new = edits[begin]
            yield begin, at, new
        else:
            at = end


def _with_queries(words: StatementWords) -> Iterator[_WithQuery]:
    for k in range(len(words.tokens)):
        if words.kind(k) is not TokenType.WITH:
            continue
        is_recursive = words.word(k + 1) == "RECURSIVE"
        at = k + 1 + is_recursive
        while at + 1 < len(words.tokens):
            body = at + 1
            while body < len(words.tokens) and not (
                words.kind(body) is TokenType.L_PAREN and words.word(body - 1) in ("AS", "MATERIALIZED")
            ):
                body = words.closes.get(body, body) + 1
            if body not in words.closes:
                break
            stop = words.closes[body] + 1
            yield _WithQuery(words.tokens[at].text, at, stop, words.levels[k], is_recursive)
            if words.kind(stop) is not TokenType.COMMA:
                break
            at = stop + 1


def _with_queries_named(sql: str, queries: Mapping[str, str]) -> set[str]:
    """The names of the WITH queries that `sql` uses, directly or through other WITH queries."""
    found: set[str] = set()
    waiting = [sql]
    while waiting:
        named = {token.text.lower() for token in StatementWords(waiting.pop()).tokens}
        for name, text in queries.items():
            if name.lower() in named and name not in found:
                found.add(name)
                waiting.append(text)
    return found


def _relations_named(sql: str) -> list[str]:
    """The relations that `sql` names, except for the queries of WITH."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError as error:
        if (found := first_foreign_word(sql, None)) is not None:
            with correcting(sql):
                raise found from error
        near = getattr(error, "errors", None) or [{}]
        where = f" near '{near[0]['highlight']}'" if near[0].get("highlight") else ""
        raise QueryError(f"sql can't be read{where}: expected SQL of DuckDB") from error
    named = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    tables = [each for each in tree.find_all(exp.Table) if isinstance(each.this, exp.Identifier)]
    return list(dict.fromkeys(each.name for each in tables if each.name.lower() not in named))


def _known_name(name: str, known: Mapping[str, object]) -> str | None:
    alike = [each for each in known if each.lower() == name.lower()]
    return name if name in alike else alike[0] if len(alike) == 1 else None
