"""Cached machine code is reused for the same sources and for no others."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[3] / "services"
#: A kernel compiled from three other files: those of a helper, a constant and a type.
FILES = {
    "shapes.py": "from typing import NamedTuple\n\nclass Shape(NamedTuple):\n    width: int\n",
    "sizes.py": "FACTOR = 10\n",
    "helper.py": (
        "from spojoin.kernels.compile import inlined\nfrom house.sizes import FACTOR\n\n"
        "@inlined\ndef helped(x):\n    return FACTOR * x\n"
    ),
    "top.py": (
        "from spojoin.kernels.compile import kernel\nfrom house import helper\nfrom house.shapes import Shape\n\n"
        "@kernel\ndef area(shape):\n    return helper.helped(shape.width)\n\n"
        "print(area(Shape(3)), sum(area.stats.cache_hits.values()))\n"
    ),
}


@pytest.fixture
def house(tmp_path):
    (tmp_path / "house").mkdir()
    for name, text in FILES.items():
        (tmp_path / "house" / name).write_text(text)
    return tmp_path / "house"


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def run(house: Path, *arguments: object) -> list[int]:
    """What the kernel returns in its own process, and how often its code was found on disk."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": f"{SERVICES}:{house.parent}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "import house.top", *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(part) for part in done.stdout.split()]


def test_code_is_compiled_once_and_again_after_each_change_of_its_sources(house):
    assert [run(house), run(house)] == [[30, 0], [30, 1]]
    change(house / "helper.py", "FACTOR * x", "FACTOR * x + 1")
    assert [run(house), run(house)] == [[31, 0], [31, 1]]
    change(house / "sizes.py", "10", "20")
    assert [run(house), run(house)] == [[61, 0], [61, 1]]


def test_code_cached_for_a_renamed_type_is_no_failure(house):
    assert run(house) == [30, 0]
    for name in ("shapes.py", "top.py"):
        change(house / name, "Shape", "Oblong")
    assert [run(house), run(house)] == [[30, 0], [30, 1]]


def test_code_cached_for_a_moved_type_is_no_failure(house):
    assert run(house) == [30, 0]
    (house / "shapes.py").rename(house / "forms.py")
    change(house / "top.py", "house.shapes", "house.forms")
    assert [run(house), run(house)] == [[30, 0], [30, 1]]


SAVERS = 8


def test_processes_that_keep_code_at_once_get_names_of_their_own(house: Path) -> None:
    """Each keeps the code of another type; all wait for each other, so that indexes are read at the same time."""
    (house / "top.py").write_text(
        "import sys, time\nfrom pathlib import Path\nfrom spojoin.kernels.compile import kernel\n\n"
        "@kernel\ndef first(values):\n    return values[0]\n\n"
        "number, here = int(sys.argv[1]), Path(__file__).parent\n"
        "values = (number,) * (number + 1)\n"
        "(here / f'ready{number}').touch()\n"
        f"while 'wait' in sys.argv and len(list(here.glob('ready*'))) < {SAVERS}:\n    time.sleep(0.001)\n"
        "print(first(values), sum(first.stats.cache_hits.values()))\n"
    )
    numbers = range(SAVERS)
    with ThreadPoolExecutor(SAVERS) as pool:
        assert list(pool.map(lambda n: run(house, n, "wait"), numbers)) == [[n, 0] for n in numbers]
    assert [run(house, n) for n in numbers] == [[n, 1] for n in numbers]


def test_machine_code_from_disk_needs_no_compiler_and_leaves_it_usable() -> None:
    """Loading skips what numba sets up for compiling; a kernel compiled afterwards gets it all the same."""
    code = """
import sys
import numpy as np
from numba import njit
from spojoin.kernels import ranks
from spojoin.kernels.lanes import count_below
found = ranks.ranks(ranks.sorted_keys(np.arange(100)), ranks.sought(np.array([3, 99])))
print("numba.typed.typeddict" in sys.modules, [side.tolist() for side in found])

@njit
def compiled(keys):
    return count_below(keys, 0, np.int64(4)) + np.sort(keys)[0] + len([1 for _ in range(3)]) + {1: 2}[1]

print(compiled(np.arange(64)))
"""
    for _ in range(2):  # the first may have to compile
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False [[3, 99], [4, 100]]", "9"]
