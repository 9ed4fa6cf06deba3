"""The methods of search and the layouts, for people."""

from __future__ import annotations

from rich.table import Table

from spojoin.published.layouts.catalog import LAYOUTS
from spojoin.published.methods.catalog import METHODS, MethodOption


def methods_table() -> Table:
    """Each method with its options, what it does and where it comes from."""
    shown = Table(title="Methods", title_justify="left", show_lines=True)
    for heading in ("method", "what", "options", "source"):
        shown.add_column(heading)
    for about in METHODS.values():
        shown.add_row(about.name, about.about, "\n".join(map(_told, about.options)), about.cites)
    return shown


def layouts_table() -> Table:
    """Each layout with its options, where it runs, what it does and where it comes from."""
    shown = Table(title="Layouts", title_justify="left", show_lines=True)
    for heading in ("layout", "what", "options", "runs in", "source"):
        shown.add_column(heading)
    for about in LAYOUTS.values():
        where = "run, services" if about.is_served else "run"
        shown.add_row(about.name, about.about, "\n".join(map(_told, about.options)), where, about.cites)
    return shown


def _told(option: MethodOption) -> str:
    return f"{option.name} = {option.default}: {option.about} ({option.expected})"
