"""Parses SELECT ... FROM a AS l JOIN b AS r ON ... WHERE ... into two sides, conditions and columns, with sqlglot."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from spojoin.errors import QueryError
from spojoin.model import JoinKind
from spojoin.query.clauses import AsofClauses
from spojoin.query.dialects import first_foreign_word
from spojoin.query.nodes import DIALECT, bare, written
from spojoin.query.places import Correctable, Edit, PlaceAt
from spojoin.suggest import listed

LineOf = Callable[[exp.Expression], int]

EXPECTED = "SELECT * FROM a AS l JOIN b AS r ON ..."

_THIRD_SIDE = (
    "; to read several values of one stream, give aggregates of one join, such as ARG_MAX(r.mid, r.at) FILTER (WHERE "
    "r.at <= l.at + INTERVAL '5 s') with GROUP BY l; to add a third stream, join it with the results of this join"
)


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One side of the join as written, with its line in the file.

    start: the index of its name's first character in the statement
    is_file: whether a path names the stream; is_table: whether it is a table, whose rows are always in the window
    is_named: whether the statement gives it an alias
    """

    stream: str
    alias: str
    line: int
    start: int
    is_file: bool = False
    is_table: bool = False
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class JoinClause:
    """How the sides are joined.

    is_turned: whether it was a RIGHT JOIN, whose sides have been exchanged
    using: the names of USING in lower case; is_natural: whether it is a NATURAL JOIN, whose names come from the schemas
    outer_span: in an outer join, the range of characters of LEFT, RIGHT or FULL, with OUTER
    anti_edits: the edits that make an ANTI JOIN of LEFT JOIN ... WHERE r.x IS NULL; empty for other joins
    """

    kind: JoinKind = JoinKind.INNER
    is_asof: bool = False
    is_turned: bool = False
    using: tuple[str, ...] = ()
    is_natural: bool = False
    outer_span: tuple[int, int] | None = None
    anti_edits: tuple[Edit, ...] = ()

    @property
    def keeps_where(self) -> bool:
        """Whether a condition in WHERE doesn't mean the same as in ON."""
        return self.kind is not JoinKind.INNER or self.is_asof


@dataclass(frozen=True, slots=True)
class Statement:
    """The sides, left first, the conditions that AND joins, and the columns of the select list.

    conjuncts: the conditions of ON, and those of WHERE if they mean the same there
    kept: the conditions of WHERE if they mean something else, as after an outer, SEMI, ANTI or ASOF JOIN
    line_of: gives the line of a node in the file
    asof: the clauses of an ASOF JOIN; nearest: the condition that defines the nearest partner, once it is known
    group, having, qualify: the clauses as written
    """

    left: JoinSide
    right: JoinSide
    join: JoinClause
    conjuncts: tuple[exp.Expression, ...]
    kept: tuple[exp.Expression, ...]
    columns: tuple[exp.Expression, ...]
    line_of: LineOf
    asof: AsofClauses | None = None
    nearest: exp.Expression | None = None
    group: exp.Expression | None = None
    having: exp.Expression | None = None
    qualify: exp.Expression | None = None

    @property
    def is_star(self) -> bool:
        """Whether the statement begins with SELECT *."""
        return [type(item) for item in self.columns] == [exp.Star] and not any(self.columns[0].args.values())


@dataclass(frozen=True, slots=True)
class _Joined:
    """The second table, how it is joined, the conditions of ON, and the identifiers of USING."""

    table: JoinSide
    clause: JoinClause
    conjuncts: list[exp.Expression]
    using: tuple[exp.Identifier, ...] = field(default=())


def parse_statement(
    sql: str, line_at: PlaceAt, tables: Collection[int] = (), asof: AsofClauses | None = None
) -> Statement:
    """The statement without the clauses that only spojoin has. Raises QueryError.

    line_at: gives the place of a character of `sql`; tables: the characters at which the names of tables begin
    asof: the ASOF clauses that were split off
    """
    select = _parsed_select(sql, line_at)
    line_of = _line_finder(line_at, select)
    _check_clauses(select, line_of)
    source = select.args.get("from_") or select.args.get("from")
    joins, where = select.args.get("joins") or [], select.args.get("where")
    kept = [] if where is None else _conjuncts(where.this, line_of)
    if source is not None and not joins and (exists := _exists_condition(kept)) is not None:
        joined = _joined_by_exists(exists, line_of)
        kept = [node for node in kept if node is not exists]
    elif source is None or len(joins) != 1:
        hint = _THIRD_SIDE if len(joins) > 1 else ""
        raise QueryError(f"sql joins {1 + len(joins)} streams: expected two, {EXPECTED}{hint}", line_of(select))
    else:
        joined = _joined_by_join(joins[0], line_of, sql, where)
    clause = joined.clause

    # the sides, left first
    first, second = (
        replace(side, is_table=side.start in tables) for side in (_side(source.this, line_of), joined.table)
    )
    if first.alias.lower() == second.alias.lower():
        raise QueryError(f"both sides are called '{first.alias}': expected two aliases, {EXPECTED}", second.line)
    left, right = (second, first) if clause.is_turned else (first, second)

    # the conditions; a column of USING that is named without a side is the left row's
    for column in select.find_all(exp.Column):
        if not column.table and column.name.lower() in clause.using:
            column.set("table", exp.to_identifier(left.alias, quoted=True))
    conjuncts = joined.conjuncts + _equalities_of_using(joined, (left, right), asof)
    if clause.keeps_where:
        outer_span = _outer_span(sql, joined) if kept else None
        clause = replace(clause, outer_span=outer_span, anti_edits=_anti_edits(sql, joined, kept))
    else:
        conjuncts, kept = conjuncts + kept, []
    return Statement(
        left,
        right,
        clause,
        tuple(conjuncts),
        tuple(kept),
        tuple(select.expressions),
        line_of,
        asof=asof if clause.is_asof else None,
        **{name: select.args.get(name) for name in ("group", "having", "qualify")},
    )


# -- the text as one SELECT


def _parsed_select(sql: str, line_at: PlaceAt) -> exp.Select:
    try:
        parsed = [node for node in sqlglot.parse(sql, dialect=DIALECT) if not isinstance(node, exp.Semicolon | None)]
    except ParseError as error:
        raise _parse_mistake(sql, error, line_at) from error
    except SqlglotError as error:
        raise QueryError(f"sql can't be read: expected {EXPECTED}", line_at(0)) from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Select):
        raise QueryError(f"sql must be one SELECT: expected {EXPECTED}", line_at(0))
    select = parsed[0]
    for interval in select.find_all(exp.Interval):
        _spell_out(interval)
    _split_parts_of_structs(select)
    return select


def _parse_mistake(sql: str, error: ParseError, line_at: PlaceAt) -> QueryError:
    """Why sqlglot can't parse the text: a word of another dialect, a call's arguments, or the word at the error."""
    first: dict[str, Any] = error.errors[0] if error.errors else {}
    highlight = str(first.get("highlight") or "")
    # sqlglot reports the column of the last character that it highlights
    before = sql.split("\n")[: (first.get("line") or 1) - 1]
    start = sum(len(line) + 1 for line in before) + max(int(first.get("col") or 1) - (len(highlight) or 1), 0)
    if (foreign := first_foreign_word(sql, line_at(start))) is not None:
        return foreign
    near = f" near '{highlight}'" if highlight else ""
    fault = _fault_of_arguments(sql, str(first.get("description", "")), start)
    return QueryError(fault or f"sql can't be read{near}: expected {EXPECTED}", line_at(start))


_TOO_MANY = re.compile(r"arguments \((\d+)\) is greater than .* \((\d+)\)")
_TOO_FEW = "Required keyword"


def _fault_of_arguments(sql: str, description: str, end: int) -> str | None:
    """What is wrong with the arguments of the call that ends at `end`; None for other mistakes.

    description: sqlglot's, which names sqlglot's class instead of the function
    """
    too_many = _TOO_MANY.search(description)
    if too_many is None and not description.startswith(_TOO_FEW):
        return None
    call = _called_function(sqlglot.tokenize(sql, dialect=DIALECT), end)
    if call is None:
        return None
    if too_many is None:
        return f"{call} lacks an argument"
    given, most = too_many.groups()
    return f"{call} has {given} arguments: expected {'one' if most == '1' else f'at most {most}'}"


def _called_function(tokens: list[Token], end: int) -> str | None:
    """The function's name in the call whose closing parenthesis is at `end`."""
    last = next((k for k, token in enumerate(tokens) if token.start == end), None)
    if last is None or tokens[last].token_type is not TokenType.R_PAREN:
        return None
    depth = 0
    for number in range(last, 0, -1):
        kind = tokens[number].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth == 0:
            return tokens[number - 1].text.upper()
    return None


#: Units that DuckDB reads after an INTERVAL's text, where sqlglot writes them; other units must be in the text.
_UNITS_AFTER_TEXT = re.compile(
    "(year|quarter|month|week|day|hour|minute|second|millisecond|microsecond|decade|century|millennium)s?",
    re.IGNORECASE,
)


def _spell_out(interval: exp.Interval) -> None:
    """Give an INTERVAL a spelling that the engine reads everywhere."""
    text, unit = interval.this, interval.args.get("unit")
    if not isinstance(text, exp.Literal):
        return
    if isinstance(unit, exp.Var) and not _UNITS_AFTER_TEXT.fullmatch(unit.name):
        text.set("this", f"{text.name} {unit.name.lower()}")
        interval.set("unit", None)
    text.set("this", text.name.replace("µ", "u"))


def _split_parts_of_structs(select: exp.Select) -> None:
    """Make `l.owner.name` the part `name` of the column `l.owner`, which sqlglot takes for schema, table and column."""
    for node in list(select.find_all(exp.Column)):
        names = [name for key in ("catalog", "db", "table", "this") if (name := node.args.get(key)) is not None]
        if len(names) > 2:
            part: exp.Expression = exp.Column(this=names[1], table=names[0])
            for name in names[2:]:
                part = exp.Dot(this=part, expression=name)
            node.replace(part)


def _line_finder(line_at: PlaceAt, root: exp.Expression) -> LineOf:
    def line_of(node: exp.Expression) -> int:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts and node is not root:
            return line_at(min(starts))
        return line_of(node.parent) if isinstance(node.parent, exp.Expression) and node is not root else line_at(0)

    return line_of


# -- clauses that no statement may have

_ALLOWED_CLAUSES = {"expressions", "from_", "from", "joins", "where", "group", "having", "qualify"}
_CLAUSE_NAMES = {
    "with_": "WITH",
    "with": "WITH",
    "group": "GROUP BY",
    "order": "ORDER BY",
    "kind": "SELECT AS",
    "laterals": "LATERAL",
    "sample": "TABLESAMPLE",
    "qualify": "QUALIFY",
    "offset": "OFFSET",
}
_NEEDS_ALL = "it needs all results, and a stream's results never end; expected it over files, or where you read results"
_BEST_PARTNERS = "to limit a row's partners, write QUALIFY ROW_NUMBER() OVER (PARTITION BY l ORDER BY r.a) <= 3"
#: What to do instead of a clause if results go on; over files and tables, DuckDB evaluates the clause.
_WAYS_OUT = {
    "LIMIT": f"{_NEEDS_ALL}; {_BEST_PARTNERS}",
    "FETCH": f"{_NEEDS_ALL}; {_BEST_PARTNERS}",
    "OFFSET": _NEEDS_ALL,
    "ORDER BY": f"{_NEEDS_ALL}; results come in the order of the rows that answer",
    "DISTINCT": f"{_NEEDS_ALL}; SEMI JOIN gives each left row once",
    "WITH": "expected one SELECT over two streams; a query may read the results of another query as a stream",
}


def _check_clauses(select: exp.Select, line_of: LineOf) -> None:
    for name, value in select.args.items():
        if value and name not in _ALLOWED_CLAUSES:
            at = value[0] if isinstance(value, list) else value
            line = line_of(at) if isinstance(at, exp.Expression) else line_of(select)
            clause = _CLAUSE_NAMES.get(name, name.rstrip("s_").upper())
            way_out = _WAYS_OUT.get(clause, f"expected only {EXPECTED}")
            raise QueryError(f"{clause} isn't supported: {way_out}", line)


# -- the sides and how they are joined


def _side(node: exp.Expression, line_of: LineOf) -> JoinSide:
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        start = node.this.meta.get("start", -1)
        alias = node.alias or alias_of(node.name)
        return JoinSide(node.name, alias, line_of(node), start, is_file=_is_path(node.name), is_named=bool(node.alias))
    raise QueryError(f"'{written(node)}' is no stream: expected the name of a stream, {EXPECTED}", line_of(node))


def alias_of(name: str) -> str:
    """The default alias of a side: the stream's name, or as in DuckDB, a file's name up to the first dot."""
    return (name.rsplit("/", 1)[-1].partition(".")[0] or name) if _is_path(name) else name


def _is_path(name: str) -> bool:
    """Whether a quoted name is the name of a file: names of streams have neither dots nor slashes."""
    return name == "-" or "." in name or "/" in name


_JOIN_KINDS = {
    "": JoinKind.INNER,
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.LEFT,
    "LEFT OUTER": JoinKind.LEFT,
    "RIGHT OUTER": JoinKind.LEFT,
    "FULL": JoinKind.FULL,
    "FULL OUTER": JoinKind.FULL,
}
_JOINS_EXPECTED = "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN, SEMI JOIN, ANTI JOIN or ASOF JOIN"


def _joined_by_join(join: exp.Join, line_of: LineOf, sql: str, where: exp.Expression | None) -> _Joined:
    right = _side(join.this, line_of)
    method, *kinds = [str(join.args.get(name) or "") for name in ("method", "side", "kind")]
    words = " ".join(filter(None, kinds))
    if words in ("LEFT SEMI", "LEFT ANTI"):
        raise _needless_left(words, right, sql)
    if words not in _JOIN_KINDS or method not in ("", "ASOF", "NATURAL"):
        name = " ".join(filter(None, (method, words)))
        raise QueryError(f"{name} JOIN isn't supported: expected {_JOINS_EXPECTED}, each with ON", right.line)
    using, condition = tuple(join.args.get("using") or ()), join.args.get("on")
    clause = JoinClause(
        _JOIN_KINDS[words],
        is_asof=method == "ASOF",
        is_turned=words.startswith("RIGHT"),
        using=tuple(name.name.lower() for name in using),
        is_natural=method == "NATURAL",
    )
    if (using or clause.is_natural) and clause.kind is JoinKind.FULL:
        message = "a column of USING or NATURAL has no side, but a FULL JOIN has rows without a partner"
        raise QueryError(f"{message}: expected ON l.a = r.a for each name", right.line)
    if condition is None and not (using or clause.is_natural):
        _check_where_for_on(where, right, sql, may_lack_on=not clause.is_asof and words in ("CROSS", ""))
    if clause.is_asof and (clause.is_turned or clause.kind not in (JoinKind.INNER, JoinKind.LEFT)):
        raise QueryError(f"ASOF {words} JOIN isn't supported: expected ASOF JOIN or ASOF LEFT JOIN", right.line)
    return _Joined(right, clause, [] if condition is None else _conjuncts(condition, line_of), using)


def _check_where_for_on(where: exp.Expression | None, right: JoinSide, sql: str, *, may_lack_on: bool) -> None:
    """QueryError if a join has no ON, unless it is a CROSS JOIN or a comma with conditions in WHERE."""
    message = "missing ON: expected conditions after it, such as ON l.a < r.a AND l.b > r.b"
    if where is None or not may_lack_on:
        raise QueryError(message, right.line)
    before = re.sub(r"(?i)cross\s+join$", ",", sql[: max(right.start, 0)].rstrip())
    if before[-4:].upper() == "JOIN":
        start = next(token.start for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.text.upper() == "WHERE")
        raise Correctable(message, right.line, [(start, start + len("WHERE"), "ON")])


def _needless_left(words: str, right: JoinSide, sql: str) -> QueryError:
    """The error for LEFT SEMI JOIN and LEFT ANTI JOIN."""
    tokens = [token for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.start < right.start]
    left = next(token for token in reversed(tokens) if token.text.upper() == "LEFT")
    end = left.end + 1 + len(sql[left.end + 1 :]) - len(sql[left.end + 1 :].lstrip())
    message = f"{words} JOIN is spelled without LEFT, since it gives only left rows: expected {words[5:]} JOIN"
    return Correctable(message, right.line, [(left.start, end, "")])


def _outer_span(sql: str, joined: _Joined) -> tuple[int, int] | None:
    if joined.clause.is_asof or joined.clause.kind not in (JoinKind.LEFT, JoinKind.FULL):
        return None
    tokens = [token for token in sqlglot.tokenize(sql, dialect=DIALECT) if token.start < joined.table.start]
    words = [token for token in tokens[-4:] if token.text.upper() in ("LEFT", "RIGHT", "FULL", "OUTER")]
    return (words[0].start, words[-1].end + 1) if words else None


def _anti_edits(sql: str, joined: _Joined, kept: list[exp.Expression]) -> tuple[Edit, ...]:
    """The edits that make an ANTI JOIN of LEFT JOIN ... WHERE r.x IS NULL: ANTI instead of LEFT, and no WHERE."""
    outer_span, is_one = _outer_span(sql, joined), len(kept) == 1 and isinstance(kept[0], exp.Is)
    if outer_span is None or joined.clause.kind is not JoinKind.LEFT or joined.clause.is_turned or not is_one:
        return ()
    tokens = sqlglot.tokenize(sql, dialect=DIALECT)
    words = [token.text.upper() for token in tokens]
    begin = words.index("WHERE")
    end = begin + words[begin:].index("NULL") if "NULL" in words[begin:] else -1
    if words[end - 1] != "IS" or words[end + 1 : end + 2] == [")"]:
        return ()
    return (*outer_span, "ANTI"), (tokens[begin - 1].end + 1, tokens[end].end + 1, "")


def _exists_condition(conjuncts: list[exp.Expression]) -> exp.Expression | None:
    """The condition that is EXISTS (...), or NOT EXISTS (...)."""
    inner = [bare(node.this) if isinstance(node, exp.Not) else node for node in conjuncts]
    return next((node for node, part in zip(conjuncts, inner, strict=True) if isinstance(part, exp.Exists)), None)


def _joined_by_exists(node: exp.Expression, line_of: LineOf) -> _Joined:
    """EXISTS (SELECT ... FROM b AS r WHERE ...) as a SEMI JOIN, NOT EXISTS as an ANTI JOIN."""
    exists = bare(node.this) if isinstance(node, exp.Not) else node
    select = exists.this
    source = select.args.get("from_") or select.args.get("from") if isinstance(select, exp.Select) else None
    where = select.args.get("where")
    allowed = {"expressions", "from_", "from", "where"}
    others = [name for name, value in select.args.items() if value and name not in allowed]
    if source is None or where is None or others:
        raise QueryError(
            f"'{written(exists)}': expected EXISTS (SELECT 1 FROM b AS r WHERE ...), with the conditions of both sides",
            line_of(exists),
        )
    clause = JoinClause(JoinKind.ANTI if isinstance(node, exp.Not) else JoinKind.SEMI)
    return _Joined(_side(source.this, line_of), clause, _conjuncts(where.this, line_of))


# -- conditions


def _conjuncts(node: exp.Expression, line_of: LineOf) -> list[exp.Expression]:
    """The conditions that AND joins; `x BETWEEN low AND high` is two of them."""
    waiting, conjuncts = [node], []
    while waiting:
        top = bare(waiting.pop())
        if isinstance(top, exp.And):
            waiting += [top.expression, top.this]
        elif isinstance(top, exp.Between):
            if top.args.get("symmetric"):
                message = f"SYMMETRIC isn't supported in '{written(top)}': expected x BETWEEN low AND high"
                raise QueryError(message, line_of(top))
            value, low, high = (top.args[name] for name in ("this", "low", "high"))
            waiting.append(exp.LTE(this=value.copy(), expression=high))
            waiting.append(exp.GTE(this=value.copy(), expression=low))
        else:
            conjuncts.append(top)
    return conjuncts


def _equalities_of_using(joined: _Joined, sides: Sequence[JoinSide], asof: AsofClauses | None) -> list[exp.Expression]:
    """USING as equalities. In an ASOF JOIN without MATCH_CONDITION, the last name means the latest value up to l's."""
    orders_last = joined.clause.is_asof and (asof is None or asof.match is None)
    pairs = [[exp.column(name.copy(), exp.to_identifier(side.alias)) for side in sides] for name in joined.using]
    return [
        (exp.GTE if orders_last and number == len(pairs) - 1 else exp.EQ)(this=left, expression=right)
        for number, (left, right) in enumerate(pairs)
    ]


def with_natural_names(statement: Statement, schemas: Sequence[Mapping[str, object]]) -> Statement:
    """The statement with the equalities of a NATURAL JOIN; schemas: the columns of both sides, left first."""
    if not statement.join.is_natural:
        return statement
    names = [name for name in schemas[0] if name in schemas[1]]
    if not names:
        left, right = (listed(schema) for schema in schemas)
        message = f"NATURAL JOIN needs a column that both sides have: the left side has {left}, the right side {right}"
        raise QueryError(message, statement.right.line)
    aliases = statement.left.alias, statement.right.alias
    pairs = [[exp.column(name, alias) for alias in aliases] for name in names]
    equal = tuple(exp.EQ(this=left, expression=right) for left, right in pairs)
    join = replace(statement.join, using=tuple(name.lower() for name in names))
    return replace(statement, conjuncts=(*equal, *statement.conjuncts), join=join)
