# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""How kernels are compiled: one place for numba's options, and the two bit instructions that numba lacks."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from zlib import crc32

from numba import njit
from numba.core import cgutils, types
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic
from numba.np.ufunc import array_exprs

from spojoin.kernels.sources import fingerprint

#: The file, beside the machine code, that a process locks while it keeps some.
LOCK = "kernels.lock"

_ADDRESS = re.compile(" at 0x[0-9a-f]+")


def _number_of(named: Any) -> int:
    """A number for an array expression by its place in the source, or for a function of NumPy by its name."""
    where = getattr(named, "loc", None)
    text = named.__name__ if where is None else f"{where.filename}:{where.line}:{where.col}"
    return crc32(text.encode())


# Numba names what it makes of these by their addresses, and an image that is built again would have other files.
array_exprs.hash = _number_of  # type: ignore[attr-defined]

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile without the interpreter lock and keep the machine code on disk."""
    return _kept(njit(cache=True, nogil=True)(function), function)


def inlined(function: Function) -> Function:
    """Compile a helper that kernels call once per element."""
    return _kept(njit(cache=True, nogil=True, inline="never")(function), function)


def _kept(compiled: Any, function: Function) -> Function:
    """Use machine code on disk for identical sources only: other sources count as another version of numba."""
    kept = getattr(compiled, "_cache", None)
    if kept is not None:  # it is where NUMBA_DISABLE_JIT is set
        kept._cache_file._version += f" {fingerprint(function.__module__)}"
        kept._cache_file.save = partial(_saved_alone, kept._cache_file.save, kept.cache_path)
        kept.load_overload = partial(_loaded, kept)
    return cast(Function, compiled)


def _loaded(kept: Any, signature: Any, target: Any) -> Any:
    """What numba's own method does but for setting up the compiler, 0.3 s, which machine code from disk doesn't need.

    Where there is none on disk, numba sets it up itself before it compiles.
    """
    rtsys.initialize(target)
    with kept._guard_against_spurious_io_errors():
        return kept._load_overload(signature, target)


def _saved_alone(save: Callable[..., None], folder: str, key: Any, code: tuple[Any, ...]) -> None:
    """Keep machine code while no other process does.

    It comes with a text about types in which addresses of functions stand: without them, an image that is built again
    has the same files.

    Numba reads the index, picks a free name, and writes index and code. Of two processes at once, both may pick one
    name, and a kernel would be loaded with the code of other types.
    """
    with Path(folder, LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        save(key, tuple(_ADDRESS.sub("", each) if isinstance(each, str) else each for each in code))


def _popcount(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def _trailing_zeros(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.false_bit)

    return types.uint64(types.uint64), generate


#: uint64 -> uint64: the number of set bits
popcount: Any = intrinsic(_popcount)
#: uint64 -> uint64: the place of the lowest set bit, 64 if there is none
trailing_zeros: Any = intrinsic(_trailing_zeros)
