"""Reads the select list: the columns of results and their names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from spojoin.errors import QueryError
from spojoin.model import AGGREGATE, PairExpression, Selected, Use, quoted_column
from spojoin.query.computed import pair_expression
from spojoin.query.nodes import sql_text
from spojoin.query.scope import Scope
from spojoin.suggest import unknown


def read_select(
    columns: Sequence[exp.Expression],
    scope: Scope,
    texts: Sequence[str | None] | None = None,
    sides: Sequence[int] = (0, 1),
) -> tuple[Selected, ...]:
    """The columns of results in order; a name that would occur twice is prefixed with the alias of its side.

    texts: each item's name if it has no alias and is not a column; sides: the sides that `*` gives, in order
    """
    found = [
        (selected, _is_star(node))
        for node, text in zip(columns, texts or [None] * len(columns), strict=True)
        for selected in _expanded(node, scope, text, sides)
    ]
    repeated = _repeated_names([selected for selected, _ in found])
    repeated_written = _repeated_names([selected for selected, is_of_star in found if not is_of_star])
    named = [
        _with_alias(each, scope) if each.name.lower() in (repeated if is_of_star else repeated_written) else each
        for each, is_of_star in found
    ]
    _check_different_names(named, columns, scope)
    return tuple(named)


def _repeated_names(found: Sequence[Selected]) -> set[str]:
    """The names, in lower case, that occur twice; columns of one side may differ only in case."""
    exact = Counter(each.name for each in found)
    sides: dict[str, set[int | None]] = defaultdict(set)
    for each in found:
        sides[each.name.lower()].add(each.plain.side if each.plain is not None else None)
    return {each.name.lower() for each in found if exact[each.name] > 1 or len(sides[each.name.lower()]) > 1}


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _expanded(node: exp.Expression, scope: Scope, text: str | None, sides: Sequence[int]) -> list[Selected]:
    if isinstance(node, exp.Star):
        return _of_star(node, _all_of(scope, sides), scope)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _of_star(node.this, scope.columns_of_side(scope.side_of(node.args["table"], scope.line_of(node))), scope)
    alias, value = (node.alias, node.this) if isinstance(node, exp.Alias) else (None, node)
    plain = scope.passed_column(value) if isinstance(value, exp.Column) else None
    if plain is not None:
        name = text if plain.side == AGGREGATE else plain.name
        return [replace(_plain(plain), name=alias or name or plain.name)]
    part = value.name if isinstance(value, exp.Dot) else None  # DuckDB's name for a part of a struct
    return [Selected(alias or text or part or sql_text(value), pair_expression(value, scope), None)]


def _all_of(scope: Scope, sides: Sequence[int]) -> list[Use]:
    """The columns of both sides; those that USING merges occur once, in the place of the first."""
    found: dict[object, Use] = {}
    for use in (each for side in sides for each in scope.columns_of_side(side)):
        is_shared = use.name.lower() in scope.using
        found.setdefault(use.name.lower() if is_shared else use, replace(use, side=0) if is_shared else use)
    return list(found.values())


def _of_star(star: exp.Star, uses: Sequence[Use], scope: Scope) -> list[Selected]:
    """The columns that a star gives, without those of EXCLUDE, with the values of REPLACE and the names of RENAME."""
    left_out = dict.fromkeys((each.name.lower(), each.table.lower()) for each in star.args.get("except_") or ())
    replaced = {each.alias.lower(): each.this for each in star.args.get("replace") or ()}
    renamed = {each.this.name.lower(): each.alias for each in star.args.get("rename") or ()}
    known = {use.name.lower(): None for use in uses}
    named = (*(name for name, _ in left_out), *replaced, *renamed)
    if strange := next((name for name in named if name not in known), None):
        raise QueryError(unknown("column", strange, known), scope.line_of(star))
    kept = [use for use in uses if not any((use.name.lower(), of) in left_out for of in ("", _alias(use, scope)))]
    found = [(use.name.lower(), _selected(use, replaced.get(use.name.lower()), scope)) for use in kept]
    return [replace(each, name=renamed.get(name, each.name)) for name, each in found]


def _alias(use: Use, scope: Scope) -> str:
    return scope.aliases[use.side].lower()


def _selected(use: Use, value: exp.Expression | None, scope: Scope) -> Selected:
    return _plain(use) if value is None else Selected(use.name, pair_expression(value, scope), None)


def _plain(use: Use) -> Selected:
    sql = quoted_column(use)
    return Selected(use.name, PairExpression(sql, (use,), use.type, use.name), use)


def _are_columns_of_one_side(alike: Sequence[Selected]) -> bool:
    """Whether names that differ only in case are columns of one side."""
    uses = [each.plain for each in alike if each.plain is not None]
    sides, names = {use.side for use in uses}, {use.name for use in uses}
    return len(uses) == len(alike) == len(names) == len({each.name for each in alike}) and len(sides) == 1


def _with_alias(selected: Selected, scope: Scope) -> Selected:
    if selected.plain is None or selected.name != selected.plain.name:
        return selected
    return replace(selected, name=f"{scope.aliases[selected.plain.side]}_{selected.name}")


def _check_different_names(found: Sequence[Selected], columns: Sequence[exp.Expression], scope: Scope) -> None:
    by_name: dict[str, list[Selected]] = defaultdict(list)
    for each in found:
        by_name[each.name.lower()].append(each)
    for name, alike in by_name.items():
        if len(alike) > 1 and not _are_columns_of_one_side(alike):
            raise QueryError(
                f"two columns of results are called '{name}': expected different names, such as "
                f"{found[0].expression.text} AS {name}_2",
                scope.line_of(columns[0]),
            )
