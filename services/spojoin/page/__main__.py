"""The page as a process."""

from __future__ import annotations

from spojoin.page.service import main
from spojoin.runtime.process import leave

if __name__ == "__main__":
    leave(main())
