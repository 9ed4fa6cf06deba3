"""How a join, its results and its refused rows look in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import pyarrow as pa

from spojoin.embedded.rejects import Reject

#: The number of rows of a table that are shown.
SHOWN_ROWS = 10

#: The key in a schema's metadata that marks a table of results; its value is the query's name.
MARK = b"spojoin.query"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A table as HTML; all text in it is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def results_html(table: pa.Table) -> str | None:
    """The first rows of a table of results as HTML; None for other tables, which look as before."""
    name = (table.schema.metadata or {}).get(MARK)
    if name is None:
        return None
    rows = [list(map(str, row.values())) for row in table.slice(0, SHOWN_ROWS).to_pylist()]
    return html_table(table.column_names, rows, f"{name.decode()}: {_of(len(rows), table.num_rows, 'results')}")


class Rejects(list[Reject]):
    """A list of refused rows, in order, that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = [(r.position, r.stream, r.reason, r.detail, _row_text(r.row)) for r in self[:SHOWN_ROWS]]
        caption = _of(len(rows), len(self), "refused rows")
        return html_table(["position", "stream", "reason", "detail", "row"], rows, caption)


def _row_text(row: Mapping[str, object] | str | None) -> str:
    if isinstance(row, Mapping):
        return ", ".join(f"{name}: {value}" for name, value in row.items())
    return row or "(long ago)"


def _of(shown: int, total: int, what: str) -> str:
    return f"{total:,} {what}" if shown == total else f"the first {shown:,} of {total:,} {what}"


def show_results() -> None:
    """Make notebooks show tables of results as HTML, unless the user has set a formatter for tables."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    formatter = getattr(getattr(shell, "display_formatter", None), "formatters", {}).get("text/html")
    if formatter is None:
        return
    before = formatter.for_type(pa.Table, results_html)
    if before is not None:
        formatter.for_type(pa.Table, before)
