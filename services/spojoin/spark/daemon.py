"""Spark's daemon of Python workers, which imports what tasks need before it makes them.

Spark ends workers after a minute without tasks, and importing takes a new one the better part of a second. A session
asks for it by `spark.python.daemon.module`; `spojoin backfill` does.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

if __name__ == "__main__":
    for name in ("pandas", "spojoin.spark"):  # pyarrow imports pandas with a worker's first array
        with suppress(ImportError):  # tasks say what is missing
            import_module(name)
    gc.freeze()  # so that no worker copies these objects' memory
    daemon.manager()  # type: ignore[no-untyped-call]
