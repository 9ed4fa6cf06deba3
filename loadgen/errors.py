"""How a command of the load generator ends: one sentence for people where something is wrong."""

from __future__ import annotations

from contextlib import AbstractContextManager

from loadgen.extras import LOADGEN
from spojoin.cli import errors


def one_sentence(*, is_debug: bool) -> AbstractContextManager[None]:
    """Turns what a person can put right into one line on stderr and status 2.

    The load generator's data classes raise ValueError for a mistake of the person who gave them their values.
    """
    return errors.one_sentence(is_debug=is_debug, installation=LOADGEN, plain=(ValueError,))
