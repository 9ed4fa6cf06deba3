"""Section `scan`: what a window costs without an index."""

from __future__ import annotations

from collections.abc import Iterator

from loadgen.promises.context import Context
from loadgen.promises.data import ABOUT, NAMES, columns
from loadgen.promises.figures import Measurement
from loadgen.promises.scans import time_scans


def measure(context: Context) -> Iterator[Measurement]:
    """Every scan of every workload, one direction and both."""
    sizes = context.sizes
    for name in NAMES:
        data = columns(name, sizes.window + sizes.scan_probes)
        timed = time_scans(data[: sizes.window], data[sizes.window :], sizes.repeats)
        for scan, both_us in timed.all_us.items():
            note = f"{ABOUT[name]}; both directions {both_us:.1f} us" + ("; the baseline" if scan == timed.name else "")
            yield Measurement(f"{name}: {scan}", both_us / 2, "us a probe and direction", note=note)
