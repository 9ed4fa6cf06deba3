"""Spark's daemon of Python workers, which imports what tasks need before it starts workers.

Spark ends workers after a minute without tasks, and imports take a new worker most of a second. The setting
`spark.python.daemon.module` chooses this daemon; `spojoin backfill` sets it.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    for name in ("pandas", "spojoin.spark"):  # pyarrow imports pandas with a worker's first array
        with suppress(ImportError):  # tasks report what is missing
            import_module(name)
    gc.freeze()  # so that no worker copies these objects' memory
    daemon.manager()  # type: ignore[no-untyped-call]
