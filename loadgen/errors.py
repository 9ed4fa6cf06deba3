"""How the command ends: one sentence where something is wrong, a traceback only where it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from loadgen.extras import LOADGEN
from spojoin.cli.errors import STATUS_INTERRUPTED, STATUS_MISTAKE, describe
from spojoin.cli.extras import COMMAND


@contextmanager
def one_sentence(*, is_debug: bool) -> Iterator[None]:
    """Turns what a person can put right into one line on stderr and status 2."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(STATUS_INTERRUPTED) from None
    except Exception as error:
        sentence = _sentence(error)
        if is_debug or sentence is None:
            raise
        print(f"loadgen: {sentence}", file=sys.stderr)
        raise SystemExit(STATUS_MISTAKE) from error


def _sentence(error: Exception) -> str | None:
    if isinstance(error, ModuleNotFoundError):
        return LOADGEN.missing(error, COMMAND.get())
    return str(error) if isinstance(error, ValueError | FileNotFoundError) else describe(error)
