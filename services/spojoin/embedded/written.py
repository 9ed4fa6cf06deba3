"""A statement's text as its author wrote it: its words, which SELECT each stands in, and the clauses of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import TokenError

from spojoin.errors import QueryError
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
#: Clauses that come behind what a SELECT gives: of a UNION, they are those of the whole.
TRAILING = ("order", "limit", "offset", "fetch")
_BEFORE_JOIN = frozenset(
    ["LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "SEMI", "ANTI", "ASOF", "NATURAL", "POSITIONAL"]
)
_NO_ALIAS = _BEFORE_JOIN | frozenset(["ON", "USING", "JOIN", "MATCH_CONDITION", "TOLERANCE", "STRATEGY"])
_ORDERS = (TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE, TokenType.NEQ, TokenType.BETWEEN)


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause by its words: the first of them, and the one behind the last."""

    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Source:
    """What FROM or JOIN names: its words from `first` up to `stop`, with its alias up to `end`.

    name: of a stream, a table or a file; None of a subquery or a function
    is_table: whether TABLE(...) stands around it
    """

    first: int
    stop: int
    alias: str
    end: int
    name: str | None = None
    is_table: bool = False


class Written:
    """The words of a text, with the parentheses that each stands in.

    levels: for each word the word of the innermost parenthesis around it, -1 where none is
    closes: for each opening parenthesis the one that closes it

    Raises QueryError where a quote or a parenthesis isn't closed.
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
        """The kind of a word, None behind the last."""
        return self.tokens[k].token_type if 0 <= k < len(self.tokens) else None

    def is_set(self, k: int) -> bool:
        """Whether a word is UNION, INTERSECT or EXCEPT, which also leaves out columns of `*`."""
        return self.kind(k) in _SETS and self.kind(k - 1) is not TokenType.STAR

    def word(self, k: int) -> str:
        """A word in upper case, empty behind the last."""
        return self.tokens[k].text.upper() if 0 <= k < len(self.tokens) else ""

    def start(self, k: int) -> int:
        """The character at which a word begins; the text's end behind the last one."""
        return self.tokens[k].start if k < len(self.tokens) else len(self.text)

    def span(self, first: int, stop: int) -> tuple[int, int]:
        """The characters of some words."""
        return (self.start(first), self.tokens[stop - 1].end + 1) if first < stop else (self.start(first),) * 2

    def at(self, level: int, first: int, stop: int) -> Iterator[int]:
        """The words of a level among some."""
        return (k for k in range(first, stop) if self.levels[k] == level)

    def around(self, k: int) -> Iterator[int]:
        """The parentheses around a word, the innermost first; -1, the whole text, last."""
        level = self.levels[k]
        while level >= 0:
            yield level
            level = self.levels[level]
        yield -1

    def closing(self, level: int) -> int:
        """The word that ends a level."""
        return self.closes[level] if level >= 0 else len(self.tokens)


class Select:
    """One SELECT of a text: its clauses and sources. first: the word SELECT; stop: the one behind its last.

    core: the word behind its last clause but those in TRAILING, which may be a UNION's
    """

    def __init__(self, words: Written, first: int) -> None:
        self.words, self.first, self.level = words, first, words.levels[first]
        self.stop, self.is_in_set = self._end()
        self.clauses = self._clauses()
        self.sources: list[Source] = []
        self.boundaries: list[int] = []
        if "from" in self.clauses:
            self._read_sources(self.clauses["from"])

    @property
    def listed(self) -> Clause:
        """The select list, DISTINCT and all."""
        return Clause(self.first + 1, min([each.first for each in self.clauses.values()], default=self.stop))

    def text_of(self, *names: str) -> str:
        """Some clauses as written, those that there are."""
        found = [self.words.span(each.first, each.stop) for name in names if (each := self.clauses.get(name))]
        return " ".join(self.words.text[a:b] for a, b in found)

    def exists(self) -> Select | None:
        """The SELECT of the only EXISTS (SELECT ...) that AND joins to the rest of WHERE."""
        where, words = self.clauses.get("where"), self.words
        if where is None:
            return None
        at = list(words.at(self.level, where.first, where.stop - 2))
        found = [k for k in at if words.word(k) == "EXISTS" and words.kind(k + 2) is TokenType.SELECT]
        is_either = any(words.kind(k) is TokenType.OR for k in at)
        return Select(words, found[0] + 2) if len(found) == 1 and not is_either else None

    def joins_by_order(self) -> bool:
        """Whether two sides are joined by more than equalities, so that the join is no plain one of DuckDB."""
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
        """Whether anything is compared by more than equality, but within subqueries."""
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
        """The clause that begins at a word."""
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
        """The alias that stands at a word, and the word behind it and its columns' names."""
        words = self.words
        is_said = words.kind(k) is TokenType.ALIAS
        k += is_said
        is_name = words.kind(k) in (TokenType.VAR, TokenType.IDENTIFIER) and words.word(k) not in _NO_ALIAS
        if k >= stop or not (is_said or is_name):
            return "", k
        named = words.tokens[k].text
        return named, words.closing(k + 1) + 1 if words.kind(k + 1) is TokenType.L_PAREN else k + 1


def selects(words: Written) -> list[Select]:
    """All SELECTs of a text in the order of their ends, so that inner ones come before those around them."""
    found = [Select(words, k) for k in range(len(words.tokens)) if words.kind(k) is TokenType.SELECT]
    return sorted(found, key=lambda each: (each.stop, -each.first))


def quoted(name: str) -> str:
    """A name as SQL writes one that may hold anything."""
    return exp.to_identifier(name, quoted=True).sql()
