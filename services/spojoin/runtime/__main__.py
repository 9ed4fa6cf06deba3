"""Several roles as one process: `python -m spojoin.runtime router+sink`, or `together`."""

from __future__ import annotations

import sys

from spojoin.runtime.service import leave, main

if __name__ == "__main__":
    leave(main(" ".join(sys.argv[1:])))
