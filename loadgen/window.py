"""The window by its definition, for all code that recomputes results; it is independent of the product.

With length L and slide s, the window of a probe after c rows of the other side holds their indexes
[ceil(c / s) * s - L, c). The window of a probe at event time t holds the preceding rows at ceil(t / s) * s - L or
later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: An event time or a number of rows, or int64 (n,) of them.
At = TypeVar("At", int, "NDArray[np.int64]")


def window_begin(at: At, length: int, slide: int) -> At:
    """The begin of a probe's window; at: its event time, or the number of rows before it."""
    return -(-at // slide) * slide - length


def window_end(at: At, length: int, slide: int) -> At:
    """The last place (index or event time) whose window still holds a row at this place."""
    return (at + length) // slide * slide


def window_of(before: int, length: int, slide: int) -> slice[int, int, None]:
    """The indexes in the window of a probe that `before` rows precede."""
    return slice(max(window_begin(before, length, slide), 0), before)


def window_begin_sql(at: str, length: int, slide: int) -> str:
    """`window_begin` in SQL, where `%` of a negative number is negative."""
    return f"({at} + ((-{at}) % {slide} + {slide}) % {slide}) - {length}"
