"""What a Python process of Spark does between two tasks, made cheap.

With all that this package imports it costs a sixth of a second each time, as much as the answers of 200,000 rows.
Spark collects garbage there, which looks at every object that imports have left; and lets Python forget what its
importers know, for which those of zip archives, PySpark's own among them, read the archive's directory again.
"""

from __future__ import annotations

import gc
import sys
from zipimport import zipimporter

from pyspark import TaskContext

_known_modules = 0


def settle() -> None:
    """Call it first in a task, when it holds nothing yet: what imports have left is then kept for good.

    Nothing happens outside of Spark's tasks, nor where nothing has been imported since the last call.
    """
    global _known_modules  # noqa: PLW0603  (one process is one worker)
    if TaskContext.get() is None or len(sys.modules) == _known_modules:
        return
    _known_modules = len(sys.modules)
    gc.freeze()
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):  # one that an import needs is made anew, from what is known already
            del sys.path_importer_cache[path]
