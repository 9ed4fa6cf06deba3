"""Places among the sorted keys of one node: compares all of them, without a branch.

Keys are passed as a slice, since an index that might be negative prevents vector instructions.
"""

from __future__ import annotations

from spojoin.kernels.compile import inlined
from spojoin.published.methods.side import I64


@inlined
def below(keys: I64, code: int) -> int:
    """How many keys are less."""
    found = 0
    for j in range(len(keys)):
        found += int(keys[j] < code)
    return found


@inlined
def upto(keys: I64, code: int) -> int:
    """How many keys are not greater."""
    found = 0
    for j in range(len(keys)):
        found += int(keys[j] <= code)
    return found
