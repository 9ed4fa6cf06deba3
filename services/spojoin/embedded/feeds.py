"""Rows from asynchronous feeds, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from spojoin.embedded.python_rows import RowsLike
from spojoin.errors import ConfigurationError

#: One feed, or one for each stream by its name.
Feeds = AsyncIterable[RowsLike] | Mapping[str, AsyncIterable[RowsLike]]
#: Seconds without new rows after which the results of earlier rows are due.
LINGER_S = 0.05

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FeedPiece:
    """Rows of a stream's feed, or None as rows if the feed has ended."""

    stream: str | None
    rows: RowsLike | None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


async def pieces_of_feeds(feeds: Feeds) -> AsyncGenerator[FeedPiece | None, None]:
    """The pieces of all feeds as they come; None once nothing has come for `LINGER_S` seconds.

    Each feed is read one piece ahead. If a feed fails, its error is raised and the other feeds are cancelled.
    """
    queue: asyncio.Queue[FeedPiece | _Failed] = asyncio.Queue(maxsize=1)
    tasks = [
        asyncio.create_task(_enqueue_pieces(stream, feed, queue)) for stream, feed in _feeds_by_stream(feeds).items()
    ]
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


def _feeds_by_stream(feeds: Feeds) -> dict[str | None, AsyncIterable[RowsLike]]:
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


async def _enqueue_pieces(
    stream: str | None, feed: AsyncIterable[RowsLike], queue: asyncio.Queue[FeedPiece | _Failed]
) -> None:
    try:
        async for rows in feed:
            await queue.put(FeedPiece(stream, rows))
    except Exception as error:  # noqa: BLE001  (raised where the rows are awaited)
        await queue.put(_Failed(error))
    else:
        await queue.put(FeedPiece(stream, None))


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in another thread. A cancellation is raised only after the call has ended."""
    task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
