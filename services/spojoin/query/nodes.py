"""sqlglot's expressions: comparisons with their operators, and nodes as text."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.generators.duckdb import DuckDBGenerator

from spojoin.model import OPERATORS, Op

DIALECT = "duckdb"

NODE_OF_OP: dict[Op, type[exp.Expression]] = {
    Op.LT: exp.LT,
    Op.LE: exp.LTE,
    Op.GT: exp.GT,
    Op.GE: exp.GTE,
    Op.EQ: exp.EQ,
    Op.NE: exp.NEQ,
}
OP_OF_NODE = {node: op for op, node in NODE_OF_OP.items()}
#: For each kind of comparison, the kind with swapped operands.
FLIPPED_NODE = {node: NODE_OF_OP[op.flipped] for node, op in OP_OF_NODE.items()}
SIGN_OF_NODE = {node: OPERATORS[op].sign for node, op in OP_OF_NODE.items()}


class _PlainWriter(DuckDBGenerator):
    """Writes names unchanged, without quotes around names that DuckDB reserves, such as `at`."""

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


def sql_text(node: exp.Expression) -> str:
    """A node as text, without the parentheses around it."""
    return written(bare(node))


def characters_of(node: exp.Expression) -> tuple[int, int] | None:
    """The range of characters of a name in the statement; None for other nodes."""
    if not isinstance(node, exp.Column | exp.Table | exp.Identifier):
        return None
    places = [part.meta for part in node.find_all(exp.Identifier) if "start" in part.meta]
    return (min(each["start"] for each in places), max(each["end"] for each in places) + 1) if places else None
