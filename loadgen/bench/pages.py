"""Results for people: self-contained HTML pages, tables in Markdown, and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
table { border-collapse: collapse; margin: 1rem 0 } tr { border-bottom: 1px solid #ddd }
td, th { padding: .3rem .9rem .3rem 0; text-align: right; vertical-align: top }
td:first-child, th:first-child { text-align: left }
.right { color: #0a6b2d } .wrong { color: #b00020 }
"""


def html_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page: a heading, and `body` as HTML. style: CSS beside that of all pages."""
    scripts = f"<script>{script}</script>" if script else ""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<style>{_STYLE}{style}</style>{scripts}</head><body><h1>{escape(title)}</h1>{body}</body></html>"
    )


def facts(about: Mapping[str, object]) -> str:
    """Facts in one escaped line, for example "cpu AMD EPYC; cores 2"."""
    return escape("; ".join(f"{name.replace('_', ' ')} {value}" for name, value in about.items()))


def markdown_row(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def number(value: float) -> str:
    """Three significant digits for people, more for large numbers."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
