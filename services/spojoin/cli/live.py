"""`spojoin status`: the services' table, again and again."""

from __future__ import annotations

import time

from rich.console import Console
from rich.live import Live

from spojoin.runtime.redis_store import RedisStore
from spojoin.runtime.status import status_table

REFRESH_S = 1.0


def show_status(url: str, console: Console, *, is_once: bool) -> None:
    """Print the table, once or every second until Ctrl-C. Raises StoreUnavailable."""
    store = RedisStore(url)
    try:
        if is_once:
            console.print(status_table(store))
            return
        with Live(status_table(store), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(status_table(store), refresh=True)
    finally:
        store.close()
