"""Rows from asynchronous feeds, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from spojoin.embedded.arguments import RowsLike
from spojoin.errors import ConfigurationError

#: One feed, or one for each stream by its name.
Feeds = AsyncIterable[RowsLike] | Mapping[str, AsyncIterable[RowsLike]]
#: Seconds without new rows after which the results of those that came are due.
LINGER_S = 0.05

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fed:
    """Rows of a stream's feed; None at its end."""

    stream: str | None
    rows: RowsLike | None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


async def fed(feeds: Feeds) -> AsyncGenerator[Fed | None, None]:
    """All feeds' rows, those of each in its order; None when nothing has come for `LINGER_S` seconds.

    Each feed is one piece ahead. An error of a feed is raised, and the other feeds are cancelled.
    """
    queue: asyncio.Queue[Fed | _Failed] = asyncio.Queue(maxsize=1)
    tasks = [asyncio.create_task(_read(stream, feed, queue)) for stream, feed in _by_stream(feeds).items()]
    left, is_quiet = len(tasks), True
    try:
        while left:
            try:
                # Python 3.11's `wait_for` loses a cancellation that comes together with a piece.
                async with asyncio.timeout(None if is_quiet else LINGER_S):
                    found = await queue.get()
            except TimeoutError:
                is_quiet = True
                yield None
                continue
            if isinstance(found, _Failed):
                raise found.error
            left, is_quiet = left - (found.rows is None), False
            yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _by_stream(feeds: Feeds) -> dict[str | None, AsyncIterable[RowsLike]]:
    found: dict[str | None, AsyncIterable[RowsLike]] = {}
    if isinstance(feeds, Mapping):
        found.update(dict(feeds.items()))
    else:
        found[None] = feeds
    for stream, feed in found.items():
        if not hasattr(feed, "__aiter__"):
            what = "the feed" if stream is None else f"the feed of stream {stream!r}"
            raise ConfigurationError(
                f"{what} is of type {type(feed).__qualname__}: expected an asynchronous iterable of rows; "
                "rows that are at hand are pushed"
            )
    return found


async def _read(stream: str | None, feed: AsyncIterable[RowsLike], queue: asyncio.Queue[Fed | _Failed]) -> None:
    try:
        async for rows in feed:
            await queue.put(Fed(stream, rows))
    except Exception as error:  # noqa: BLE001  (raised where the rows are awaited)
        await queue.put(_Failed(error))
    else:
        await queue.put(Fed(stream, None))


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's result, from another thread; if this is cancelled, the call has ended before it raises."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
