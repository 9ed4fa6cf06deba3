"""A process learns that a secret was replaced, however Kubernetes replaces it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from spojoin.runtime.process import contents, end_when_changed

LOOK_S, PATIENCE_S = 0.01, 30.0
#: A program that watches a folder and does nothing else.
WATCHER = """
import pathlib, sys, threading
from spojoin.runtime.process import end_when_changed
end_when_changed([pathlib.Path(sys.argv[1])], 0.01)
print("watching", flush=True)
threading.Event().wait()
"""


def mounted(folder: Path, version: str, text: str) -> None:
    """As the kubelet does: a new folder, to which a link is turned at once."""
    (folder / f"..{version}").mkdir(parents=True)
    (folder / f"..{version}" / "password").write_text(text)
    (folder / "..next").symlink_to(f"..{version}")
    (folder / "..next").rename(folder / "..data")
    if not (folder / "password").is_symlink():
        (folder / "password").symlink_to("..data/password")


def test_a_mounted_secret_that_changes_ends_the_process_once(tmp_path: Path) -> None:
    ended = threading.Semaphore(0)
    folder = tmp_path / "kafka"
    mounted(folder, "1", "old")
    assert [file.name for file in contents([folder])] == ["password"]
    end_when_changed([folder, tmp_path / "no-such-folder"], LOOK_S, ended.release)
    assert not ended.acquire(timeout=20 * LOOK_S)
    mounted(folder, "2", "old")  # another version with the same content
    assert not ended.acquire(timeout=20 * LOOK_S)
    mounted(folder, "3", "new")
    assert ended.acquire(timeout=PATIENCE_S)
    mounted(folder, "4", "newer")
    assert not ended.acquire(timeout=20 * LOOK_S)


def test_a_file_that_comes_or_goes_is_a_change(tmp_path: Path) -> None:
    for change in (lambda: (tmp_path / "ca.crt").write_text("a"), (tmp_path / "ca.crt").unlink):
        ended = threading.Event()
        end_when_changed([tmp_path], LOOK_S, ended.set)
        change()
        assert ended.wait(PATIENCE_S)


def test_the_process_is_asked_as_anybody_asks_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WATCHER, tmp_path], stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout is not None
        watcher.stdout.readline()
        (tmp_path / "password").write_text("new")
        assert watcher.wait(PATIENCE_S) == -signal.SIGTERM


def test_where_nothing_is_named_nothing_is_watched() -> None:
    before = threading.active_count()
    end_when_changed([])
    assert threading.active_count() == before
