"""SELECT ... FROM a AS l JOIN b AS r ON ... WHERE ...: the two sides, the columns and the conjuncts, by sqlglot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.generators.duckdb import DuckDBGenerator

from spojoin.errors import QueryError
from spojoin.query.places import PlaceAt

EXPECTED = "SELECT * FROM a AS l JOIN b AS r ON ..."
DIALECT = "duckdb"

_ALLOWED = {"expressions", "from_", "from", "joins", "where"}
_CLAUSE_NAMES = {"with_": "WITH", "with": "WITH", "group": "GROUP BY", "order": "ORDER BY", "kind": "SELECT AS"}
_CLAUSE_NAMES |= {"laterals": "LATERAL", "sample": "TABLESAMPLE", "qualify": "QUALIFY", "offset": "OFFSET"}


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of the join as written, with its place in the file; is_file: whether a path stands for the stream."""

    stream: str
    alias: str
    line: int
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """The sides, left first, the conditions that AND joins, in ON and WHERE, and the columns of the select list.

    line_of: gives a node's place in the file
    """

    left: JoinSide
    right: JoinSide
    conjuncts: tuple[exp.Expression, ...]
    line_of: Callable[[exp.Expression], int]
    columns: tuple[exp.Expression, ...] = ()

    @property
    def is_star(self) -> bool:
        """Whether it begins SELECT *."""
        return [type(item) for item in self.columns] == [exp.Star] and not self.columns[0].args.get("except_")


def parse_statement(sql: str, line_at: PlaceAt) -> Statement:
    """Parse the SQL without its window clause; `line_at` gives the place of a character of `sql`."""
    select = _select(sql, line_at)
    line_of = _line_finder(line_at, select)
    _check_clauses(select, line_of)
    source = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    if source is None or len(joins) != 1:
        raise QueryError(f"sql joins {1 + len(joins)} streams: expected two, {EXPECTED}", line_of(select))
    left, right = _table(source.this, line_of), _table(joins[0].this, line_of)
    if left.alias.lower() == right.alias.lower():
        raise QueryError(f"both sides are called '{left.alias}': expected two aliases, {EXPECTED}", right.line)
    conjuncts = _conjuncts(_condition(joins[0], right.line, line_of), line_of)
    where = select.args.get("where")
    if where is not None:
        conjuncts += _conjuncts(where.this, line_of)
    return Statement(left, right, tuple(conjuncts), line_of, tuple(select.expressions))


class _PlainWriter(DuckDBGenerator):
    """Writes names as they are, without quotes around those that DuckDB reserves, such as `at`."""

    RESERVED_KEYWORDS: ClassVar[set[str]] = set()


def written(node: exp.Expression) -> str:
    """A node as text for messages and plans."""
    text: str = _PlainWriter(dialect=DIALECT, comments=False).generate(node)
    return text


def bare(node: exp.Expression) -> exp.Expression:
    """The node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _select(sql: str, line_at: PlaceAt) -> exp.Select:
    try:
        parsed = [node for node in sqlglot.parse(sql, dialect=DIALECT) if node is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        near = f" near '{first['highlight']}'" if first.get("highlight") else ""
        raise QueryError(f"sql can't be read{near}: expected {EXPECTED}", line_at(_place(sql, first))) from error
    except SqlglotError as error:
        raise QueryError(f"sql can't be read: expected {EXPECTED}", line_at(0)) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Select):
        raise QueryError(f"sql must be one SELECT: expected {EXPECTED}", line_at(0))
    return parsed[0]


def _place(sql: str, error: dict[str, Any]) -> int:
    """The index of the character at which the text that sqlglot found begins; its column is that of the text's end."""
    before = sql.split("\n")[: (error.get("line") or 1) - 1]
    found = len(error.get("highlight") or "") or 1
    return sum(len(line) + 1 for line in before) + max(int(error.get("col") or 1) - found, 0)


def _line_finder(line_at: PlaceAt, root: exp.Expression) -> Callable[[exp.Expression], int]:
    def line_of(node: exp.Expression) -> int:
        starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
        if starts and node is not root:
            return line_at(min(starts))
        return line_of(node.parent) if isinstance(node.parent, exp.Expression) and node is not root else line_at(0)

    return line_of


def _check_clauses(select: exp.Select, line_of: Callable[[exp.Expression], int]) -> None:
    for name, value in select.args.items():
        if value and name not in _ALLOWED:
            at = value[0] if isinstance(value, list) else value
            line = line_of(at) if isinstance(at, exp.Expression) else line_of(select)
            clause = _CLAUSE_NAMES.get(name, name.rstrip("s_").upper())
            raise QueryError(f"{clause} isn't supported: expected only {EXPECTED}", line)


def _table(node: exp.Expression, line_of: Callable[[exp.Expression], int]) -> JoinSide:
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        return JoinSide(node.name, node.alias or node.name, line_of(node), is_file=_is_path(node.name))
    raise QueryError(f"'{written(node)}' is no stream: expected a name from streams, {EXPECTED}", line_of(node))


def _is_path(name: str) -> bool:
    """Whether a quoted name is a file's: streams' names have neither dots nor slashes."""
    return name == "-" or "." in name or "/" in name


def _condition(join: exp.Join, line: int, line_of: Callable[[exp.Expression], int]) -> exp.Expression:
    kinds = [str(join.args[name]) for name in ("method", "side", "kind") if join.args.get(name)]
    if kinds and kinds not in (["INNER"], ["CROSS"]):
        raise QueryError(f"{' '.join(kinds)} JOIN isn't supported: expected JOIN ... ON ...", line)
    condition = join.args.get("on")
    if condition is None or kinds == ["CROSS"]:
        raise QueryError("missing ON: expected predicates after it, such as ON l.a < r.a AND l.b > r.b", line)
    assert isinstance(condition, exp.Expression)
    return condition


def _ends(between: exp.Expression, line_of: Callable[[exp.Expression], int]) -> list[exp.Expression]:
    """`x BETWEEN low AND high` as x <= high and x >= low: both inclusive, the last first."""
    if between.args.get("symmetric"):
        raise QueryError(
            f"SYMMETRIC isn't supported in '{written(between)}': expected x BETWEEN low AND high", line_of(between)
        )
    value, low, high = (between.args[name] for name in ("this", "low", "high"))
    return [exp.LTE(this=value.copy(), expression=high), exp.GTE(this=value.copy(), expression=low)]


def _conjuncts(node: exp.Expression, line_of: Callable[[exp.Expression], int]) -> list[exp.Expression]:
    waiting, found = [node], []
    while waiting:
        top = bare(waiting.pop())
        if isinstance(top, exp.And):
            waiting += [top.expression, top.this]
        elif isinstance(top, exp.Between):
            waiting += _ends(top, line_of)
        else:
            found.append(top)
    return found
