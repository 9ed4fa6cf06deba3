"""polars-bio, whose joins find overlapping intervals: a separate program, since it needs an older Polars.

It reads a job as README.md specifies ("An engine"), and answers in micro-batches, as `micro_batches.py` does: it joins
the stored rows that are in all windows of a batch, and with the windows' bounds the rows at both edges.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping

# Read when Polars is imported.
os.environ.setdefault("POLARS_MAX_THREADS", str(len(os.sched_getaffinity(0))))

import numpy as np
import polars as pl
import polars_bio as pb

#: The most probes of a batch, and the part of the window that it may be at most: one in BATCH_OF.
BATCH_MAX, BATCH_OF = 8_192, 8


class Overlaps:
    """A job's rows as intervals: probes p and stored rows s, by row number."""

    def __init__(self, job: Mapping[str, str]) -> None:
        names = job["columns"].split()
        rows = np.fromfile(job["rows"], "<i8").reshape(-1, len(names))
        self._length = int(job["window"])
        frame = pl.DataFrame(dict(zip(names, rows.T, strict=True))).with_row_index("seq").cast(pl.Int64)
        begin, end, stored_begin, stored_end = job["overlap"].split("; ")
        self._probes = _intervals(frame, begin, end, job["key"], ["seq"])
        self._stored = _intervals(frame, stored_begin, stored_end, job["key"], ["seq", "c"])

    def probe(self, first: int, last: int) -> int:
        """The sum of the lists of the probes [first, last), at most a part of the window."""
        length, probes = self._length, self._probes[first:last]
        common = _pairs(probes, self._stored[last - 1 - length : first])
        at_edges = pl.concat([self._stored[first - length : last - 1 - length], self._stored[first : last - 1]])
        edges = _pairs(probes, at_edges).filter(
            (pl.col("seq_s") >= pl.col("seq_p") - length) & (pl.col("seq_s") < pl.col("seq_p"))
        )
        return int(common["c_s"].sum()) + int(edges["c_s"].sum())


def _intervals(frame: pl.DataFrame, begin: str, end: str, key: str, others: list[str]) -> pl.DataFrame:
    """Half-open intervals; the expressions are of columns called p.a or s.a."""
    start, stop = (pl.sql_expr(text.replace("p.", "").replace("s.", "")) for text in (begin, end))
    chrom = pl.col(key).cast(pl.String) if key else pl.lit("all")
    return frame.select(chrom.alias("chrom"), start.alias("start"), stop.alias("end"), *others)


def _pairs(probes: pl.DataFrame, stored: pl.DataFrame) -> pl.DataFrame:
    """The rows of all pairs."""
    for each in (probes, stored):
        each.config_meta.set(coordinate_system_zero_based=True)  # type: ignore[attr-defined]
    found: pl.DataFrame = pb.overlap(probes, stored, suffixes=("_p", "_s"), output_type="polars.DataFrame")
    return found.select("seq_p", "seq_s", "c_s")


def main(path: str) -> None:
    """Run a job until its last mark, or until the parent ends the process."""
    with open(path, encoding="utf-8") as file:
        job = dict(line.rstrip("\n").split("=", 1) for line in file)
    if not job["overlap"]:
        _say({"refused": "it joins overlapping intervals alone"})
        return
    pb.set_option("datafusion.execution.target_partitions", os.environ["POLARS_MAX_THREADS"])
    fill, overlaps = int(job["fill"]), Overlaps(job)
    batch = min(BATCH_MAX, max(16, int(job["window"]) // BATCH_OF))
    overlaps.probe(fill, fill + 16)  # the first probe loads code
    _say({"filled": fill, "version": pb.__version__})
    done, total, began, cpu = 0, 0, time.perf_counter(), time.process_time()
    for mark in map(int, job["marks"].split()):
        for first in range(fill + done, fill + mark, batch):
            total += overlaps.probe(first, min(first + batch, fill + mark))
        done = mark
        _say({"mark": mark, "total": total, "s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu})


def _say(what: dict[str, object]) -> None:
    """Print a line of JSON for the parent."""
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
