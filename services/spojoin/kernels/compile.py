# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""How kernels are compiled: one place for numba's options, and the two bit instructions that numba lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile without the interpreter lock and keep the machine code on disk."""
    return cast(Function, njit(cache=True, nogil=True)(function))


def inlined(function: Function) -> Function:
    """Compile a helper that kernels call once an element."""
    return cast(Function, njit(cache=True, nogil=True, inline="never")(function))


def _popcount(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), generate


#: uint64 -> uint64: how many bits are set
popcount: Any = intrinsic(_popcount)
#: uint64 -> uint64: place of the lowest set bit, 64 where there is none
trailing_zeros: Any = intrinsic(_trailing_zeros)
