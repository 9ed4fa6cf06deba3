"""Finds the names of a join's columns in the SQL around it, and replaces them by columns of the join's relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from spojoin.embedded.statement_text import Select, StatementWords, quoted
from spojoin.errors import QueryError
from spojoin.suggest import listed

#: Clauses in which a name of the select list takes precedence over a column's.
_LISTED_FIRST = ("order",)
_BEFORE = {"list": "SELECT ", "join": "SELECT 1 FROM t "}


@dataclass(frozen=True, slots=True)
class Bare:
    """A name without a side: its position in the text, and whether it is quoted."""

    start: int
    end: int
    name: str
    is_quoted: bool


def bare_names(text: str, clause: str) -> list[Bare]:
    """The columns that a clause names without a side, not in subqueries. clause: its name in `Select.clauses`."""
    tree = parsed(text, clause)
    before = len(_BEFORE.get(clause, "SELECT 1 "))
    if tree is None:
        return []
    found = [each for each in tree.find_all(exp.Column) if not each.table and isinstance(each.this, exp.Identifier)]
    return [
        Bare(each.this.meta["start"] - before, each.this.meta["end"] - before, each.name, bool(each.this.quoted))
        for each in found
        if "start" in each.this.meta and each.find_ancestor(exp.Select) is tree
    ]


def parsed(text: str, clause: str) -> exp.Select | None:
    """A clause as a tree; None if only DuckDB can read it."""
    try:
        tree = sqlglot.parse_one(_BEFORE.get(clause, "SELECT 1 ") + text, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return None
    return tree if isinstance(tree, exp.Select) else None


def listed_items(text: str) -> list[str]:
    """The parts of a list that commas separate."""
    words = StatementWords(text)
    commas = [words.start(k) for k in words.at(-1, 0, len(words.tokens)) if words.kind(k) is TokenType.COMMA]
    return [text[a:b].strip() for a, b in zip([0, *[each + 1 for each in commas]], [*commas, len(text)], strict=True)]


@dataclass(slots=True)
class OuterNames:
    """The columns of a join's sides as the SQL around it names them.

    aliases: the sides' aliases as written; columns: by side, only known if there is `*` or a name without a side
    shared: the columns, in lower case, that USING merges into one; kept: the side whose values these have
    used: for each column of the relation, the column within the join
    """

    aliases: Sequence[str]
    columns: Sequence[Sequence[str]] = ()
    shared: Sequence[str] = ()
    kept: int = 0
    used: dict[str, str] = field(default_factory=dict)

    def put(self, text: str, clause: str, outputs: Sequence[str] = ()) -> str:
        """A clause with the relation's columns instead of the sides' columns; outputs: the select list's names."""
        edits = self._qualified(text)
        names = {each.lower() for each in outputs}
        for each in bare_names(text, clause) if self.columns else ():
            if not (clause in _LISTED_FIRST and each.name.lower() in names):
                column = self._of_bare(each, names)
                edits += [(each.start, each.end + 1, column)] if column else []
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def expanded(self, side: int) -> list[str]:
        """The relation's columns for all columns of a side."""
        return [self.column(side, name, is_quoted=True) for name in self.columns[side]]

    def column(self, side: int, name: str, *, is_quoted: bool) -> str:
        """The relation's column for a column of a side."""
        alias = self.aliases[side]
        within = f"{quoted(alias)}.{quoted(name) if is_quoted else name}"
        found = next((called for called, known in self.used.items() if known == within), None)
        if found is None:
            alike = sum(each.lower().split(" ")[0] == f"{alias}.{name}".lower() for each in self.used)
            found = f"{alias}.{name}{f' {alike + 1}' if alike else ''}"
            self.used[found] = within
        return quoted(found)

    def side_of(self, alias: str, *, is_quoted: bool = False) -> int | None:
        found = [k for k, each in enumerate(self.aliases) if each == alias]
        if not found and not is_quoted:
            found = [k for k, each in enumerate(self.aliases) if each.lower() == alias.lower()]
        return found[0] if found else None

    def _qualified(self, text: str) -> list[tuple[int, int, str]]:
        """The replacements of names with a side: first character, end, and new text."""
        words, found = StatementWords(text), []
        hidden = self._hidden(words)
        for k in range(len(words.tokens) - 2):
            if words.kind(k + 1) is not TokenType.DOT or words.kind(k - 1) is TokenType.DOT:
                continue
            side = self.side_of(words.tokens[k].text, is_quoted=words.kind(k) is TokenType.IDENTIFIER)
            if side is None or words.kind(k + 2) is TokenType.STAR or (k, self.aliases[side].lower()) in hidden:
                continue
            name = words.tokens[k + 2]
            is_quoted = name.token_type is TokenType.IDENTIFIER
            new = self.column(side, name.text, is_quoted=is_quoted)
            found.append((words.start(k), name.end + 1, new))
        return found

    def _hidden(self, words: StatementWords) -> set[tuple[int, str]]:
        """The words within subqueries in which a source of their own has the name of a side."""
        inner = [Select(words, k) for k in range(1, len(words.tokens)) if words.kind(k) is TokenType.SELECT]
        aliases = {each.lower() for each in self.aliases}
        return {
            (k, source.alias.lower())
            for each in inner
            for source in each.sources
            if source.alias.lower() in aliases
            for k in range(each.first, each.stop)
        }

    def _of_bare(self, each: Bare, outputs: set[str]) -> str | None:
        """The relation's column for a name without a side; None if no side has this column."""
        matches = [
            (side, name)
            for side, names in enumerate(self.columns)
            for name in names
            if name == each.name or (not each.is_quoted and name.lower() == each.name.lower())
        ]
        if each.name.lower() in self.shared:
            matches = [found for found in matches if found[0] == self.kept]
        if len(matches) == 1 or len({side for side, _ in matches}) == 1:
            side, name = next((found for found in matches if found[1] == each.name), matches[0])
            return self.column(side, name, is_quoted=True)
        if matches and each.name.lower() not in outputs:
            known = listed(f"{alias}.{each.name}" for alias in self.aliases)
            raise QueryError(f"sql: column '{each.name}' doesn't name its side: expected {known}")
        return None
