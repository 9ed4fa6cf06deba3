"""The tests' own rules: code that several files share is in tests/support, and frames are made in one place."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
#: The builder, and the strategy that draws every field.
MAKERS_OF_FRAMES = {"tests/support/frames.py", "tests/support/samples.py"}


def nodes(path, kind):
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def test_files_are_found():
    assert len(FILES) > 150


def test_no_test_file_imports_another():
    found = [
        f"{path.relative_to(ROOT)} imports {node.module}"
        for path in FILES
        for node in nodes(path, ast.ImportFrom)
        if node.module and node.module.startswith("tests.") and node.module.rpartition(".")[2].startswith("test_")
    ]
    assert not found


def test_frames_are_made_in_one_place():
    found = {
        str(path.relative_to(ROOT))
        for path in FILES
        for node in nodes(path, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "Frame"
    }
    assert found == MAKERS_OF_FRAMES
