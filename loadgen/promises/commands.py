"""`loadgen promises`: measure every speed that is promised."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from loadgen.errors import one_sentence
from loadgen.promises.options import PromisesOptions
from spojoin.cli.options import with_options


@with_options
def promises(asked: PromisesOptions) -> None:
    """Measure, print a table, write bench.json. Leave the machine alone meanwhile.

    A bar that is missed is shown as missed and is no error. The exit status is 0 if everything could be measured; the
    traceback of a section that fails comes at the end.

    Example:

        loadgen promises --only probe
    """
    with one_sentence(is_debug=False):
        from loadgen.promises.session import measure

        measure(asked)
