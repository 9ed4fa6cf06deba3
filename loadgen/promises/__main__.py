"""`python -m loadgen.promises`, the same as `loadgen promises`."""

import typer

from loadgen.promises.commands import promises

if __name__ == "__main__":
    typer.run(promises)
