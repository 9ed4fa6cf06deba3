"""The tests' own rules: code that several files share is in tests/support, and frames are made in one place."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests").rglob("*.py"))
#: The builder; the strategy of samples draws every field by its type.
MAKERS_OF_FRAMES = {"tests/support/frames.py"}


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


def test_a_forked_module_is_a_process_as_any_other(tmp_path):
    command = [sys.executable, "-m", "spojoin.roles.sink"]
    environment = {**os.environ, "SPOJOIN_QUERY_FILE": "missing.yaml"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True, **pipes) as process:
        assert psutil.Process(process.pid).ppid() == os.getpid()
        assert "missing.yaml" in process.communicate()[0]
        assert process.returncode == 2
    with subprocess.Popen([sys.executable, "-m", "spojoin", "--help"], stdin=subprocess.PIPE, **pipes) as process:
        process.send_signal(signal.SIGSTOP)
        process.kill()
        assert process.wait() == -signal.SIGKILL
