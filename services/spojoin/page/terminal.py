"""The same state for a terminal: what `spojoin status QUERY --watch` shows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spojoin.page.state import Json
from spojoin.protocol.topology import Hop
from spojoin.telemetry.durations import milliseconds, open_text, unanswered_text
from spojoin.telemetry.hop import HopTime
from spojoin.telemetry.status import HopRow
from spojoin.telemetry.status_table import hop_table

#: rows of results and of dead letters, so that all fits on a screen
ROWS_SHOWN = 5
EVENTS_SHOWN = 3
UNKNOWN = "-"

_STYLES = {"ready": "green", "waiting": "yellow", "gone": "bold red", "unknown": "dim", "off": "dim"}


def screen(state: Json) -> Group:
    """Everything that the page shows, of results and dead letters only the latest."""
    return Group(*_parts(state))


def _parts(state: Json) -> Iterator[RenderableType]:
    yield Text(f"{state['query']['name']}  window of {state['query']['window']}", style="bold")
    yield from (Text(trouble, style="bold red") for trouble in state["troubles"])
    yield from (Text(f"{_clock(one['wall_ms'])} {one['text']}") for one in state["events"][:EVENTS_SHOWN])
    yield Text(_figures(state["summary"]))
    yield from (Text(_window(window)) for window in state["windows"])
    yield _flow(state)
    yield _services(state["services"])
    yield _hops(state["hops"])
    yield _results(state["results"])
    yield _letters(state["dead_letters"])


def _figures(summary: Json) -> str:
    p50, p99 = (milliseconds(summary[name]) for name in ("latency_ms_p50", "latency_ms_p99"))
    return (
        f"in {_rate(summary['in_per_s'])} tuples/s, out {_rate(summary['out_per_s'])} tuples/s, "
        f"matches {_rate(summary['matches_per_s'])}/s\n"
        f"so far {_whole(summary['tuples'])} tuples, {_whole(summary['answered'])} answered, "
        f"{_whole(summary['matches'])} matches, refused {_whole(summary['dead_letters'])}\n"
        f"latency of the last minute p50 {p50}, p99 {p99}; "
        f"oldest unanswered row: {unanswered_text(summary['unanswered_ms'])}{_open(summary)}\n"
        f"{_held(summary)}"
        f"epoch {_whole(summary['epoch'])}, frames under way {_whole(summary['frames_under_way'])}"
    )


def _open(summary: Json) -> str:
    return "" if summary["open_rows"] is None else f"; {open_text(summary['open_rows'], summary['open_ms'])}"


def _held(summary: Json) -> str:
    return f"{summary['held']}\n" if summary["held"] else ""


def _window(window: Json) -> str:
    held, most = window["tuples"], window["tuples_max"]
    if most is None or held is None:
        return f"window of {window['stream']}: {_whole(held)} tuples"
    share = held / most
    filled = round(20 * share)
    return f"window of {window['stream']}: {'█' * filled}{'░' * (20 - filled)} {_whole(held)} of {most:,}"


def _table(*columns: str, numbers: int = 0) -> Table:
    """A table whose last `numbers` columns are numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for at, title in enumerate(columns):
        is_number = at >= len(columns) - numbers
        table.add_column(
            title,
            justify="right" if is_number else "left",
            no_wrap=is_number or (at == 0 and numbers > 0),
            overflow="fold",
        )
    return table


def _flow(state: Json) -> Table:
    """The graph as lines: who writes a topic, at which rate, and who reads it."""
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    for is_whole in (False, True, True, True, False):  # topics and rates are never cut, lists of roles take more lines
        table.add_column(no_wrap=is_whole, overflow="fold")
    table.columns[0].justify = "right"
    for name, topic in state["topics"].items():
        from_, to = (", ".join(topic[side]) or "your programs" for side in ("writers", "readers"))
        table.add_row(from_, "──▶", Text(f"{name} {_rate(topic['records_per_s'])}/s", style="cyan"), "──▶", to)
    return table


def _services(services: list[Json]) -> Table:
    table = _table("service", "state", "per second", "lag", "CPU %", "MB", "retries", numbers=5)
    for one in services:
        state = Text(one["said"] if one["state"] == "waiting" else one["state"], style=_STYLES[one["state"]])
        table.add_row(one["service"], state, *_numbers(one))
    return table


def _numbers(one: Json) -> list[str]:
    is_counting_tuples = one.get("tuples_per_s") is not None
    speed = one.get("tuples_per_s" if is_counting_tuples else "records_per_s")
    unit = "" if speed is None else " tuples" if is_counting_tuples else " records"
    cpu, rss = one.get("cpu_share"), one.get("rss_bytes")
    used = [_whole(None if cpu is None else 100 * cpu), _whole(None if rss is None else rss / (1 << 20))]
    return [_rate(speed) + unit, _whole(one.get("lag")), *used, _whole(one.get("retries"))]


def _hops(hops: list[Json]) -> RenderableType:
    if not hops:
        return Text("where a frame's time goes: no frame in the last minute", style="dim")
    return hop_table([_hop_row(hop) for hop in hops])


def _hop_row(hop: Json) -> HopRow:
    took = HopTime(hop["mean_ms"], hop["p50_ms"], hop["p99_ms"])
    return HopRow(Hop(hop["hop"]), hop["service"], hop["services"], took, hop["share"])


def _results(results: Json | None) -> RenderableType:
    if results is None or not results["rows"]:
        return Text("results: none yet", style="dim")
    table = _table(*results["columns"])
    for row in results["rows"][:ROWS_SHOWN]:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _letters(letters: list[Json] | None) -> RenderableType:
    if not letters:
        return Text("dead letters: none" if letters is not None else "dead letters: not read yet", style="dim")
    table = _table("refused", "why", "message")
    for letter in letters[:ROWS_SHOWN]:
        table.add_row(*(Text(letter[name]) for name in ("place", "detail", "value")))
    return table


def _clock(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000).strftime("%H:%M:%S")


def _whole(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _rate(value: float | None) -> str:
    return f"{value:.1f}" if value is not None and 0 < value < 10 else _whole(value)
