"""Several roles as one process: `python -m spojoin.runtime router+sink`, or `together`."""

from __future__ import annotations

import sys

from spojoin.errors import ConfigurationError
from spojoin.protocol.packing import parse_group
from spojoin.runtime.service import EXIT_CONFIGURATION, leave, main


def _main(names: list[str]) -> int:
    try:
        roles = parse_group(names[0] if names else "")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIGURATION
    return main(*roles)


if __name__ == "__main__":
    leave(_main(sys.argv[1:]))
