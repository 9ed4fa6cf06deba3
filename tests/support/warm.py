"""Processes of this project's modules, forked from one parent that has imported what they import.

A new service imports for 1.6 s, and tests start hundreds. Within `forked_modules()`, `subprocess.Popen` of `python -m
spojoin...` asks a parent that has already imported, and has no threads or clients, to fork. The fork is a sibling of
that parent, and so a child of the requesting process, like any that it starts: it has its own id, environment, working
directory and files, and is killed and waited for as usual.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

#: The imports of processes that tests start by the hundred.
MODULES = (
    *(f"spojoin.roles.{role}.__main__" for role in ("router", "mutable", "permutation", "pojoin", "predictor")),
    *(f"spojoin.roles.{role}.__main__" for role in ("logical_and", "sink")),
    "spojoin.runtime.__main__",
    "spojoin.page.__main__",
    "spojoin.ports.redis_store",
    "spojoin.embedded.inputs",
    "spojoin.cli.main",
    "typer.rich_utils",
)
ROOT = Path(__file__).parents[2]
MESSAGE_BYTES = 1 << 20
#: Variables that modules read on import; a process with other values isn't forked.
READ_BY_IMPORTS = ("PYTHONPATH", "PYTHONHOME", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "SPOJOIN_KERNELS", "LD_PRELOAD")
#: The parent's values of these: a test may have changed its own environment before the first fork, or since.
AT_START = {name: value for name in READ_BY_IMPORTS if (value := os.environ.get(name)) is not None}
#: Without these, NumPy and Arrow's allocator start threads on import.
WITHOUT_THREADS = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
CLONE_PARENT, SYS_CLONE = 0x8000, {"x86_64": 56, "aarch64": 220}


class Parent:
    """The parent, as seen by the process that requests forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._door, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._door, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(other.fileno())],
                pass_fds=[other.fileno()],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name not in READ_BY_IMPORTS}
                | AT_START
                | WITHOUT_THREADS,
            )

    def fork(self, order: dict[str, object], descriptors: Sequence[int]) -> int:
        """The id of a new process."""
        with self._lock:
            socket.send_fds(self._door, [json.dumps(order).encode()], descriptors)
            answer = self._door.recv(100)
        assert answer, "the parent of forks has ended"
        return int(answer)

    def close(self) -> None:
        self._door.close()
        self._process.terminate()  # another process may have a copy of the door
        self._process.wait()


class ForkedPopen(subprocess.Popen):
    """A process that is forked if possible, and otherwise started as usual."""

    parent: Parent | None = None
    begins = threading.Lock()

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        """The method that `subprocess` calls to start a process, with the arguments of Python 3.11."""
        (_, _, shell, *pipes, _, gid, gids, uid, umask, start_new_session, process_group) = others
        is_plain = not (preexec_fn or pass_fds or shell or executable) and close_fds
        is_plain = is_plain and (gid, gids, uid, umask, process_group) == (None, None, None, -1, -1)
        environment = dict(os.environ if env is None else env)
        is_alike = all(environment.get(name) == AT_START.get(name) for name in READ_BY_IMPORTS)
        if not (is_plain and is_alike and is_module(args)):
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            return
        with ForkedPopen.begins:
            if ForkedPopen.parent is None:
                with never_forked():
                    ForkedPopen.parent = Parent()
        p2cread, _, _, c2pwrite, _, errwrite = pipes
        order = {
            "arguments": [os.fspath(each) for each in args[2:]],
            "environment": environment,
            "folder": os.path.abspath(cwd or "."),
            "is_leader": start_new_session,
        }
        files = [own if given == -1 else given for own, given in enumerate((p2cread, c2pwrite, errwrite))]
        self.pid = ForkedPopen.parent.fork(order, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)


def is_module(args: object) -> bool:
    return isinstance(args, list | tuple) and list(args[:2]) == [sys.executable, "-m"] and args[2].startswith("spojoin")


ORDINARY = subprocess.Popen


@contextmanager
def never_forked() -> Iterator[None]:
    """Within the block, no process is forked."""
    before, subprocess.Popen = subprocess.Popen, ORDINARY
    try:
        yield
    finally:
        subprocess.Popen = before


@contextmanager
def forked_modules() -> Iterator[None]:
    """Within the block, processes of this project's modules are forked, if the system allows it."""
    is_possible = sys.platform == "linux" and os.uname().machine in SYS_CLONE
    if not is_possible or sys.version_info[:2] != (3, 11):  # other versions may start processes in another way
        yield
        return
    subprocess.Popen = ForkedPopen
    try:
        yield
    finally:
        subprocess.Popen = ORDINARY
        if ForkedPopen.parent is not None:
            ForkedPopen.parent.close()
            ForkedPopen.parent = None


# -- the parent itself


def main() -> None:
    """Fork on request; the fork becomes the requested process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the processes that tests start
    door = socket.socket(fileno=int(sys.argv[1]))
    for module in MODULES:
        with suppress(ModuleNotFoundError):  # of an extra that isn't installed
            import_module(module)
    gc.freeze()
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a module starts threads, which a fork would lose: {threads}"
    while True:
        message, descriptors, _, _ = socket.recv_fds(door, MESSAGE_BYTES, 3)
        if not message:
            os._exit(0)
        if pid := fork_sibling():
            door.send(str(pid).encode())
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        door.close()
        become(json.loads(message), descriptors)
        return


def fork_sibling() -> int:
    """Like `os.fork`, but the new process is a child of this one's parent."""
    python, libc = ctypes.pythonapi, ctypes.PyDLL(None, use_errno=True)
    python.PyOS_BeforeFork()
    pid = libc.syscall(SYS_CLONE[os.uname().machine], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "no process could be forked")
    return pid


def become(order: dict[str, object], descriptors: Sequence[int]) -> None:
    """Run the requested module, as its process would."""
    for own, given in enumerate(descriptors):
        os.dup2(given, own)
    for given in descriptors:
        os.close(given)
    if order["is_leader"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)
    sys.path[0] = os.getcwd()
    module, *arguments = order["arguments"]
    sys.argv = [module, *arguments]
    is_package = Path(import_module(module).__file__ or "").name == "__init__.py"
    sys.modules.pop(f"{module}.__main__" if is_package else module, None)  # it runs as the main module
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a normal exit takes half a second to unload the parent's imports


if __name__ == "__main__":
    main()
