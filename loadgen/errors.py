"""Errors of the load generator's commands, as one sentence."""

from __future__ import annotations

from contextlib import AbstractContextManager

from loadgen.extras import LOADGEN
from spojoin.cli import errors


def one_sentence(*, is_debug: bool) -> AbstractContextManager[None]:
    """Turns errors that the user can correct into one line on stderr and status 2.

    The load generator's data classes raise ValueError for the user's invalid values.
    """
    return errors.one_sentence(is_debug=is_debug, installation=LOADGEN, plain=(ValueError,))
