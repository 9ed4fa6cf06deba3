"""`python -m loadgen.engines`, the same as `loadgen engines`."""

from loadgen.engines.commands import engines_app

if __name__ == "__main__":
    engines_app()
