"""`python -m loadgen.load.jars` prints where the images' jars are here, as options of `docker/audit.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from loadgen.load.spark import connector
from spojoin.local.jars import kafka_jars


def folders() -> dict[str, Path]:
    """The folders of the broker's, Spark's connector's and Spark's own jars; fetched if needed."""

    def progress(line: str) -> None:
        print(line, file=sys.stderr)

    return {
        "kafka": kafka_jars(progress=progress),
        "spark-kafka": connector(progress=progress),
        "spark": Path(pyspark.__file__).parent / "jars",
    }


if __name__ == "__main__":
    print(" ".join(f"--jars={name}={folder}" for name, folder in folders().items()))
