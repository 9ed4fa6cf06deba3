# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""Texts by place: Arrow's offsets and bytes of any of those that are held."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from spojoin.kernels.compile import kernel
from spojoin.kernels.lanes import prefetch

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]

#: Bytes that are copied at once: gathered texts are followed by as many bytes that may be written.
WORD = 8
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
