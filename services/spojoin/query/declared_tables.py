"""The option `tables` of a query file: each table's columns, and the file or topic that its rows come from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from spojoin.errors import QueryError
from spojoin.model import TableSource
from spojoin.query.assemble import ParsedStatement, StreamOptions
from spojoin.query.declared_streams import checked_name, declared_columns, declared_form, optional_text
from spojoin.query.document import Item, items
from spojoin.query.tables import check_left
from spojoin.query.units import DURATION_EXPECTED, parse_duration_us

_OPTIONS = ("file", "topic", "schema", "refresh", "csv")
_REFRESH_MS_MAX = 86_400_000
_NEEDLESS = {
    "key": "rows of a topic are told apart by the keys of their messages, those of a file replaced as a whole",
    "time": "its rows are in the window at any time",
}


def read_tables(option: Item) -> dict[str, StreamOptions]:
    """The tables by name. Raises QueryError."""
    tables = items(option.node, "tables", "names of tables, each with its file or topic, and its schema")
    return {name: _table(item) for name, item in tables.items()}


def with_tables(parsed: ParsedStatement, tables: Collection[str]) -> ParsedStatement:
    """A statement of which the sides of these names are tables. Raises QueryError where the left one is."""
    statement = parsed.statement
    left, right = (
        replace(side, is_table=side.is_table or side.stream in tables) for side in (statement.left, statement.right)
    )
    marked = replace(statement, left=left, right=right)
    check_left(marked)
    return replace(parsed, statement=marked)


def _table(item: Item) -> StreamOptions:
    checked_name(item, "table")
    what = f"table {item.name}"
    options = items(item.node, what, "a file or a topic, and a schema", (*_OPTIONS, "key", "time"))
    for name in ("key", "time"):
        if name in options:
            raise QueryError(f"{what}: {_NEEDLESS[name]}: remove '{name}'", options[name].line)
    if ("file" in options) is ("topic" in options):
        raise QueryError(f"{what}: expected either 'file', the path of one, or 'topic', the name of one", item.line)
    if "schema" not in options:
        raise QueryError(
            f"{what}: missing option 'schema': expected columns and their types; `spojoin schema` prints those of a "
            "file or of a registered schema",
            item.line,
        )
    file = optional_text(options.get("file"), "the path of a file, such as tiers.parquet")
    topic = optional_text(options.get("topic"), "the name of a compacted topic")
    source = TableSource(file, topic, _refresh_ms(options["refresh"], what, file) if "refresh" in options else 1_000)
    schema = declared_columns(options["schema"], what)
    form = declared_form(options.get("csv"), what)
    return StreamOptions(item.name, schema, None, None, item.line, table=source, file=form)


def _refresh_ms(item: Item, what: str, file: str | None) -> int:
    text = optional_text(item, DURATION_EXPECTED) or ""
    found = parse_duration_us(text)
    if file is not None:
        raise QueryError(f"{what}: refresh is of topics, a file is read once: remove it", item.line)
    if found is None or not 1_000 <= found <= _REFRESH_MS_MAX * 1_000:
        raise QueryError(f"{what}: refresh '{text}': expected {DURATION_EXPECTED}, from 1 ms to 1 day", item.line)
    return found // 1_000
