"""The int64 array in which kernels count their work, with a place for each count."""

from __future__ import annotations

from typing import Final

#: Pairs of a stored code and a probe's bound, or an inserted code, that were compared.
COMPARISONS: Final = 0
#: Nodes of trees visited.
NODES: Final = 1
#: Bits set.
MARKS: Final = 2
#: Length of the array.
WORK: Final = 3
