"""`spojoin methods` and `spojoin layouts`: the published ways to search a window and to spread the work."""

from __future__ import annotations


def methods() -> None:
    """The methods by which `spojoin run` can search a window, their options and their sources.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --method scan
    """
    from rich.console import Console

    from spojoin.cli.methods import methods_table

    Console().print(methods_table())


def layouts() -> None:
    """The layouts by which the work can be spread over workers, their options and their sources.

    `spojoin run --report` measures each of them, `batch` too, by the same figures: how even the work is, messages and
    bytes, memory, latency and completeness.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --layout scale_join --workers 4
    """
    from rich.console import Console

    from spojoin.cli.methods import layouts_table

    Console().print(layouts_table())
