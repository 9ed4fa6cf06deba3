"""A soak's watch over the memory of processes and the broker's disk."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

#: The share by which memory may grow, and the number of parts into which a setup's samples are cut.
GROWTH_MAX = 0.05
PARTS = 10
#: Samples that a part needs; with fewer, growth is unknown.
PART_SAMPLES_MIN = 5
_BLOCK_BYTES = 512


def rss_bytes(pid: int) -> int:
    """The memory of a process; 0 if the process is gone or the system doesn't report it."""
    try:
        return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def topic_bytes(folder: Path) -> dict[str, int]:
    """Bytes of each partition on the broker's disk, by the name of its folder."""
    found: dict[str, int] = {}
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.is_dir():
            found[place.name] = sum(_disk_bytes(file) for file in place.iterdir())
    return found


def _disk_bytes(file: Path) -> int:
    """Bytes of a file on the disk, without the holes of index files; 0 if it was just deleted."""
    try:
        return file.stat().st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of memory in one setup.

    samples: their number; first_bytes: the median of the first tenth; most_bytes: the largest median of a later tenth
    """

    samples: int
    first_bytes: int
    most_bytes: int

    @property
    def share(self) -> float | None:
        """The largest share by which memory grew; None if there are too few samples."""
        if self.samples < PARTS * PART_SAMPLES_MIN:
            return None
        return self.most_bytes / self.first_bytes - 1

    @property
    def is_bounded(self) -> bool:
        """Whether memory didn't grow too much, or its growth is unknown."""
        return self.share is None or self.share <= GROWTH_MAX


@dataclass(slots=True)
class MemoryWatch:
    """Sums of all services' memory, by setup, taken while all are well.

    A sum is compared only with sums of the same setup and number of workers, since these have the same processes. It is
    taken only at rest, because a backlog or a starting process changes memory. Each setup's samples, in order, are cut
    into PARTS of equal size; a part's median ignores the effect of one restart on a few samples.
    """

    sums: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    peaks: dict[str, int] = field(default_factory=dict)

    def sample(self, setup: str, by_process: Mapping[str, int]) -> None:
        """Note the memory of the services, by process, at rest."""
        if all(by_process.values()):
            self.sums[setup].append(sum(by_process.values()))
        for name, found in by_process.items():
            self.peaks[name] = max(found, self.peaks.get(name, 0))

    def growth(self) -> dict[str, Growth]:
        """The growth by setup."""
        return {setup: _growth(sums) for setup, sums in self.sums.items()}


def _growth(sums: Sequence[int]) -> Growth:
    parts = [part for part in np.array_split(np.array(sums), PARTS) if len(part)]
    medians = [int(np.median(part)) for part in parts]
    return Growth(len(sums), medians[0], max(medians[1:], default=medians[0]))


@dataclass(slots=True)
class DiskWatch:
    """The disk space of partitions.

    limits: bytes by topic, `limit` for others; topics that begin with two underscores are the broker's own
    peaks: the largest size of each partition; totals: the sum of all partitions, by sample
    """

    limit: int
    limits: Mapping[str, int]
    peaks: dict[str, int] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)

    def sample(self, by_partition: Mapping[str, int]) -> None:
        """Note the sizes of partitions."""
        self.totals.append(sum(by_partition.values()))
        for name, found in by_partition.items():
            self.peaks[name] = max(found, self.peaks.get(name, 0))

    @property
    def beyond(self) -> dict[str, int]:
        """The peaks of partitions that exceeded their limit."""
        return {name: peak for name, peak in self.peaks.items() if peak > self._limit_of(name)}

    def _limit_of(self, partition: str) -> float:
        if partition.startswith("__"):
            return float("inf")
        return self.limits.get(partition.rpartition("-")[0], self.limit)
