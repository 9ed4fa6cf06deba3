"""How a statement is evaluated in one process, in words and tables."""

from __future__ import annotations

import io

from rich.console import Console

from spojoin.embedded.divided_statement import DividedStatement
from spojoin.embedded.table_join import is_joined_by_duckdb
from spojoin.embedded.table_pairs import COMPARED_MAX, PARTNERS_MAX
from spojoin.explain.plan import explain, render

_BY_DUCKDB = (
    f"DuckDB finds the pairs by a hash join or an inequality join while rows have at most {PARTNERS_MAX} partners in "
    f"the mean, among at most {COMPARED_MAX} rows of equal keys; from then on the index does."
)


def show_plan(statement: DividedStatement, console: Console) -> None:
    """Print the plan of each join, and what DuckDB does with their rows."""
    for name, join in statement.joins.items():
        if not statement.is_alone:
            console.print(f"[bold]{name}[/], run by spojoin:", highlight=False)
        render(explain(join.query), console, is_served=False)
        if is_joined_by_duckdb(join.query):
            console.print(_BY_DUCKDB, highlight=False)
    if not statement.is_alone:
        console.print("run by DuckDB:", highlight=False)
        console.print(f"  {statement.sql}", highlight=False, markup=False)


def explained(statement: DividedStatement) -> str:
    """The plan as text."""
    text = io.StringIO()
    show_plan(statement, Console(file=text, width=120, force_terminal=False))
    return text.getvalue()
