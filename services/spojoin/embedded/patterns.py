"""What stands for files where one is expected: a path, a pattern such as `trips-*.csv.gz`, a folder, or `-`."""

from __future__ import annotations

import glob
from pathlib import Path

from spojoin.embedded.standard_input import is_standard_input, standard_input
from spojoin.errors import ConfigurationError


def files_of(path: Path) -> list[Path]:
    """The files that a path stands for: those that fit a pattern or lie in a folder, by name; standard input's; or one.

    Marks of a writer beside them, such as Spark's `_SUCCESS` and `.crc`, are left out. A file whose own name has the
    characters of a pattern is itself. Raises ConfigurationError where no file fits.
    """
    if is_standard_input(path):
        return [standard_input()]
    is_folder = path.is_dir()
    if not is_folder and not is_pattern(path):
        return [path]
    if (path / "_delta_log").is_dir():
        raise ConfigurationError(
            f"{path} is a Delta table, whose log says which of its files count: give its rows in Python, as by "
            "deltalake.DeltaTable(path).to_pyarrow_table()"
        )
    names = glob.glob(str(path / "**" if is_folder else path), recursive=True)
    found = sorted(each for each in map(Path, names) if each.is_file() and not _is_mark(each, path))
    if not found:
        raise ConfigurationError(f"{path}: {'the folder has no file' if is_folder else 'no file fits this pattern'}")
    return found


def is_pattern(path: Path) -> bool:
    """Whether it stands for several files; a file with this very name is no pattern."""
    return glob.has_magic(str(path)) and not path.exists()


def _is_mark(file: Path, asked: Path) -> bool:
    return any(part.startswith("_") and part not in asked.parts for part in file.parts) and asked.name[:1] != "_"
