"""Pages in headless Chromium, as people see them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on PATH (Debian: apt install chromium)")
PATIENCE_S = 120


def dom_at(address: str, folder: Path) -> str:
    """The DOM that Chromium builds from a page within some seconds of the page's time."""
    return chromium(folder, "--dump-dom", address)


def chromium(folder: Path, *arguments: str) -> str:
    """What Chromium prints; its profile is in the folder."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'chromium'}"]
    command = [CHROMIUM, *flags, "--virtual-time-budget=4000", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
