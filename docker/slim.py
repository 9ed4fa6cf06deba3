"""Remove the files of an environment that no service uses: tests, headers, symbols, and Arrow's network libraries.

python slim.py /opt/spojoin
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

#: Folders and files, as patterns below site-packages.
UNUSED = (
    "**/tests",
    "**/*.pyi",
    "**/*.pxd",
    "**/*.pyx",
    "**/__pycache__/test_*",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/*flight*",
    "pyarrow/*_s3*",
    "pyarrow/_orc*",
    "pyarrow/libarrow_python.so.*.*.*",
    "kubernetes/aio",
    "kubernetes/**/__pycache__",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/f2py",
    "pip",
    "pkg_resources",
    "setuptools",
    "_distutils_hack",
    "distutils-precedence.pth",
)

#: Libraries whose symbols take much space. strip would break other libraries, which were patched.
STRIPPED = (
    "llvmlite/binding/*.so",
    "pyarrow/libarrow.so.*",
    "pyarrow/libarrow_compute.so.*",
    "pyarrow/libparquet.so.*",
    "pyroaring*.so",
    "aiohttp/*.so",
    "aiokafka/**/*.so",
    "faust/**/*.so",
    "numba/**/*.so",
    "yaml/*.so",
)


def main(environment: Path) -> None:
    """Slim an environment in place and print its size."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    for pattern in UNUSED:
        for path in sorted(packages.glob(pattern)):
            remove(path)
    for pattern in STRIPPED:
        for library in sorted(packages.glob(pattern)):
            subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    size = sum(p.stat().st_size for p in environment.rglob("*") if p.is_file() and not p.is_symlink())
    print(f"{environment}: {size / 1e6:.0f} MB")


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
