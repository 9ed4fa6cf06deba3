"""Spark's daemon of Python workers, which imports what tasks need before it makes them.

Spark ends workers after a minute without tasks, and importing takes a new one the better part of a second. A session
asks for it by `spark.python.daemon.module`; `spojoin backfill` does.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from pyspark import daemon

if __name__ == "__main__":
    with suppress(ImportError):  # tasks say what is missing
        import spojoin.spark  # noqa: F401
    gc.freeze()  # so that no worker copies these objects' memory
    daemon.manager()  # type: ignore[no-untyped-call]
