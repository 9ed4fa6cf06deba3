"""`make reproduce`: which entries of two layers differ, and that times after the commit don't count."""

import importlib.util
import io
import json
import tarfile
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("reproduce", Path(__file__).parents[3] / "docker/reproduce.py")
reproduce = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(reproduce)

EPOCH = 1_000_000
FILES = {"opt": None, "opt/a": b"text", "opt/b": b"other"}


def packed(files, **more):
    """A tar of files, None for a folder; `more` are attributes of the last one's entry."""
    packet = io.BytesIO()
    with tarfile.open(fileobj=packet, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.type, info.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            info.mtime = EPOCH
            for attribute, value in more.items():
                setattr(info, attribute, value)
            tar.addfile(info, io.BytesIO(content or b""))
    return packet.getvalue()


def saved(folder, *found):
    files = {f"{number}/layer.tar": layer for number, layer in enumerate(found)}
    manifest = json.dumps([{"Layers": list(files)}]).encode()
    folder.mkdir(exist_ok=True)
    path = folder / "image.tar"
    path.write_bytes(packed({**files, "manifest.json": manifest}))
    return list(reproduce.layers(path, EPOCH))


def compared(tmp_path, first, second):
    ((one,), (other,)) = saved(tmp_path / "first", first), saved(tmp_path / "second", second)
    return reproduce.differences(one, other)


def test_layers_come_in_their_order(tmp_path):
    found = saved(tmp_path, packed({"a": b""}), packed({"b": b""}))
    assert [list(each) for each in found] == [["a"], ["b"]]


@pytest.mark.parametrize("time", [EPOCH, EPOCH + 1, 2 * EPOCH])
def test_times_after_the_commit_do_not_count(tmp_path, time):
    assert compared(tmp_path, packed(FILES), packed(FILES, mtime=time)) == []


@pytest.mark.parametrize(
    ("more", "part"), [({"mtime": EPOCH - 1}, "time"), ({"mode": 0o600}, "mode"), ({"uid": 7}, "owner")]
)
def test_what_differs_is_named(tmp_path, more, part):
    assert compared(tmp_path, packed(FILES), packed(FILES, **more)) == [f"{each} differs in {part}" for each in FILES]


def test_content_and_missing_files_are_named(tmp_path):
    other = {"opt": None, "opt/a": b"texts", "opt/c": b""}
    assert compared(tmp_path, packed(FILES), packed(other)) == [
        "opt/a differs in sha256",
        "opt/b is in the first only",
        "opt/c is in the second only",
    ]
