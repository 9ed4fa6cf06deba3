import os
import stat
from pathlib import Path

import pytest

from spojoin.embedded.file_paths import NamedFile, check_apart, check_outputs, check_readable, open_file_number
from spojoin.embedded.outputs import Outputs
from spojoin.errors import ConfigurationError


def named(path, option="--output "):
    return NamedFile(option, path)


def write_all(paths, error=None):
    with Outputs() as outputs:
        for path in paths:
            outputs.open(named(path)).write(b"new\n")
        if error:
            raise error


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def held(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("a\n1\n")
    return path


def same_names(held):
    """Paths that lead to the file, none of them its own name."""
    folder = held.parent
    (folder / "link.csv").symlink_to("in.csv")
    (folder / "links.csv").symlink_to("link.csv")
    (folder / "hard.csv").hardlink_to(held)
    (folder / "sub").mkdir()
    (folder / "here").symlink_to(".")
    return [folder / name for name in ("link.csv", "links.csv", "hard.csv", "sub/../in.csv", "here/in.csv")]


def test_an_output_that_is_an_input_by_any_name_is_refused(held):
    for path in [held, *same_names(held)]:
        with pytest.raises(
            ConfigurationError, match=r"--output .* names the same file as --input s=.*in.csv, which is r"
        ):
            check_apart([named(held, "--input s=")], [named(path)])


def test_two_outputs_at_one_new_path_are_refused(tmp_path):
    (tmp_path / "to.jsonl").symlink_to("new.jsonl")
    for other in (tmp_path / "new.jsonl", tmp_path / "." / "sub" / ".." / "new.jsonl", tmp_path / "to.jsonl"):
        with pytest.raises(ConfigurationError, match=r"--rejects .* which is written: it would be destroyed"):
            check_apart([], [named(tmp_path / "new.jsonl"), named(other, "--rejects ")])
    check_apart([], [named(tmp_path / "new.jsonl"), named(tmp_path / "other.jsonl", "--rejects ")])


def test_a_sink_that_stores_nothing_may_be_named_twice():
    check_apart([], [named(Path("/dev/null")), named(Path("/dev/null"), "--rejects ")])


def test_one_file_may_be_read_twice(held):
    check_apart([named(held, "--input l="), named(held, "--input r=")], [])


def test_outputs_that_cannot_be_files_are_refused_by_kind(tmp_path, held):
    for path, words in (
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "x.jsonl", r"there is no folder .*none; make it \(mkdir -p "),
        (held / "x.jsonl", "in.csv is a file, not a folder"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            check_outputs([named(path)])


def test_inputs_that_are_no_files_are_refused_by_kind(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    reading, writing = os.pipe()
    try:
        for path, words in (
            (tmp_path, "is a folder"),
            (tmp_path / "pipe.csv", "is a pipe; inputs are read more than once"),
            (Path("/dev/zero"), "is a device"),
            (Path(f"/dev/fd/{reading}"), "is standard input or a pipe of the shell"),
            (tmp_path / "none.csv", "no such file"),
        ):
            with pytest.raises(ConfigurationError, match=words):
                check_readable(path)
    finally:
        os.close(reading)
        os.close(writing)


def test_no_output_appears_before_the_end(tmp_path):
    target = tmp_path / "out.jsonl"
    with Outputs() as outputs:
        outputs.open(named(target)).write(b"one\n")
        (beside,) = names(tmp_path)
        assert beside.startswith("out.jsonl.")
        assert beside.endswith(".partial")
    assert names(tmp_path) == ["out.jsonl"]
    assert target.read_text() == "one\n"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_every_output_as_it_was(tmp_path, error):
    (tmp_path / "old.jsonl").write_text("old\n")
    with pytest.raises(error) as caught:
        write_all([tmp_path / "old.jsonl", tmp_path / "new.jsonl"], error())
    assert names(tmp_path) == ["old.jsonl"]
    assert (tmp_path / "old.jsonl").read_text() == "old\n"
    (note,) = caught.value.__notes__
    assert note == f"{tmp_path}/old.jsonl stays as it was before; {tmp_path}/new.jsonl was not written"


def test_a_disk_that_fails_at_the_end_leaves_every_output_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "b.jsonl").write_text("old\n")

    def fail(_number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        write_all([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert names(tmp_path) == ["b.jsonl"]
    assert (tmp_path / "b.jsonl").read_text() == "old\n"
    assert "a.jsonl was not written" in caught.value.__notes__[0]


def test_a_file_that_is_replaced_keeps_its_mode_and_its_links(tmp_path):
    (tmp_path / "old.jsonl").write_text("old\n")
    (tmp_path / "old.jsonl").chmod(0o666)
    (tmp_path / "link.jsonl").symlink_to("old.jsonl")
    with Outputs() as outputs:
        outputs.open(named(tmp_path / "link.jsonl")).write(b"new\n")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "old.jsonl").read_text() == "new\n"
    assert stat.S_IMODE((tmp_path / "old.jsonl").stat().st_mode) == 0o666  # more than the umask allows a new file


def test_the_temporary_file_is_no_more_readable_than_the_one_it_replaces(tmp_path):
    (tmp_path / "old.jsonl").touch(0o600)
    with Outputs() as outputs:
        outputs.open(named(tmp_path / "old.jsonl"))
        (beside,) = tmp_path.glob("*.partial")
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600


def test_an_open_file_is_continued_at_its_position(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        path = Path(f"/dev/fd/{file.fileno()}")
        assert open_file_number(path) == file.fileno()
        with Outputs() as outputs:
            outputs.open(named(path)).write(b"rows\n")
        file.write(b"after\n")
    assert (tmp_path / "log").read_text() == "before\nrows\nafter\n"


def test_a_pipe_is_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    reading = os.open(tmp_path / "pipe.jsonl", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Outputs() as outputs:
            outputs.open(named(tmp_path / "pipe.jsonl")).write(b"rows\n")
        assert os.read(reading, 100) == b"rows\n"
    finally:
        os.close(reading)
    assert names(tmp_path) == ["pipe.jsonl"]


def test_a_file_that_may_not_be_written_is_not_replaced_either(tmp_path, monkeypatch):
    (tmp_path / "old.jsonl").write_text("old\n")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(ConfigurationError, match="permission denied; choose another place"):
        write_all([tmp_path / "old.jsonl"])
    assert (tmp_path / "old.jsonl").read_text() == "old\n"


def test_an_unwritable_folder_is_named():
    with pytest.raises(ConfigurationError, match=r"--output /proc/x.jsonl: no file can be made in /proc \("):
        write_all([Path("/proc/x.jsonl")])
