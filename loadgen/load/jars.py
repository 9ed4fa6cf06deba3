"""Where the jars of the images are on this machine, as options of `docker/audit.py`: `python -m loadgen.load.jars`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from loadgen.load.spark import CONNECTOR
from spojoin.local.jars import fetch, kafka_jars


def folders() -> dict[str, Path]:
    """The broker's, those of Spark's connector, and Spark's own; fetched if they aren't there."""

    def progress(line: str) -> None:
        print(line, file=sys.stderr)

    return {
        "kafka": kafka_jars(progress=progress),
        "spark-kafka": fetch("spark-kafka", (CONNECTOR,), progress=progress),
        "spark": Path(pyspark.__file__).parent / "jars",
    }


if __name__ == "__main__":
    print(" ".join(f"--jars={name}={folder}" for name, folder in folders().items()))
