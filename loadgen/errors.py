"""How the command ends: one sentence where something is wrong, a traceback only where it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager

from spojoin.cli import errors


def one_sentence(*, is_debug: bool) -> AbstractContextManager[None]:
    """Turns what a person can put right into one line on stderr and status 2.

    The load generator's data classes raise ValueError for a mistake of the person who gave them their values.
    """
    return errors.one_sentence(is_debug=is_debug, program="loadgen", plain=(ValueError,))
