"""What a soak watches besides results: memory of processes, and the broker's disk."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

#: What memory may grow by, and the parts of the time in a setup that are compared.
GROWTH_MAX = 0.05
PARTS = 10
#: Samples that a part needs: with fewer, nothing is said about growth.
PART_SAMPLES_MIN = 5
_BLOCK_BYTES = 512


def rss_bytes(pid: int) -> int:
    """Memory that a process holds; 0 if it is gone or the system doesn't report it."""
    try:
        return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def topic_bytes(folder: Path) -> dict[str, int]:
    """What each partition takes on the broker's disk, by the name of its folder."""
    found: dict[str, int] = {}
    for place in folder.iterdir() if folder.is_dir() else ():
        if place.is_dir():
            found[place.name] = sum(_disk_bytes(file) for file in place.iterdir())
    return found


def _disk_bytes(file: Path) -> int:
    """What a file takes on the disk, index files with holes included; 0 if it was just deleted."""
    try:
        return file.stat().st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Growth:
    """Memory of one setup.

    samples: taken; first_bytes: the median of the first tenth; most_bytes: the largest median of a later tenth
    """

    samples: int
    first_bytes: int
    most_bytes: int

    @property
    def share(self) -> float | None:
        """By what share it grew at most; None where too few samples were taken."""
        if self.samples < PARTS * PART_SAMPLES_MIN:
            return None
        return self.most_bytes / self.first_bytes - 1

    @property
    def is_bounded(self) -> bool:
        """Whether it didn't grow too much, as far as that is known."""
        return self.share is None or self.share <= GROWTH_MAX


@dataclass(slots=True)
class MemoryWatch:
    """Sums of all services' memory, by setup, taken while all are well.

    A sum is compared only with sums of the same setup with as many workers, which has the same processes, and only at
    rest: a backlog and a starting process take other memory. Each setup's samples, in order, are cut into PARTS of
    equal size; a part's median leaves out what one restart does to a few samples.
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
        """By setup."""
        return {setup: _growth(sums) for setup, sums in self.sums.items()}


def _growth(sums: Sequence[int]) -> Growth:
    parts = [part for part in np.array_split(np.array(sums), PARTS) if len(part)]
    medians = [int(np.median(part)) for part in parts]
    return Growth(len(sums), medians[0], max(medians[1:], default=medians[0]))


@dataclass(slots=True)
class DiskWatch:
    """What the partitions take on the disk.

    limits: bytes by topic, `limit` for others; those whose name begins with two underscores are the broker's own
    peaks: the most of each partition; totals: of all, sample after sample
    """

    limit: int
    limits: Mapping[str, int]
    peaks: dict[str, int] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)

    def sample(self, by_partition: Mapping[str, int]) -> None:
        """Note what partitions take."""
        self.totals.append(sum(by_partition.values()))
        for name, found in by_partition.items():
            self.peaks[name] = max(found, self.peaks.get(name, 0))

    @property
    def beyond(self) -> dict[str, int]:
        """The peaks of partitions that took more than they may."""
        return {name: peak for name, peak in self.peaks.items() if peak > self._limit_of(name)}

    def _limit_of(self, partition: str) -> float:
        if partition.startswith("__"):
            return float("inf")
        return self.limits.get(partition.rpartition("-")[0], self.limit)
