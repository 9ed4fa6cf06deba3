"""Asynchronous feeds: the rows of pushes, without waiting for more, and nothing left running after an error."""

import asyncio
from contextlib import aclosing

import pyarrow as pa
import pytest

import spojoin
from spojoin.embedded.feeds import pieces_of_feeds
from spojoin.errors import BadData, ConfigurationError

HIGHER = "SELECT l.a, r.a AS higher FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '100')"
CROSS = "SELECT l.a, r.a AS other FROM s AS l JOIN u AS r ON l.a = r.a AND r.at BETWEEN l.at AND l.at + INTERVAL '5 s'"
SIDE = {"a": "int", "at": "timestamp(s)"}
VALUES = [3, 1, 2, 2, 0, 3]
PAIRS = [(1, 3), (2, 3), (1, 2), (2, 3), (1, 2), (0, 3), (0, 1), (0, 2), (0, 2), (1, 3), (2, 3), (2, 3), (0, 3)]


def join():
    return spojoin.Join(HIGHER, {"s": {"a": "int"}})


async def feed(values):
    for value in values:
        yield {"a": [value]}


async def collected(made, feeds):
    with made:
        return [row for table in [t async for t in made.results(feeds)] for row in table.to_pylist()]


def test_results_are_those_of_pushes():
    with join() as pushed:
        tables = [pushed.push({"a": VALUES}), pushed.flush()]
    rows = pa.concat_tables(tables).to_pylist()
    assert sorted((row["a"], row["higher"]) for row in rows) == sorted(PAIRS)
    assert asyncio.run(collected(join(), feed(VALUES))) == rows
    assert asyncio.run(collected(join(), {"s": feed(VALUES)})) == rows


def test_results_come_while_a_feed_is_quiet():
    async def main():
        gate, seen = asyncio.Event(), []

        async def waiting():
            yield {"a": [1, 2]}
            await gate.wait()
            yield {"a": [3]}

        with join() as made:
            async for table in made.results(waiting()):
                seen.append(table.num_rows)
                gate.set()
        return seen

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [1, 2]


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_quiet_stream_holds_the_other_back_until_it_has_ended(is_ended):
    async def main():
        gate = asyncio.Event()

        async def left():
            yield {"a": [1], "at": [10]}
            if not is_ended:
                await gate.wait()
                yield {"a": [1], "at": [11]}

        async def right():
            yield {"a": [1, 1], "at": [12, 13]}
            await asyncio.sleep(0.3)
            gate.set()
            await asyncio.sleep(0.3)

        return await collected(spojoin.Join(CROSS, {"s": SIDE, "u": SIDE}), {"s": left(), "u": right()})

    assert len(asyncio.run(asyncio.wait_for(main(), 60))) == (2 if is_ended else 4)


@pytest.mark.filterwarnings("ignore:the join")
def test_a_feed_is_not_read_ahead():
    read = []

    async def long():
        for number in range(100):
            read.append(number)
            yield {"a": [0, 1] * 5_000}

    async def first():
        with join() as made:
            async with aclosing(made.results(long())) as results:
                return (await anext(results)).num_rows

    assert asyncio.run(first()) > 0
    assert len(read) <= 3  # one is joined, one waits, one is offered


def test_an_error_of_one_feed_ends_all():
    ended = []

    async def endless():
        try:
            while True:
                yield {"a": [1], "at": [1]}
                await asyncio.sleep(0.01)
        finally:
            ended.append(True)

    async def failing():
        yield {"a": [1], "at": [1]}
        raise OSError("the socket is gone")

    with pytest.raises(OSError, match="the socket is gone"):
        asyncio.run(collected(spojoin.Join(CROSS, {"s": SIDE, "u": SIDE}), {"s": endless(), "u": failing()}))
    assert ended == [True]


def test_mistakes_are_those_of_push():
    with pytest.raises(ConfigurationError, match="the feed is of type list: expected an asynchronous iterable"):
        asyncio.run(collected(join(), [{"a": [1]}]))
    with pytest.raises(ConfigurationError, match="the feed of stream 's' is of type dict"):
        asyncio.run(collected(join(), {"s": {"a": [1]}}))
    with pytest.raises(ConfigurationError, match="stream='t': expected one of 's'"):
        asyncio.run(collected(join(), {"t": feed([1])}))

    async def wrong():
        yield 3

    with pytest.raises(BadData, match="rows must be"):
        asyncio.run(collected(join(), wrong()))
    closed = join()
    closed.close()
    with pytest.raises(ConfigurationError, match="closed"):
        asyncio.run(collected(closed, feed([1])))


def test_a_cancelled_reader_leaves_no_thread_at_work():
    async def main():
        async def endless():
            while True:
                yield {"a": list(range(200))}
                await asyncio.sleep(0.005)  # what comes while rows are joined is joined next, which takes ever longer

        async def reading(made):
            async for _ in made.results(endless()):
                pass

        made = join()
        task = asyncio.create_task(reading(made))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = made._pushed
        await asyncio.sleep(0.1)
        assert made._pushed == before
        made.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_comes_with_rows_is_not_lost(turns):
    async def main():
        reader, is_cancelled = asyncio.current_task(), False

        async def five():
            nonlocal is_cancelled
            for number in range(5):
                await asyncio.sleep(0.001)  # the reader waits
                yield {"a": [number]}
                for _ in range(turns):
                    await asyncio.sleep(0)
                is_cancelled = is_cancelled or (number > 0 and reader.cancel())  # the first is awaited without limit

        async with aclosing(pieces_of_feeds(five())) as pieces:
            async for _ in pieces:
                pass

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
