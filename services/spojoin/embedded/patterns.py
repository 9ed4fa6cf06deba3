"""What stands for files where one is expected: a path, a pattern such as `trips-*.csv.gz`, or `-`."""

from __future__ import annotations

import glob
from pathlib import Path

from spojoin.embedded.standard_input import is_standard_input, standard_input
from spojoin.errors import ConfigurationError


def files_of(path: Path) -> list[Path]:
    """The files that a path stands for: those that fit a pattern, by name; standard input's; or the one it names.

    A file whose own name has the characters of a pattern is itself. Raises ConfigurationError where no file fits.
    """
    if is_standard_input(path):
        return [standard_input()]
    if not is_pattern(path):
        return [path]
    found = sorted(each for each in map(Path, glob.glob(str(path), recursive=True)) if each.is_file())
    if not found:
        raise ConfigurationError(f"{path}: no file fits this pattern")
    return found


def is_pattern(path: Path) -> bool:
    """Whether it stands for several files; a file with this very name is no pattern."""
    return glob.has_magic(str(path)) and not path.exists()
