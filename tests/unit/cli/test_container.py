"""What a container's first process does before anything else."""

import subprocess
import sys
from pathlib import Path

from spojoin.cli.main import STATUS_TERMINATED, link_all, prepare


def kernels(folder):
    (folder / "room" / "deep").mkdir(parents=True)
    (folder / "index").write_text("index")
    (folder / "room" / "deep" / "kernel.nbc").write_text("compiled")
    return folder


def test_every_file_is_linked_into_a_writable_folder(tmp_path):
    source, target = kernels(tmp_path / "image"), tmp_path / "tmp" / "cache"
    link_all(source, target)
    for name in ("index", "room/deep/kernel.nbc"):
        assert (target / name).readlink() == source / name
        assert (target / name).read_text() == (source / name).read_text()
    (target / "room" / "deep" / "new.nbc").write_text("compiled here")
    assert not (source / "room" / "deep" / "new.nbc").exists()


def test_a_lock_is_each_containers_own(tmp_path):
    """Linked, it would be a file that can't be opened to write."""
    source, target = kernels(tmp_path / "image"), tmp_path / "cache"
    (source / "room" / "kernels.lock").touch()
    link_all(source, target)
    assert [path.name for path in (target / "room").iterdir()] == ["deep"]


def test_existing_files_stay(tmp_path):
    """A container that restarts finds its links and what it has compiled since."""
    source, target = kernels(tmp_path / "image"), tmp_path / "cache"
    link_all(source, target)
    (target / "index").unlink()
    (target / "index").write_text("a newer one")
    link_all(source, target)
    assert (target / "index").read_text() == "a newer one"
    assert (source / "index").read_text() == "index"
    assert (target / "room" / "deep" / "kernel.nbc").is_symlink()


def test_two_processes_of_a_container_may_link_at_once(tmp_path, monkeypatch):
    """A command in a pod that starts makes the link that the service is about to make."""
    link = Path.symlink_to

    def link_second(path, place):
        link(path, place)
        link(path, place)

    monkeypatch.setattr(Path, "symlink_to", link_second)
    source, target = kernels(tmp_path / "image"), tmp_path / "cache"
    link_all(source, target)
    assert (target / "room" / "deep" / "kernel.nbc").readlink() == source / "room" / "deep" / "kernel.nbc"


def test_kernels_are_linked_only_where_both_folders_are_named(tmp_path):
    source, target = kernels(tmp_path / "image"), tmp_path / "cache"
    prepare({"SPOJOIN_KERNELS": str(source)})
    prepare({"NUMBA_CACHE_DIR": str(target)})
    assert not target.exists()
    prepare({"SPOJOIN_KERNELS": str(source), "NUMBA_CACHE_DIR": str(target)})
    assert (target / "index").is_symlink()


def test_sigterm_ends_a_first_process():
    code = (
        "import os, signal; from spojoin.cli import main; main.os.getpid = lambda: 1; "
        "main.prepare({}); signal.raise_signal(signal.SIGTERM); raise SystemExit('still here')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == STATUS_TERMINATED, done.stderr
