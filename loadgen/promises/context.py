"""The context that every section of the benchmark gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadgen.promises.figures import Measurement
from loadgen.promises.sizes import PromiseSizes


@dataclass(frozen=True, slots=True)
class Context:
    """Sizes, a folder for temporary files, and a callback for progress."""

    sizes: PromiseSizes
    scratch: Path
    say: Callable[[str], None]


#: Figures are yielded one by one, so that those before a failure are kept.
Section = Callable[[Context], Iterator[Measurement]]
