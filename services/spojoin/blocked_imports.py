"""Modules that other modules import without need."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def keep_out(name: str) -> None:
    """From now on importing the module fails in this process, as where it isn't installed."""
    sys.meta_path.insert(0, _Refusing(name))


def let_in(name: str) -> None:
    """Let a module be imported again that was kept out."""
    sys.meta_path[:] = [each for each in sys.meta_path if not (isinstance(each, _Refusing) and each.name == name)]


class _Refusing(MetaPathFinder):
    """Finds no module of one name, and lets nobody else find it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self.name:
            raise ModuleNotFoundError(f"{fullname} is kept out of this process", name=fullname)
        return None
