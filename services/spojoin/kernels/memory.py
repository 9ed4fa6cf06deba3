# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""Arrays by their addresses, so that one kernel call reads as many as it likes.

A kernel takes a fixed number of arrays, and each costs the call time. A table of addresses and lengths has room for any
number. Whoever passes one keeps the arrays alive until the kernel returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray  # type: ignore[attr-defined]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from spojoin.arrays import I16, I32, I64, U8, U16, U32, U64
from spojoin.kernels.compile import inlined

#: LLVM's name for it among the levels of locality.
_SECOND_LEVEL = 2


def located(array: NDArray[Any]) -> tuple[int, int]:
    """A contiguous array's address and its number of elements."""
    return array.ctypes.data, array.size


def _pointer(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


def _unaligned(_context: Any, address: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(address), generate


def _fetched(_context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[cgutils.int32_t] * 3])
        declare: Any = cgutils.get_or_insert_function
        function = declare(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        builder.call(function, [pointer, *(cgutils.int32_t(each) for each in (0, _SECOND_LEVEL, 1))])
        return context.get_dummy_value()

    return types.void(address), generate


_at: Any = intrinsic(_pointer)
#: int64 -> uint64: the word that begins at any byte address
word_at: Any = intrinsic(_unaligned)
#: int64 -> None: begin to bring the line of an address, which need not exist, into the second-level cache
fetch_ahead: Any = intrinsic(_fetched)


@inlined
def signed_words(address: int, size: int) -> I64:
    """The int64 array at an address."""
    return carray(_at(address), (size,), np.int64)


@inlined
def signed_shorts(address: int, size: int) -> I16:
    """The int16 array at an address."""
    return carray(_at(address), (size,), np.int16)


@inlined
def signed_halves(address: int, size: int) -> I32:
    """The int32 array at an address."""
    return carray(_at(address), (size,), np.int32)


@inlined
def levels(address: int, count: int, size: int) -> U64:
    """The uint64 array of `count` rows at an address."""
    return carray(_at(address), (count, size), np.uint64)


@inlined
def half_words(address: int, size: int) -> U32:
    """The uint32 array at an address."""
    return carray(_at(address), (size,), np.uint32)


@inlined
def half_rows(address: int, count: int, size: int) -> U32:
    """The uint32 array of `count` rows at an address."""
    return carray(_at(address), (count, size), np.uint32)


@inlined
def shorts(address: int, size: int) -> U16:
    """The uint16 array at an address."""
    return carray(_at(address), (size,), np.uint16)


@inlined
def octets(address: int, size: int) -> U8:
    """The uint8 array at an address."""
    return carray(_at(address), (size,), np.uint8)
