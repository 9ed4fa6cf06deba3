"""SELECT ... FROM a AS l JOIN b AS r ON ... WHERE ...: the two sides, the columns and the conjuncts, by sqlglot."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.generators.duckdb import DuckDBGenerator

from spojoin.errors import QueryError
from spojoin.model import JoinKind
from spojoin.query.asof_clauses import AsofClauses
from spojoin.query.foreign import foreign_words
from spojoin.query.mended import Edit, Mended
from spojoin.query.places import PlaceAt
from spojoin.query.unread import arguments_fault

LineOf = Callable[[exp.Expression], int]

EXPECTED = "SELECT * FROM a AS l JOIN b AS r ON ..."
DIALECT = "duckdb"

#: What is said of a third side.
_SEVERAL = (
    "; several values of one stream are aggregates of one join, such as ARG_MAX(r.mid, r.at) FILTER (WHERE r.at <= "
    "l.at + INTERVAL '5 s') with GROUP BY l; a third stream is joined with the results of the first join"
)
_ALLOWED = {"expressions", "from_", "from", "joins", "where", "group", "having", "qualify"}
_IN_EXISTS = {"expressions", "from_", "from", "where"}
_CLAUSE_NAMES = {"with_": "WITH", "with": "WITH", "group": "GROUP BY", "order": "ORDER BY", "kind": "SELECT AS"}
_CLAUSE_NAMES |= {"laterals": "LATERAL", "sample": "TABLESAMPLE", "qualify": "QUALIFY", "offset": "OFFSET"}


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of the join as written, with its line in the file.

    place: of its name among the statement's characters
    is_file: whether a path stands for the stream; is_table: whether it is a table, whose rows are always in the window
    is_named: whether its alias is written
    """

    stream: str
    alias: str
    line: int
    place: int
    is_file: bool = False
    is_table: bool = False
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """The sides, left first, the conditions that AND joins, and the columns of the select list.

    conjuncts: of ON, and of WHERE where that is the same; line_of: gives a node's place in the file
    kept: conditions of WHERE where that isn't the same, as behind an outer, SEMI, ANTI or ASOF JOIN
    asof: the clauses of an ASOF JOIN, of each left row's partners the nearest; None of other joins
    nearest: of those the condition that says which is nearest, where that is known
    using: names of USING; is_turned: whether the sides stood the other way round
    group, having, qualify: the clauses as written
    outer: where LEFT, RIGHT or FULL stands among the statement's characters, with OUTER
    is_natural: whether it is NATURAL JOIN, whose equalities `conjuncts` hasn't got
    as_anti: what makes an ANTI JOIN of LEFT JOIN ... WHERE r.x IS NULL; nothing of others
    """

    left: JoinSide
    right: JoinSide
    conjuncts: tuple[exp.Expression, ...]
    line_of: LineOf
    columns: tuple[exp.Expression, ...] = ()
    join: JoinKind = JoinKind.INNER
    kept: tuple[exp.Expression, ...] = ()
    asof: AsofClauses | None = None
    nearest: exp.Expression | None = None
    using: tuple[str, ...] = ()
    is_turned: bool = False
    group: exp.Expression | None = None
    having: exp.Expression | None = None
    qualify: exp.Expression | None = None
    is_natural: bool = False
    outer: tuple[int, int] | None = None
    as_anti: tuple[Edit, ...] = ()

    @property
    def is_asof(self) -> bool:
        """Whether it is an ASOF JOIN."""
        return self.asof is not None

    @property
    def is_star(self) -> bool:
        """Whether it begins SELECT *."""
        return [type(item) for item in self.columns] == [exp.Star] and not any(self.columns[0].args.values())


def parse_statement(
    sql: str, line_at: PlaceAt, tables: Collection[int] = (), asof: AsofClauses | None = None
) -> Statement:
    """Parse the SQL without its window clause; `line_at` gives the place of a character of `sql`.

    tables: the places of the names that are tables'; asof: clauses that were split off
    """
    select = _select(sql, line_at)
    line_of = _line_finder(line_at, select)
    _check_clauses(select, line_of)
    source = select.args.get("from_") or select.args.get("from")
    joins, where = select.args.get("joins") or [], select.args.get("where")
    kept = [] if where is None else _conjuncts(where.this, line_of)
    if source is not None and not joins and (found := _exists(kept)) is not None:
        joined = _of_exists(found, line_of)
        kept = [node for node in kept if node is not found]
    elif source is None or len(joins) != 1:
        raise _not_two(joins, line_of(select))
    else:
        joined = _joined(joins[0], line_of, sql, where)
    left, right = _sides(_marked(_table(source.this, line_of), tables), joined, tables)
    _name_sides(select, joined.using, left)
    conjuncts = joined.conjuncts + _of_using(joined, (left, right), asof)
    conjuncts, kept = (conjuncts, kept) if joined.keeps_where else (conjuncts + kept, [])
    return Statement(
        left,
        right,
        tuple(conjuncts),
        line_of,
        tuple(select.expressions),
        joined.join,
        tuple(kept),
        asof=asof if joined.is_asof else None,
        using=tuple(each.name.lower() for each in joined.using),
        is_turned=joined.is_turned,
        is_natural=joined.is_natural,
        outer=_outer(sql, joined) if kept else None,
        as_anti=_as_anti(sql, joined, kept),
        **{name: select.args.get(name) for name in ("group", "having", "qualify")},
    )


def _not_two(joins: list[exp.Join], line: int) -> QueryError:
    several = _SEVERAL if len(joins) > 1 else ""
    return QueryError(f"sql joins {1 + len(joins)} streams: expected two, {EXPECTED}{several}", line)


def _sides(source: JoinSide, joined: _Joined, tables: Collection[int]) -> tuple[JoinSide, JoinSide]:
    """The left and the right side."""
    other = _marked(joined.right, tables)
    if source.alias.lower() == other.alias.lower():
        raise QueryError(f"both sides are called '{source.alias}': expected two aliases, {EXPECTED}", other.line)
    return (other, source) if joined.is_turned else (source, other)


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
        parsed = [node for node in sqlglot.parse(sql, dialect=DIALECT) if not isinstance(node, exp.Semicolon | None)]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        place = _place(sql, first)
        near = f" near '{first['highlight']}'" if first.get("highlight") else ""
        if (found := foreign_words(sql, line_at(place))) is not None:
            raise found from error
        fault = arguments_fault(sql, first, place, DIALECT) or f"sql can't be read{near}: expected {EXPECTED}"
        raise QueryError(fault, line_at(place)) from error
    except SqlglotError as error:
        raise QueryError(f"sql can't be read: expected {EXPECTED}", line_at(0)) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Select):
        raise QueryError(f"sql must be one SELECT: expected {EXPECTED}", line_at(0))
    for interval in parsed[0].find_all(exp.Interval):
        _spell_out(interval)
    _take_parts(parsed[0])
    return parsed[0]


#: Units that DuckDB reads behind an INTERVAL's text, where sqlglot writes them; others stand within the text.
_UNITS_BEHIND = re.compile(
    "(year|quarter|month|week|day|hour|minute|second|millisecond|microsecond|decade|century|millennium)s?",
    re.IGNORECASE,
)


def _spell_out(interval: exp.Interval) -> None:
    """Give an INTERVAL a spelling that the engine reads wherever it stands."""
    text, unit = interval.this, interval.args.get("unit")
    if not isinstance(text, exp.Literal):
        return
    if isinstance(unit, exp.Var) and not _UNITS_BEHIND.fullmatch(unit.name):
        text.set("this", f"{text.name} {unit.name.lower()}")
        interval.set("unit", None)
    text.set("this", text.name.replace("µ", "u"))


def _place(sql: str, error: dict[str, Any]) -> int:
    """The index of the character at which the text that sqlglot found begins; its column is that of the text's end."""
    before = sql.split("\n")[: (error.get("line") or 1) - 1]
    found = len(error.get("highlight") or "") or 1
    return sum(len(line) + 1 for line in before) + max(int(error.get("col") or 1) - found, 0)


def _line_finder(line_at: PlaceAt, root: exp.Expression) -> LineOf:
    def line_of(node: exp.Expression) -> int:
        starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
        if starts and node is not root:
            return line_at(min(starts))
        return line_of(node.parent) if isinstance(node.parent, exp.Expression) and node is not root else line_at(0)

    return line_of


def _take_parts(select: exp.Select) -> None:
    """`l.owner.name` as the part `name` of the column `l.owner`: sqlglot reads a schema's table's column."""
    for node in list(select.find_all(exp.Column)):
        names = [node.args.get(name) for name in ("catalog", "db", "table", "this")]
        given = [each for each in names if each is not None]
        if len(given) > 2:
            part: exp.Expression = exp.Column(this=given[1], table=given[0])
            for name in given[2:]:
                part = exp.Dot(this=part, expression=name)
            node.replace(part)


_OF_ALL = "needs all results, and those of streams never end: expected where results are read, or over files"
#: What takes the place of a clause for results that go on; over files and tables DuckDB runs the clause.
_WAYS_OUT = {
    "LIMIT": f"it {_OF_ALL}; QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.a) <= 3 limits a row's partners",
    "FETCH": f"it {_OF_ALL}; QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.a) <= 3 limits a row's partners",
    "OFFSET": f"it {_OF_ALL}",
    "ORDER BY": f"it {_OF_ALL}; results come in the order of the rows that answer",
    "DISTINCT": f"it {_OF_ALL}; SEMI JOIN gives each left row once",
    "WITH": "expected one SELECT over two streams; a query may read another one's results as a stream",
}


def _check_clauses(select: exp.Select, line_of: LineOf) -> None:
    for name, value in select.args.items():
        if value and name not in _ALLOWED:
            at = value[0] if isinstance(value, list) else value
            line = line_of(at) if isinstance(at, exp.Expression) else line_of(select)
            clause = _CLAUSE_NAMES.get(name, name.rstrip("s_").upper())
            way_out = _WAYS_OUT.get(clause, f"expected only {EXPECTED}")
            raise QueryError(f"{clause} isn't supported: {way_out}", line)


def _table(node: exp.Expression, line_of: LineOf) -> JoinSide:
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        place = node.this.meta.get("start", -1)
        alias = node.alias or alias_of(node.name)
        return JoinSide(node.name, alias, line_of(node), place, is_file=_is_path(node.name), is_named=bool(node.alias))
    raise QueryError(f"'{written(node)}' is no stream: expected a name from streams, {EXPECTED}", line_of(node))


def alias_of(name: str) -> str:
    """What a side is called without an alias: a file as its name begins, up to the first dot, as in DuckDB."""
    return (name.rsplit("/", 1)[-1].partition(".")[0] or name) if _is_path(name) else name


def _marked(side: JoinSide, tables: Collection[int]) -> JoinSide:
    return replace(side, is_table=side.place in tables)


def _is_path(name: str) -> bool:
    """Whether a quoted name is a file's: streams' names have neither dots nor slashes."""
    return name == "-" or "." in name or "/" in name


@dataclass(frozen=True, slots=True)
class _Joined:
    """The other table, how it is joined, and the conditions of ON."""

    right: JoinSide
    conjuncts: list[exp.Expression]
    join: JoinKind
    is_asof: bool = False
    is_turned: bool = False
    using: tuple[exp.Identifier, ...] = ()
    is_natural: bool = False

    @property
    def keeps_where(self) -> bool:
        """Whether conditions of WHERE mean another thing than those of ON."""
        return self.join is not JoinKind.INNER or self.is_asof


_JOINS = {
    "": JoinKind.INNER,
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}
_JOINS |= {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.LEFT, "LEFT OUTER": JoinKind.LEFT, "RIGHT OUTER": JoinKind.LEFT}
_JOINS |= {"FULL": JoinKind.FULL, "FULL OUTER": JoinKind.FULL}
_EXPECTED_JOINS = "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN, ANTI JOIN or ASOF JOIN"


def _joined(join: exp.Join, line_of: LineOf, sql: str, where: exp.Expression | None) -> _Joined:
    right = _table(join.this, line_of)
    method, *kinds = [str(join.args.get(name) or "") for name in ("method", "side", "kind")]
    kind = " ".join(filter(None, kinds))
    if kind in ("LEFT SEMI", "LEFT ANTI"):
        raise _without_left(kind, right, sql)
    if kind not in _JOINS or method not in ("", "ASOF", "NATURAL"):
        written_as = " ".join(filter(None, (method, kind)))
        raise QueryError(f"{written_as} JOIN isn't supported: expected {_EXPECTED_JOINS}, each with ON", right.line)
    condition, is_asof, is_natural = join.args.get("on"), method == "ASOF", method == "NATURAL"
    using, is_turned = tuple(join.args.get("using") or ()), kind.startswith("RIGHT")
    if (using or is_natural) and _JOINS[kind] is JoinKind.FULL:
        raise QueryError("FULL JOIN gives back rows without a partner: expected ON l.a = r.a for each name", right.line)
    if condition is None and not (using or is_natural):
        _check_where(where, right, sql, may_lack=not is_asof and kind in ("CROSS", ""))
    if is_asof and (is_turned or _JOINS[kind] not in (JoinKind.INNER, JoinKind.LEFT)):
        raise QueryError(f"ASOF {kind} JOIN isn't supported: expected ASOF JOIN or ASOF LEFT JOIN", right.line)
    conjuncts = [] if condition is None else _conjuncts(condition, line_of)
    return _Joined(right, conjuncts, _JOINS[kind], is_asof, is_turned, using, is_natural)


def _of_using(joined: _Joined, sides: Sequence[JoinSide], asof: AsofClauses | None) -> list[exp.Expression]:
    """USING (sym, at): equal, but for the last of an ASOF JOIN, which is the latest up to the left row's.

    All are equal where MATCH_CONDITION says which row is nearest.
    """
    orders_last = joined.is_asof and (asof is None or asof.match is None)
    pairs = [[exp.column(name.copy(), exp.to_identifier(side.alias)) for side in sides] for name in joined.using]
    return [
        (exp.GTE if orders_last and number == len(pairs) - 1 else exp.EQ)(this=own, expression=other)
        for number, (own, other) in enumerate(pairs)
    ]


def _name_sides(select: exp.Select, using: tuple[exp.Identifier, ...], left: JoinSide) -> None:
    """Columns of USING are the left row's where no side is named."""
    names = {each.name.lower() for each in using}
    for column in select.find_all(exp.Column):
        if not column.table and column.name.lower() in names:
            column.set("table", exp.to_identifier(left.alias, quoted=True))


def _check_where(where: exp.Expression | None, right: JoinSide, sql: str, *, may_lack: bool) -> None:
    """QueryError where a join has neither ON nor, as CROSS JOIN and a comma may, conditions in WHERE."""
    message = "missing ON: expected predicates after it, such as ON l.a < r.a AND l.b > r.b"
    before = re.sub(r"(?i)cross\s+join$", ",", sql[: max(right.place, 0)].rstrip())
    if where is None or not may_lack:
        raise QueryError(message, right.line)
    if before[-4:].upper() == "JOIN":
        start = next(token.start for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.text.upper() == "WHERE")
        raise Mended(message, right.line, [(start, start + len("WHERE"), "ON")])


def _without_left(kind: str, right: JoinSide, sql: str) -> QueryError:
    """The mistake of LEFT SEMI JOIN, put right."""
    tokens = [token for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.start < right.place]
    left = next(token for token in reversed(tokens) if token.text.upper() == "LEFT")
    follows = left.end + 1 + len(sql[left.end + 1 :]) - len(sql[left.end + 1 :].lstrip())
    message = f"{kind} JOIN is spelled without LEFT: it gives left rows in any case"
    return Mended(message, right.line, [(left.start, follows, "")])


def _outer(sql: str, joined: _Joined) -> tuple[int, int] | None:
    if joined.is_asof or joined.join not in (JoinKind.LEFT, JoinKind.FULL):
        return None
    tokens = [token for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.start < joined.right.place]
    words = [token for token in tokens[-4:] if token.text.upper() in ("LEFT", "RIGHT", "FULL", "OUTER")]
    return (words[0].start, words[-1].end + 1) if words else None


def _as_anti(sql: str, joined: _Joined, kept: list[exp.Expression]) -> tuple[Edit, ...]:
    outer, is_one = _outer(sql, joined), len(kept) == 1 and isinstance(kept[0], exp.Is)
    if outer is None or joined.join is not JoinKind.LEFT or joined.is_turned or not is_one:
        return ()
    tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    words = [token.text.upper() for token in tokens]
    begin = words.index("WHERE")
    end = begin + words[begin:].index("NULL") if "NULL" in words[begin:] else -1
    if words[end - 1] != "IS" or words[end + 1 : end + 2] == [")"]:
        return ()
    return (*outer, "ANTI"), (tokens[begin - 1].end + 1, tokens[end].end + 1, "")


def _exists(conjuncts: list[exp.Expression]) -> exp.Expression | None:
    """The condition that is EXISTS (...), or NOT EXISTS (...)."""
    inner = [bare(node.this) if isinstance(node, exp.Not) else node for node in conjuncts]
    return next((node for node, found in zip(conjuncts, inner, strict=True) if isinstance(found, exp.Exists)), None)


def _of_exists(node: exp.Expression, line_of: LineOf) -> _Joined:
    """EXISTS (SELECT ... FROM b AS r WHERE ...) as a SEMI JOIN, NOT EXISTS as an ANTI JOIN."""
    exists = bare(node.this) if isinstance(node, exp.Not) else node
    select = exists.this
    source = select.args.get("from_") or select.args.get("from") if isinstance(select, exp.Select) else None
    where = select.args.get("where")
    others = [name for name, value in select.args.items() if value and name not in _IN_EXISTS]
    if source is None or where is None or others:
        raise QueryError(
            f"'{written(exists)}': expected EXISTS (SELECT 1 FROM b AS r WHERE ...), with the conditions of both sides",
            line_of(exists),
        )
    join = JoinKind.ANTI if isinstance(node, exp.Not) else JoinKind.SEMI
    return _Joined(_table(source.this, line_of), _conjuncts(where.this, line_of), join)


def _ends(between: exp.Expression, line_of: LineOf) -> list[exp.Expression]:
    """`x BETWEEN low AND high` as x <= high and x >= low: both inclusive, the last first."""
    if between.args.get("symmetric"):
        raise QueryError(
            f"SYMMETRIC isn't supported in '{written(between)}': expected x BETWEEN low AND high", line_of(between)
        )
    value, low, high = (between.args[name] for name in ("this", "low", "high"))
    return [exp.LTE(this=value.copy(), expression=high), exp.GTE(this=value.copy(), expression=low)]


def _conjuncts(node: exp.Expression, line_of: LineOf) -> list[exp.Expression]:
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
