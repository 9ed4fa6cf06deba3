"""`spojoin warm-up`: compiles ahead what statements compile when the first of their kind runs."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from spojoin.cli.commands.common import Debug
from spojoin.cli.errors import one_sentence
from spojoin.cli.options import with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpOptions:
    """How it fails."""

    debug: Debug = False


@with_options
def warm_up(options: WarmUpOptions) -> None:
    """Compile all kernels now, once after each installation: some minutes on two cores.

    Without it the first statement of each kind compiles what it needs, which takes 5 to 25 s. What is compiled is kept
    beside the sources, or in NUMBA_CACHE_DIR.

    Example:

        spojoin warm-up
    """
    with one_sentence(is_debug=options.debug):
        from spojoin.embedded.warm_up import warm_up as compile_all

        typer.echo("compiling all kernels, which takes some minutes, once", err=True)
        compile_all()
