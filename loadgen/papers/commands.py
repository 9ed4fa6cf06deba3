"""`loadgen papers`: the papers' figures, measured again."""

# A command's docstring is what --help shows, blank lines and all. Imports stand inside, so that help is quick.
# ruff: noqa: PLC0415, D412, D413

from __future__ import annotations

from loadgen.errors import one_sentence
from loadgen.papers.options import PapersOptions
from spojoin.cli.options import with_options


@with_options
def papers(asked: PapersOptions) -> None:
    """Measure the papers' figures on this machine, and draw them.

    Example:

        loadgen papers --quick --only pim_tree
    """
    with one_sentence(is_debug=False):
        from loadgen.papers.session import draw

        draw(asked)
