"""The sources of a kernel's machine code: code on disk that came from other sources is compiled again.

Numba itself compares only the kernel's own file. It would reuse the machine code of a helper that has changed in
another file, and fails if the types of a kernel's arguments were renamed or moved.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic  # type: ignore[attr-defined]

_DECORATORS = "spojoin.kernels.compile"


@cache
def fingerprint(name: str) -> str:
    """A digest of all sources of a module's kernels: the files of kernels that they may call, constants, types.

    Call it while the module is imported, below its imports.
    """
    found = hashlib.sha256()
    for module in sorted(_modules(name), key=lambda each: str(each.__file__)):
        found.update(Path(str(module.__file__)).read_bytes())
        for key, value in sorted(vars(module).items()):
            found.update(f"{key}={_described(value)};".encode())
    return found.hexdigest()


def _modules(first: str) -> list[ModuleType]:
    """The module of this name, that of the decorators, and those of all kernels that any of them names."""
    found: dict[str, ModuleType] = {}
    waiting = [first, _DECORATORS]
    while waiting:
        name = waiting.pop()
        if name not in found and getattr(sys.modules[name], "__file__", None):
            found[name] = sys.modules[name]
            waiting += _named(found[name])
    return list(found.values())


def _named(module: ModuleType) -> Iterator[str]:
    roots = (_root(__name__), _root(module.__name__))
    for value in vars(module).values():
        if isinstance(value, Dispatcher | _Intrinsic):
            yield value.__module__
        elif isinstance(value, ModuleType) and _root(value.__name__) in roots:
            yield value.__name__


def _root(name: str) -> str:
    return name.partition(".")[0]


def _described(value: object) -> str:
    """What machine code contains of it: the value of a constant, the fields of a type; nothing of other objects."""
    if isinstance(value, bool | int | float | np.generic):
        return repr(value)
    if isinstance(value, type) and issubclass(value, Enum):
        return f"{value.__qualname__}{[(each.name, each.value) for each in value]}"
    if isinstance(value, type) and issubclass(value, tuple):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', ())}"
    return ""
