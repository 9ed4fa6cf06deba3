"""The command `loadgen`; each subcommand is in the folder for its purpose."""

from __future__ import annotations

from typing import Annotated

import typer

import loadgen
from loadgen.chaos.commands import chaos, silence, soak
from loadgen.check.commands import check
from loadgen.demo.commands import demo, fetch
from loadgen.engines.commands import engines_app
from loadgen.errors import one_sentence
from loadgen.load.commands import list_workloads, produce, ramp
from loadgen.load.feed_commands import feed_app
from loadgen.papers.commands import papers
from loadgen.promises.commands import promises
from loadgen.simulate.commands import simulate
from spojoin.cli.errors import COMMAND
from spojoin.cli.options import version_option

app = typer.Typer(
    name="loadgen",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Load for spojoin's services, and evidence that they withstand it.

`loadgen demo` shows everything at work on real flights. `loadgen produce` sends rows, `loadgen ramp` finds the
highest rate that holds, `loadgen chaos` breaks things while every result is checked. `loadgen silence` measures how
long a fault is felt, `loadgen soak` goes on breaking and changing everything for hours. `loadgen simulate` runs the
services' logic in one process under faults that a seed draws. `loadgen workloads` lists what can be sent, each with a
query made for it. `loadgen promises`, `loadgen engines` and `loadgen papers` measure: the speeds that are promised,
other engines, and the papers' figures.""",
)


@app.callback()
def first(
    context: typer.Context, version: Annotated[bool, version_option("loadgen", loadgen.__version__)] = False
) -> None:
    """Runs before every command."""
    COMMAND.set(context.invoked_subcommand)


app.command("demo")(demo)
app.command("produce")(produce)
app.add_typer(feed_app, name="feed")
app.command("workloads")(list_workloads)
app.command("check")(check)
app.command("ramp")(ramp)
app.command("chaos")(chaos)
app.command("silence")(silence)
app.command("soak")(soak)
app.command("simulate")(simulate)
app.command("promises")(promises)
app.add_typer(engines_app, name="engines")
app.command("papers")(papers)
app.command("fetch")(fetch)


def main() -> None:
    """Run the command; print a user's mistake as one sentence."""
    with one_sentence(is_debug=False):
        app()


if __name__ == "__main__":
    main()
