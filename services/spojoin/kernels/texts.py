# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""Texts by place: Arrow's offsets and bytes of any of those that are held."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from spojoin.arrays import I32, I64, U8
from spojoin.kernels.compile import inlined, kernel
from spojoin.kernels.lanes import prefetch

#: Bytes that are copied at once: gathered texts are followed by as many bytes that may be written.
WORD = 8
_ZERO, _COLON = np.uint8(ord("0")), np.uint8(ord(":"))
#: Texts lie anywhere in memory: each is asked for so many texts before it is copied.
_AHEAD = 24


def _copy_word(_context: Any, _source: Any, _from: Any, _target: Any, _to: Any) -> Any:
    signature = types.void(types.Array(types.uint8, 1, "C"), types.int64, types.Array(types.uint8, 1, "C"), types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def at(array: int) -> Any:
            data = context.make_array(signature.args[array])(context, builder, arguments[array]).data
            place = builder.gep(data, [arguments[array + 1]])
            return builder.bitcast(place, ir.IntType(8 * WORD).as_pointer())

        builder.store(builder.load(at(0), align=1), at(2), align=1)
        return context.get_dummy_value()

    return signature, generate


#: source, from, target, to: copies the 8 bytes source[from:] to target[to:], wherever they lie
copy_word: Any = intrinsic(_copy_word)


@inlined
def _digits(number: int) -> int:
    """How many digits a number from 0 on has."""
    count, limit = 1, 10
    while count < 19 and number >= limit:
        count += 1
        limit *= 10
    return count


@inlined
def _write_digits(number: int, out: U8, end: np.int64) -> np.int64:
    """Write a number from 0 on in front of `end`; returns where it begins."""
    while number > 9:
        end -= 1
        out[end] = _ZERO + number % 10
        number //= 10
    out[end - 1] = _ZERO + number
    return end - 1


@kernel
def path_bytes(first: int, seconds: I64, thirds: I64, has_third: NDArray[np.bool_], offsets: I32) -> int:
    """Where texts "first:second" or "first:second:third" go, offsets int32 (n + 1,); returns the bytes of all.

    seconds, thirds: int64 (n,), from 0 on, as is `first`; has_third: bool (n,)
    Where the bytes of all are more than int32 holds, offsets are meaningless.
    """
    total, before = 0, _digits(first) + 1
    for k in range(len(seconds)):
        offsets[k] = total
        total += before + _digits(seconds[k])
        if has_third[k]:
            total += 1 + _digits(thirds[k])
    offsets[len(seconds)] = total
    return total


@kernel
def write_paths(first: int, seconds: I64, thirds: I64, has_third: NDArray[np.bool_], offsets: I32, out: U8) -> None:
    """Write the texts that `path_bytes` has found room for."""
    for k in range(len(seconds)):
        at = np.int64(offsets[k + 1])
        if has_third[k]:
            at = _write_digits(thirds[k], out, at) - 1
            out[at] = _COLON
        at = _write_digits(seconds[k], out, at) - 1
        out[at] = _COLON
        _write_digits(first, out, at)


@kernel
def text_places(starts: I64, places: I64, first: int, begins: I64, offsets: I32) -> int:
    """Where each text is, begins int64 (n,), and where it goes, offsets int32 (n + 1,); returns the bytes of all.

    starts: int64 (m + 1,), where each held text begins; places: int64 (n,), `first` more than a text's number
    Where the bytes of all are more than int32 holds, offsets are meaningless.
    """
    total = 0
    for k in range(len(places)):
        place = places[k] - first
        begins[k] = starts[place]
        offsets[k] = total
        total += starts[place + 1] - starts[place]
    offsets[len(places)] = total
    return total


@kernel
def gather_texts(data: U8, origin: int, begins: I64, offsets: I32, out: U8) -> None:
    """Copy the texts that begin at `begins` to where `offsets` says; both as in `text_places`.

    data: uint8, the held bytes, the first of which is number `origin`; out: uint8, of WORD bytes more than all texts
    """
    n, safe = len(begins), len(data) - WORD
    for k in range(n):
        prefetch(data, begins[min(k + _AHEAD, n - 1)] - origin)
        begin = begins[k] - origin
        at, end = np.int64(offsets[k]), np.int64(offsets[k + 1])
        while at < end and begin <= safe:
            copy_word(data, begin, out, at)
            at += WORD
            begin += WORD
        while at < end:
            out[at] = data[begin]
            at += 1
            begin += 1
