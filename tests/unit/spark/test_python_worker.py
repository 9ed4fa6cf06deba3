"""What imports leave in a Python process of Spark is kept for good, once, and in tasks alone."""

import gc
import sys
import types
from zipimport import zipimporter

import pytest

from spojoin.spark import task


@pytest.fixture(autouse=True)
def own_process(monkeypatch, tmp_path):
    """A process in which nothing has settled, with a zip archive on its path."""
    monkeypatch.setattr(task, "_known_modules", 0)
    archive = tmp_path / "some.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    monkeypatch.setitem(sys.path_importer_cache, str(archive), zipimporter(str(archive)))
    yield str(archive)
    gc.unfreeze()


@pytest.fixture
def in_a_task(monkeypatch):
    monkeypatch.setattr(task.TaskContext, "get", staticmethod(object))


def test_outside_of_a_task_nothing_happens(own_process):
    before = gc.get_freeze_count()
    task.freeze_imports()
    assert gc.get_freeze_count() == before
    assert own_process in sys.path_importer_cache


@pytest.mark.usefixtures("in_a_task")
def test_objects_of_imports_are_not_looked_at_again(own_process):
    task.freeze_imports()
    assert gc.get_freeze_count() > 1_000
    assert own_process not in sys.path_importer_cache


@pytest.mark.usefixtures("in_a_task")
def test_what_a_task_leaves_is_collected_unless_it_has_imported(monkeypatch):
    task.freeze_imports()
    frozen, made = gc.get_freeze_count(), [[] for _ in range(1_000)]
    task.freeze_imports()
    assert gc.get_freeze_count() <= frozen
    monkeypatch.setitem(sys.modules, "imported_by_a_task", types.ModuleType("imported_by_a_task"))
    task.freeze_imports()
    assert gc.get_freeze_count() > frozen + len(made) - 100
