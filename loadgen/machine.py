"""The machine that figures belong to."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

#: Packages whose releases change the figures.
PACKAGES = ("numpy", "numba", "llvmlite", "pyarrow", "confluent-kafka", "redis", "orjson", "protobuf")


def describe() -> dict[str, str | int | float]:
    """CPU model, usable cores, memory, current load, and versions."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "caches": _caches(),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        **{name: version(name) for name in PACKAGES},
    }


def _field(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def _caches() -> str:
    places = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    kinds = ((place / "level", place / "type", place / "size") for place in places)
    return ", ".join(f"L{level.read_text().strip()} {kind.read_text().strip().lower()} {size.read_text().strip()}"
                     for level, kind, size in kinds)  # fmt: skip
