"""The development image holds every file that its program imports."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: Files, and the folder of the image that they are copied to.
COPY = re.compile(r"(?m)^COPY ((?:docker|services)/\S+(?: \S+)*) /opt/dev/(\S*)$")


def image_of(folder: Path, lines: str) -> Path:
    for sources, target in COPY.findall(lines):
        (folder / target).mkdir(parents=True, exist_ok=True)
        for source in sources.split():
            shutil.copy(ROOT / source, folder / target)
    return folder


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    """The program asked for nothing, in a Python without packages."""
    return subprocess.run([sys.executable, "-S", "dev.py"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_program_finds_what_it_imports(tmp_path):
    ran = started(image_of(tmp_path, (ROOT / "docker/dev.Dockerfile").read_text()))
    assert "expected broker or store" in ran.stderr


def test_a_file_that_is_not_copied_is_missed(tmp_path):
    lines = (ROOT / "docker/dev.Dockerfile").read_text().replace(" services/spojoin/version.py", "")
    assert "No module named 'spojoin.version'" in started(image_of(tmp_path, lines)).stderr
