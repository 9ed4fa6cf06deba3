"""Splits a SELECT over a join in two: the statement that spojoin runs, and the SQL that DuckDB runs over its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import TokenType, exp

from spojoin.embedded.outer_names import Bare, OuterNames, bare_names, listed_items, parsed
from spojoin.embedded.statement_text import TRAILING, Clause, Select, Source, StatementWords, quoted
from spojoin.errors import QueryError
from spojoin.model import Selected
from spojoin.query.nodes import sql_text

_ROWS = "SELECT * FROM {}"


@dataclass(frozen=True, slots=True)
class Split:
    """The select list of the join, its WHERE conditions, and the SQL over the relation of the join's rows.

    clauses: the clauses of the written statement that stay with the join; group: the text in place of its GROUP BY
    """

    listed: str
    clauses: tuple[str, ...]
    outer: str = ""
    where: str | None = None
    group: str = ""


@dataclass(slots=True)
class Splitter:
    """Splits one SELECT. sides: the sides of its join, as written; relation: the join's name in the outer SQL.

    text_at: gives the text of some words, with subqueries replaced; ask: gives the columns that a join would have
    counts: whether the join may give the number of a row's results instead of listing them
    """

    select: Select
    sides: Sequence[Source]
    relation: str
    text_at: Callable[[int, int], str]
    ask: Callable[[Split], Sequence[Selected]] = field(default=lambda _: ())
    counts: bool = True
    _tree: exp.Select | None = field(init=False)

    def __post_init__(self) -> None:
        """Parse the select list with GROUP BY, HAVING and QUALIFY."""
        listed = self.select.listed
        clauses = [self._text(name) for name in ("group", "having", "qualify")]
        self._tree = parsed(" ".join([self.text_at(listed.first, listed.stop), *clauses]), "list")

    @property
    def keeps_all(self) -> bool:
        """Whether spojoin can run the SELECT as written, except for DISTINCT and the clauses in TRAILING."""
        select, tree = self.select, self._tree
        if tree is None:
            return True
        is_by_row, distinct = self._is_by_row(tree), tree.args.get("distinct")
        is_more = (
            len(select.sources) > 2 or "windows" in select.clauses,
            is_by_row is False or (distinct is not None and distinct.args.get("on")),
            any(each is not tree for each in tree.find_all(exp.Select)) or self._asks_subqueries(),
            any(each.find(exp.Window) for each in tree.expressions),
            not self._is_best(tree),
        )
        if any(is_more) or is_by_row:
            return not any(is_more)
        is_outer = bool(self._join_words() & {"LEFT", "RIGHT", "FULL"}) and "ASOF" not in self._join_words()
        is_filtered = is_outer and bool(self._conditions()[1])
        return not (is_filtered or tree.args.get("having") or any(_aggregates(each) for each in tree.expressions))

    def split(self) -> Split:
        """The two statements. Raises QueryError if the outer statement needs what the join can't give."""
        return self._split_as_written() if self.keeps_all else self._split_pairs()

    def _split_as_written(self) -> Split:
        """Split a statement that stays as written: the outer SQL only orders its rows and chooses among them."""
        listed, select = self.select.listed, self.select
        is_distinct = select.words.kind(listed.first) is TokenType.DISTINCT
        text = self.text_at(listed.first + is_distinct, listed.stop)
        inner = ("group", "having", "qualify")
        if not is_distinct and not any(name in select.clauses for name in TRAILING):
            return Split(text, inner, _ROWS.format(self.relation))
        names = [each.name for each in self.ask(Split(text, inner))]
        order, hidden = self._ordered(text, names)
        columns = ", ".join(map(quoted, names)) if hidden else "*"
        rest = [order, *(self._text(name) for name in TRAILING[1:])]
        outer = f"SELECT {'DISTINCT ' * is_distinct}{columns} FROM {self.relation} {' '.join(filter(None, rest))}"
        return Split(", ".join([text, *hidden]), inner, outer.rstrip())

    def _ordered(self, text: str, names: Sequence[str]) -> tuple[str, list[str]]:
        """ORDER BY over the results' columns, and the further items that the join must select for it."""
        clause = self.select.clauses.get("order")
        if clause is None:
            return "", []
        same = _names_of_items(text, names)
        keys: list[str] = []
        hidden: list[str] = []
        for item in listed_items(self.text_at(clause.first + 1, clause.stop)):
            key, how = _key_and_direction(item)
            known = same.get(_plain(key)) or next((each for each in names if each.lower() == _plain(key)), None)
            if known is None and not key.isdigit() and key.upper() != "ALL" and not _is_of(key, names):
                known = f"order {len(hidden) + 1}"
                hidden.append(f"{key} AS {quoted(known)}")
            keys.append(f"{quoted(known) if known else key} {how}".rstrip())
        return f"ORDER BY {', '.join(keys)}", hidden

    def _split_pairs(self) -> Split:
        """Split so that the join lists pairs, with all columns that the outer SQL names."""
        names = OuterNames([each.alias for each in self.sides])
        within, outside = self._conditions()
        if self._needs_columns(outside):
            names.columns = self._columns()
            names.shared, names.kept = self._shared(names.columns), int("RIGHT" in self._join_words())
        joins = self._further_joins(names)
        listed, outputs = self._listed(names)
        rest = [joins, names.put(f"WHERE {' AND '.join(outside)}", "where") if outside else ""]
        for clause in ("group", "having", "windows", "qualify", *TRAILING):
            rest.append(names.put(self._text(clause), clause, outputs))
        outer = f"SELECT {listed} FROM {self.relation} {' '.join(filter(None, rest))}".rstrip()
        where = "WHERE " + " AND ".join(within) if within else ""
        left = quoted(self.sides[0].alias)
        counted = self._counted(outer) if all(each.startswith(f"{left}.") for each in names.used.values()) else None
        inner = [f"{within_} AS {quoted(called)}" for called, within_ in names.used.items()]
        if counted is not None:
            return Split(", ".join([*inner, f"COUNT(*) AS {_COUNT}"]), (), counted, where, f"GROUP BY {left}")
        return Split(", ".join(inner or [f"{left}.seq"]), (), outer, where)

    def _counted(self, outer: str) -> str | None:
        """The outer SQL over left rows and their numbers of results, or None if it needs more than these numbers."""
        select = self.select
        is_more = len(select.sources) > 2 or bool({"window", "emit", "qualify", "windows"} & select.clauses.keys())
        tree = parsed(outer.removeprefix("SELECT"), "list")
        if not self.counts or is_more or not self._join_words() <= {"JOIN", "INNER", "LEFT", "OUTER"} or tree is None:
            return None
        found = [each for each in tree.walk() if _aggregates_itself(each)]
        if not found or not all(isinstance(each, exp.Count) and isinstance(each.this, exp.Star) for each in found):
            return None
        return None if tree.find(exp.Window, exp.Filter, exp.Subquery, exp.Distinct) else _with_sums(outer)

    def _listed(self, names: OuterNames) -> tuple[str, list[str]]:
        """The select list over the relation, and the names that it gives."""
        select = self.select
        text = self.text_at(select.listed.first, select.listed.stop)
        head, text = _distinct(text)
        items = [each for item in listed_items(text) for each in self._expanded(item, names)]
        plain = [_name_of(item) for item in items]
        outputs, found = [], []
        for item, (name, side, is_said) in zip(items, plain, strict=True):
            twice = sum(other.lower() == name.lower() for other, _, _ in plain) > 1
            called = f"{side}_{name}" if twice and side else name
            found.append(names.put(item, "list") + ("" if is_said or not name else f" AS {quoted(called)}"))
            outputs.append(called)
        return names.put(head, "list") + ", ".join(found), outputs

    def _expanded(self, item: str, names: OuterNames) -> list[str]:
        """The select items that an item stands for: itself, or the columns of `*`."""
        found = _STAR.match(item)
        alias = found["alias"].strip('"') if found and found["alias"] else None
        if found is None or (alias is not None and names.side_of(alias) is None):
            return [item]
        further = [f"{each.alias}.*" for each in self.select.sources[2:]] if alias is None else []
        if further and found["changes"]:
            expected = " and ".join((*(f"{each}.*" for each in names.aliases), *further))
            raise QueryError(f"sql: '{item}' is of more than two sides: expected {expected}, each with its own changes")
        aliases = names.aliases[::-1] if "RIGHT" in self._join_words() else names.aliases
        return [_item_of(each, aliases) for each in self.ask(Split(item, (), where=""))] + further

    def _further_joins(self, names: OuterNames) -> str:
        """The text of the further joins with the results; their USING may name a column of either side."""
        select = self.select
        if len(select.sources) < 3:
            return ""
        ends = [*select.boundaries[2:], select.clauses["from"].stop]
        joins = [
            self._further(source, first, stop, names)
            for source, first, stop in zip(select.sources[2:], select.boundaries[1:], ends, strict=True)
        ]
        return names.put(" ".join(joins), "join")

    def _further(self, source: Source, first: int, stop: int, names: OuterNames) -> str:
        """The text of one further join; its USING names a column of the side that has it."""
        words, opening = self.select.words, source.end + 1
        if words.word(source.end) != "USING" or opening not in words.closes:
            return self.text_at(first, stop)
        close = words.closes[opening]
        same = []
        for name in (each.strip('" ') for each in self.text_at(opening + 1, close).split(",")):
            has = (k for k, columns in enumerate(names.columns) if name.lower() in map(str.lower, columns))
            side = next(has, None)
            if side is None:
                return self.text_at(first, stop)
            same.append(f"{quoted(names.aliases[side])}.{quoted(name)} = {quoted(source.alias)}.{quoted(name)}")
        return f"{self.text_at(first, source.end)} ON {' AND '.join(same)} {self.text_at(close + 1, stop)}"

    def _conditions(self) -> tuple[list[str], list[str]]:
        """The conditions of WHERE that go into the join, and those that filter its results."""
        where = self.select.clauses.get("where")
        if where is None:
            return [], []
        if len(self.select.sources) == 1:
            return [self.text_at(where.first + 1, where.stop)], []
        within: list[str] = []
        outside: list[str] = []
        for first, stop in _conjuncts(self.select.words, where):
            (within if self._is_within(first, stop) else outside).append(self.text_at(first, stop))
        if outside and "window" in self.select.clauses and self._join_words() <= {"JOIN", "INNER"}:
            raise QueryError(
                f"sql: '{outside[0]}' in WHERE would choose rows before they take their place in the window: expected "
                "it in a side, such as FROM (SELECT * FROM a WHERE ...) AS l"
            )
        return within, outside

    def _is_within(self, first: int, stop: int) -> bool:
        """Whether a condition of WHERE may go into the join, because it only chooses the rows that are joined."""
        words = self.select.words
        if any(words.kind(k) is TokenType.SELECT for k in range(first, stop)):
            return False
        named = {words.word(k) for k in range(first, stop) if words.kind(k + 1) is TokenType.DOT}
        sides = [each.alias.upper() for each in self.sides]
        kinds = self._join_words()
        if kinds & {"FULL"}:
            return False
        if kinds & {"LEFT", "ASOF", "SEMI", "ANTI", "RIGHT"}:
            kept = int("RIGHT" in kinds)
            return named <= {sides[kept]} and self._has_all(
                kept, bare_names(f"WHERE {self.text_at(first, stop)}", "where")
            )
        return named <= set(sides) and (len(self.select.sources) < 3 or bool(named))

    def _has_all(self, side: int, names: Sequence[Bare]) -> bool:
        """Whether all names without a side are columns of one side; False if its columns aren't known yet."""
        columns = self._columns() if names else []
        known = {each.lower() for each in columns[side]} if columns else set()
        return {each.name.lower() for each in names} <= known

    def _join_words(self) -> set[str]:
        select = self.select
        if len(select.sources) < 2:
            return set()
        return {select.words.word(k) for k in range(select.boundaries[0], self.sides[1].first)}

    def _needs_columns(self, outside: Sequence[str]) -> bool:
        """Whether the SQL around the join has `*` or names without a side."""
        select = self.select
        parts = [("list", select.listed)] + [(n, c) for n, c in select.clauses.items() if n not in _OF_JOIN]
        texts = [(name, self.text_at(each.first, each.stop)) for name, each in parts]
        texts += [("where", f"WHERE {each}") for each in outside]
        if len(select.sources) > 2:
            texts.append(("join", self.text_at(select.boundaries[1], select.clauses["from"].stop)))
        return any(_has_bare(text, clause) for clause, text in texts)

    def _columns(self) -> list[list[str]]:
        """The columns of each side, or empty lists if they aren't known yet."""
        aliases = [quoted(each.alias) for each in self.sides]
        kinds = self._join_words()
        is_of_left = len(self.select.sources) == 1 or bool(kinds & {"SEMI", "ANTI"})
        listed = ", ".join(f"{each}.*" for each in aliases[: 1 if is_of_left else 2])
        uses = [each.plain for each in self.ask(Split(listed, (), where="")) if each.plain is not None]
        if not uses:
            return []
        of_first = [use.name for use in uses if use.side == uses[0].side]
        return [of_first, [use.name for use in uses if use.side != uses[0].side]]

    def _shared(self, columns: Sequence[Sequence[str]]) -> list[str]:
        """The columns that USING or NATURAL merges into one, in lower case."""
        select = self.select
        words, after = select.words, self.sides[1].end if len(select.sources) > 1 else len(select.words.tokens)
        if "NATURAL" in self._join_words():
            return [name.lower() for name in columns[0] if name in columns[1]]
        while words.word(after) in ("MATCH_CONDITION", "TOLERANCE"):
            after = words.closing(after + 1) + 1
        close = words.closes.get(after + 1, after) if words.word(after) == "USING" else after
        return [words.tokens[k].text.lower() for k in range(after + 2, close) if words.kind(k) is not TokenType.COMMA]

    def _text(self, name: str) -> str:
        clause = self.select.clauses.get(name)
        return self.text_at(clause.first, clause.stop) if clause else ""

    def _is_by_row(self, tree: exp.Select) -> bool | None:
        """Whether the SELECT groups by the left row; None if it doesn't group."""
        group = tree.args.get("group")
        if group is None:
            return None
        keys = group.expressions
        if len(keys) != 1 or not isinstance(keys[0], exp.Column):
            return False
        alias, key = self.sides[0].alias.lower(), keys[0]
        return (not key.table and key.name.lower() == alias) or (key.table.lower() == alias and key.name == "seq")

    def _asks_subqueries(self) -> bool:
        """Whether conditions have subqueries, apart from the EXISTS that is the join."""
        where, words = self.select.clauses.get("where"), self.select.words
        if where is None:
            return False
        found = sum(words.kind(k) is TokenType.SELECT for k in range(where.first, where.stop))
        return found > (1 if len(self.select.sources) == 1 else 0)

    def _is_best(self, tree: exp.Select) -> bool:
        """Whether there is no QUALIFY, or it chooses among the partners of each left row."""
        qualify = tree.args.get("qualify")
        if qualify is None:
            return True
        windows = list(qualify.find_all(exp.Window))
        keys = [key for each in windows for key in each.args.get("partition_by") or []]
        alias = self.sides[0].alias.lower()
        return len(windows) == 1 and [key.sql().lower().strip('"') for key in keys] in ([alias], [f"{alias}.seq"])


_OF_JOIN = ("from", "where", "window", "emit")


_STAR = re.compile(
    r"""^(?:(?P<alias>\w+|"[^"]*")\s*\.\s*)?\*(?:$|\s+(?P<changes>EXCLUDE|EXCEPT|REPLACE|RENAME)\b)""", re.IGNORECASE
)
#: The column with a left row's number of results, if the outer SQL needs only that.
_COUNT = '"its results"'
_SUM = f"CAST(COALESCE(SUM({_COUNT}), 0) AS BIGINT)"


def _has_bare(text: str, clause: str) -> bool:
    items = listed_items(_distinct(text)[1]) if clause == "list" else []
    is_using = clause == "join" and re.search(r"\bUSING\b", text, re.IGNORECASE) is not None
    return is_using or any(_STAR.match(item) for item in items) or bool(bare_names(text, clause))


def _item_of(selected: Selected, aliases: Sequence[str]) -> str:
    """A column of `*` as an item of a select list. aliases: those of the left and the right side."""
    plain = selected.plain
    if plain is None:
        return f"{selected.expression.text} AS {quoted(selected.name)}"
    alias = aliases[plain.side]
    is_renamed = selected.name not in (plain.name, f"{alias}_{plain.name}")
    return f"{quoted(alias)}.{quoted(plain.name)}" + (f" AS {quoted(selected.name)}" if is_renamed else "")


def _with_sums(sql: str) -> str:
    """SQL in which each COUNT(*) is replaced by the sum of the numbers of results."""
    words = StatementWords(sql)
    for k in reversed(range(len(words.tokens) - 2)):
        close = words.closes.get(k + 1)
        if words.word(k) == "COUNT" and close is not None and close <= k + 3:
            sql = sql[: words.start(k)] + _SUM + sql[words.tokens[close].end + 1 :]
    return sql


def _is_of(key: str, outputs: Sequence[str]) -> bool:
    """Whether an expression uses columns of the results only."""
    names = {each.name.lower() for each in bare_names(key, "list")}
    words = StatementWords(key)
    has_side = any(words.kind(k) is TokenType.DOT for k in range(len(words.tokens)))
    return bool(names) and not has_side and names <= {each.lower() for each in outputs}


def _aggregates(node: exp.Expression) -> bool:
    """Whether a select item has an aggregate that is not a window function."""
    return any(_aggregates_itself(each) for each in node.walk() if not isinstance(each.parent, exp.Window))


def _aggregates_itself(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and _is_aggregate(node.name))


def _is_aggregate(name: str) -> bool:
    from spojoin.expressions.functions import is_aggregate  # noqa: PLC0415  (few statements need the engine)

    return is_aggregate(name)


def _conjuncts(words: StatementWords, where: Clause) -> list[tuple[int, int]]:
    """The words of each condition that AND joins; conditions joined by OR count as one."""
    level = words.levels[where.first]
    at = list(words.at(level, where.first + 1, where.stop))
    if any(words.kind(k) is TokenType.OR for k in at):
        return [(where.first + 1, where.stop)]
    found, first, is_between = [], where.first + 1, False
    for k in at:
        if words.kind(k) is TokenType.BETWEEN:
            is_between = True
        elif words.kind(k) is TokenType.AND and is_between:
            is_between = False
        elif words.kind(k) is TokenType.AND:
            found.append((first, k))
            first = k + 1
    return [*found, (first, where.stop)]


def _distinct(text: str) -> tuple[str, str]:
    """The DISTINCT or DISTINCT ON (...) before a select list, and the list."""
    words = StatementWords(text)
    if words.kind(0) is not TokenType.DISTINCT:
        return "", text
    first = words.closing(2) + 1 if words.word(1) == "ON" else 1
    return text[: words.start(first)], text[words.start(first) :]


def _name_of(item: str) -> tuple[str, str, bool]:
    """A select item's name, the alias of the side if it is a column, and whether the item names itself with AS."""
    tree = parsed(item, "list")
    node = tree.expressions[0] if tree is not None and len(tree.expressions) == 1 else None
    if node is None or node.is_star:
        return "", "", True
    if isinstance(node, exp.Alias):
        return node.alias, "", True
    if isinstance(node, exp.Column):
        return node.name, node.table, False
    return sql_text(node), "", False


def _names_of_items(text: str, names: Sequence[str]) -> dict[str, str]:
    """The results' names for the expressions of a select list in which each item gives one column."""
    items = listed_items(text)
    if len(items) != len(names):
        return {}
    found = {}
    for item, name in zip(items, names, strict=True):
        tree = parsed(item, "list")
        node = tree.expressions[0] if tree is not None and len(tree.expressions) == 1 else None
        if node is not None:
            found[_plain(sql_text(node.this if isinstance(node, exp.Alias) else node))] = name
    return found


def _plain(text: str) -> str:
    return (
        sql_text(tree.expressions[0]).lower() if (tree := parsed(text, "list")) and tree.expressions else text.lower()
    )


def _key_and_direction(item: str) -> tuple[str, str]:
    """The expression of an ORDER BY item, and its direction: DESC, NULLS LAST and the like."""
    words = StatementWords(item)
    last = len(words.tokens)
    while last > 1 and words.word(last - 1) in ("ASC", "DESC", "FIRST", "LAST", "NULLS", "NULLS FIRST", "NULLS LAST"):
        last -= 1
    return item[: words.start(last)].strip(), item[words.start(last) :].strip()
