"""The engines of the Java world: compiled once against their jars, and started as a process of their own."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.engines.adapters.jars import JARS, jars_of
from spojoin.errors import ConfigurationError
from spojoin.local.jars import cache_folder
from spojoin.local.java import find_java

SOURCES = Path(__file__).parents[1] / "java"
HEAP = "-Xmx3g"


@dataclass(frozen=True, slots=True)
class Program:
    """main: the class, and its source file's name; options: what the engine asks of the virtual machine."""

    main: str
    options: Sequence[str] = ()


def _open(*packages: str) -> tuple[str, ...]:
    return tuple(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in packages)


PROGRAMS = {
    "esper": Program("Esper"),
    "siddhi": Program("Siddhi"),
    "flink": Program("Flink", _open("java.util", "java.lang", "java.time")),
    "hazelcast": Program(
        "Hazelcast",
        (
            "--add-modules=java.se",
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            *_open("java.lang", "sun.nio.ch"),
        ),
    ),
}


def command(engine: str, say: Callable[[str], None]) -> list[str]:
    """The command that starts an engine, without the path of the job.

    Raises ConfigurationError where Java, its compiler or the jars can't be had.
    """
    program, libraries = PROGRAMS[engine], jars_of(engine, say)
    classes = _compiled(engine, libraries, say)
    path = f"{classes}:{libraries}/*"
    return [find_java(), HEAP, *program.options, "-cp", path, program.main, "{job}", JARS[engine].version]


def _compiled(engine: str, libraries: Path, say: Callable[[str], None]) -> Path:
    """The folder with the classes, named by their sources, so that changed ones are recompiled."""
    sources = [SOURCES / "Answer.java", SOURCES / "Job.java", SOURCES / f"{PROGRAMS[engine].main}.java"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = cache_folder() / "benchmark" / f"{engine}-{JARS[engine].version}-{digest}"
    if not (folder / f"{PROGRAMS[engine].main}.class").exists():
        say(f"compiling {engine}'s adapter")
        folder.mkdir(parents=True, exist_ok=True)
        # Only the launcher of a compiler knows what an asterisk means.
        path = ":".join(map(str, sorted(libraries.glob("*.jar"))))
        _compile(["-nowarn", "-proc:none", "-d", str(folder), "-cp", path, *map(str, sources)])
    return folder


def _compile(arguments: Sequence[str]) -> None:
    # A compiler can be started by its module, so that it is of the same release as the runtime.
    done = subprocess.run(
        [find_java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        if "jdk.compiler not found" in said:
            said = "a JDK is needed, not just a runtime (Debian: openjdk-17-jdk-headless)"
        raise ConfigurationError(f"the adapter can't be compiled: {said}")
