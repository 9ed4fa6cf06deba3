"""`spojoin methods` and `spojoin layouts`: the published ways to search a window and to spread the work."""

from __future__ import annotations


def methods() -> None:
    """List the methods by which `spojoin run` can search a window, with options and sources.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --method scan
    """
    from rich.console import Console

    from spojoin.cli.methods import methods_table

    Console().print(methods_table())


def layouts() -> None:
    """List the layouts by which the work can be spread over workers, with options and sources.

    `spojoin run --report` measures every layout by the same figures: balance of the work, messages and bytes, memory,
    latency and completeness.

    Example:

        spojoin run query.yaml -i trips=trips.csv -o matches.jsonl --layout scale_join --workers 4
    """
    from rich.console import Console

    from spojoin.cli.methods import layouts_table

    Console().print(layouts_table())
