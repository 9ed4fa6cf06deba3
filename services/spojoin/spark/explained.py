"""Says how a history will be answered, before a task begins."""

from __future__ import annotations

from spojoin.spark.blocks import HistoryBlocks
from spojoin.spark.history import HistoryJoin
from spojoin.spark.shares import TWICE_ONE_IN


def explained(history: HistoryJoin) -> str:
    """The plan in a few lines."""
    blocks, shares = history.gathered.blocks, history.shares
    rows = blocks.rows_of(0, blocks.answering)
    if not shares:
        return "no rows" if not len(blocks) else "no rows before `until`"
    reads = [blocks.rows_of(share.first, share.last) for share in shares]
    twice = (sum(reads) - rows) / rows
    memory = max(history.division.memory_of(share.first, share.last) for share in shares)
    lines = [
        f"{blocks.rows_of(0, len(blocks)):,} rows in {len(blocks):,} blocks, {_order(history)}{_until(blocks)}",
        f"{len(shares):,} tasks, the largest of {max(reads):,} rows; {twice:.1%} of all rows are read twice, because "
        f"windows reach up to {history.window_rows:,} rows back",
        f"memory a task: up to {memory / 2**20:,.0f} MiB, {history.state_bytes / 2**20:,.0f} of them for full windows",
    ]
    if twice * TWICE_ONE_IN > 1:
        lines.append(f"more than a fifth is read twice: {_why(history)}")
    refused = ", ".join(f"{reason} {count:,}" for reason, count in history.gathered.refused.items())
    return "\n".join(lines + ([f"refused rows, which answer nothing: {refused}"] if refused else []))


def _order(history: HistoryJoin) -> str:
    by = " and ".join(", ".join(order.by) for order in history.orders)
    return f"sorted by {by}" if history.gathered.is_sorted else f"in the order of {by} as they are"


def _until(blocks: HistoryBlocks) -> str:
    numbered = int(blocks.numbered_before[-1])
    return "" if blocks.own == numbered else f"; {blocks.own:,} answer, those before `until`"


def _why(history: HistoryJoin) -> str:
    if history.division.is_asked:
        return "that many shares were asked for"
    if history.division.is_short_of_memory:
        return "a task's memory allows no larger shares; raise spark.spojoin.memory"
    return "a block is the least that is read of a window"
