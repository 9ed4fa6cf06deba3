"""The threads that share the work of frames in one process."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Thread
from typing import Generic, TypeVar, cast

T = TypeVar("T")


def cores() -> int:
    """The cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # macOS has none
    return len(allowed(0)) if allowed else os.cpu_count() or 1


class Threads:
    """The caller's thread and `threads` - 1 helpers, which start with the first work for them.

    A thread that waits for pieces of its work has run pieces itself, and a thread that waits for a lane runs other
    waiting jobs. So nothing waits forever, even without helpers. Helpers end on `close`, or when this object is freed.

    reluctance: as in `TaskRunner`
    """

    def __init__(self, threads: int, reluctance: int = 1) -> None:
        self.threads = threads
        self.reluctance = reluctance
        self._jobs = _Jobs()
        self._helpers: list[Thread] = []
        weakref.finalize(self, self._jobs.close)

    def each(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all tasks, in order. Raises what a task raised; no task runs any more when this returns."""
        if self.threads == 1 or len(tasks) < 2:
            return [task() for task in tasks]
        self._start()
        pieces = _Pieces(tasks, self._jobs)
        self._jobs.add_first(pieces.take, min(len(tasks), self.threads) - 1)
        pieces.take()
        self._jobs.withdraw(pieces.take)
        return cast("list[T]", pieces.results())

    def lane(self, most: int) -> Lane[T]:
        """A new lane for iterators that run one after the other; at most `most` of their results wait to be taken."""
        self._start()
        return Lane(self._jobs, most)

    def work_until(self, is_done: Callable[[], bool]) -> None:
        """Run waiting jobs until `is_done()`, which is called again after each job."""
        self._jobs.work_until(is_done)

    def close(self) -> None:
        """End the helpers: they finish the jobs that they have begun, and waiting jobs are dropped."""
        self._jobs.close()
        for helper in self._helpers:
            helper.join()

    def _start(self) -> None:
        while len(self._helpers) < self.threads - 1:
            # Daemons, since an engine may live until the interpreter exits, which waits for all other threads.
            helper = Thread(target=_help, args=(self._jobs,), name="spojoin-helper", daemon=True)
            self._helpers.append(helper)
            helper.start()


class Lane(Generic[T]):
    """Iterators that run one at a time, in the order in which they were added, while the caller goes on.

    most: how many results may wait to be taken; the lane pauses at this number
    """

    def __init__(self, jobs: _Jobs, most: int) -> None:
        self._jobs = jobs
        self._most = most
        self._tasks: deque[Iterator[T]] = deque()
        self._results: deque[T] = deque()
        self._is_full = False
        self._error: BaseException | None = None

    @property
    def waiting(self) -> int:
        """How many iterators haven't ended."""
        return len(self._tasks)

    @property
    def has_news(self) -> bool:
        """Whether there is a result or an error to take."""
        return bool(self._results) or self._error is not None

    @property
    def is_idle(self) -> bool:
        """Whether all iterators have ended and all results were taken."""
        return not self._tasks and not self.has_news

    def add(self, task: Iterator[T]) -> None:
        """Run an iterator after all earlier ones; after an error none runs."""
        with self._jobs.changed:
            self._tasks.append(task)
            if len(self._tasks) == 1:
                self._jobs.add(self._next)

    def take(self) -> Iterator[T]:
        """The results that are ready and not yet taken, in order. Raises what an iterator raised, once."""
        while self._results:
            with self._jobs.changed:
                taken = self._results.popleft()
                if self._is_full:
                    self._is_full = False
                    self._jobs.add(self._next)
            yield taken
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _next(self) -> None:
        """Run one iterator only, so that the thread can do other work before the next."""
        try:
            for result in self._tasks[0]:
                if self._is_filled_by(result):
                    return
        except BaseException as error:  # noqa: BLE001 - raised by `take`, in the thread that waits for the result
            with self._jobs.changed:
                self._error = error
                self._tasks.clear()
            return
        with self._jobs.changed:
            self._tasks.popleft()
            if self._tasks:
                self._jobs.add(self._next)

    def _is_filled_by(self, result: T) -> bool:
        with self._jobs.changed:
            self._results.append(result)
            self._is_full = len(self._results) >= self._most
            self._jobs.changed.notify_all()
            return self._is_full


class _Pieces:
    """Tasks that several threads share: each thread takes the next task that no other has taken."""

    def __init__(self, tasks: Sequence[Callable[[], object]], jobs: _Jobs) -> None:
        self._jobs = jobs
        self._results: list[object] = [None] * len(tasks)
        self._left = deque(enumerate(tasks))
        self._running = 0
        self._error: BaseException | None = None

    def take(self) -> None:
        """Run tasks until none is left; after an error no thread takes another."""
        while (taken := self._next()) is not None:
            at, task = taken
            error = None
            try:
                self._results[at] = task()
            except BaseException as raised:  # noqa: BLE001 - raised by `results`, in the thread that asked for them
                error = raised
            self._finished(error)

    def results(self) -> list[object]:
        """What the tasks returned, once all have."""
        with self._jobs.changed:
            self._jobs.changed.wait_for(lambda: self._running == 0 or self._jobs.is_closed())
            if self._running:  # a signal may have ended a thread before it counted its task as finished
                raise RuntimeError("the threads were closed while pieces of a task ran")
        if self._error is not None:
            raise self._error
        return self._results

    def _next(self) -> tuple[int, Callable[[], object]] | None:
        with self._jobs.changed:
            if not self._left:
                return None
            self._running += 1
            return self._left.popleft()

    def _finished(self, error: BaseException | None) -> None:
        with self._jobs.changed:
            self._running -= 1
            if error is not None:
                self._error = self._error or error
                self._left.clear()
            if self._running == 0:
                self._jobs.changed.notify_all()


class _Jobs:
    """The jobs that wait for a thread. A job never raises: it keeps its error until its result is requested."""

    def __init__(self) -> None:
        self.changed = Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_closed = False

    def add(self, job: Callable[[], None]) -> None:
        with self.changed:
            self._waiting.append(job)
            self.changed.notify_all()

    def add_first(self, job: Callable[[], None], times: int) -> None:
        """Put `times` copies of a job that a thread waits for before all others, for as many threads."""
        with self.changed:
            self._waiting.extendleft([job] * times)
            self.changed.notify_all()

    def withdraw(self, job: Callable[[], None]) -> None:
        """Remove all copies of a job that no thread has begun."""
        with self.changed:
            while job in self._waiting:
                self._waiting.remove(job)

    def work_until(self, is_done: Callable[[], bool]) -> None:
        """Run jobs until `is_done()`, and wait while there is none."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: is_done() or self._waiting)
                if is_done():
                    return
                job = self._waiting.popleft()
            job()
            with self.changed:
                self.changed.notify_all()

    def close(self) -> None:
        """Drop the waiting jobs and end the helpers."""
        with self.changed:
            self._waiting.clear()
            self._is_closed = True
            self.changed.notify_all()

    def is_closed(self) -> bool:
        """Whether the helpers should end."""
        return self._is_closed


def _help(jobs: _Jobs) -> None:
    jobs.work_until(jobs.is_closed)
