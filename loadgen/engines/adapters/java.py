"""The Java engines: their jars of Maven Central, and the check that these haven't changed."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spojoin.errors import ConfigurationError
from spojoin.local.jars import cache_folder, fetch, find_java

#: Lines of "engine sha256 file", written by `loadgen engines lock`.
LOCK = Path(__file__).parents[1] / "java" / "jars.lock"


@dataclass(frozen=True, slots=True)
class Jars:
    """modules: "organisation:name:revision"; is_complete: whether their dependencies aren't needed."""

    version: str
    modules: Sequence[str]
    is_complete: bool = False


_FLINK = "2.3.0"
_SIDDHI = "5.1.30"
_FLINK_MODULES = (
    "flink-streaming-java",
    "flink-clients",
    "flink-table-api-java-bridge",
    "flink-table-planner_2.12",
    "flink-table-runtime",
    "flink-csv",
    "flink-connector-files",
)

JARS: Mapping[str, Jars] = {
    "esper": Jars("9.0.0", ("com.espertech:esper-compiler:9.0.0", "com.espertech:esper-runtime:9.0.0")),
    # siddhi-core depends on org.wso2.orbit, which isn't on Maven Central; the original packages replace it.
    "siddhi": Jars(
        _SIDDHI,
        (
            *(f"io.siddhi:siddhi-{part}:{_SIDDHI}" for part in ("core", "query-api", "query-compiler", "annotations")),
            "org.osgi:org.osgi.core:6.0.0",
            "com.lmax:disruptor:3.4.2",
            "org.apache.logging.log4j:log4j-api:2.25.4",
            "org.apache.logging.log4j:log4j-core:2.25.4",
            "com.google.guava:guava:31.1-jre",
            "org.quartz-scheduler:quartz:2.3.2",
            "io.dropwizard.metrics:metrics-core:3.2.6",
            "com.google.code.gson:gson:2.8.9",
            "org.antlr:antlr4-runtime:4.11.1",
            "org.slf4j:slf4j-api:1.7.36",
            "org.slf4j:slf4j-nop:1.7.36",
            "javax.annotation:javax.annotation-api:1.3.2",
            "com.jayway.jsonpath:json-path:2.7.0",
        ),
        is_complete=True,
    ),
    "flink": Jars(_FLINK, tuple(f"org.apache.flink:{module}:{_FLINK}" for module in _FLINK_MODULES)),
    "hazelcast": Jars("5.7.0", ("com.hazelcast:hazelcast:5.7.0", "com.hazelcast:hazelcast-sql:5.7.0")),
}


def jars_of(engine: str, progress: Callable[[str], None] = print) -> Path:
    """The folder with an engine's jars, fetched once, whose SHA-256 match the lock.

    Raises ConfigurationError if they can't be fetched, or a file differs.
    """
    folder, known = fetched(engine, progress), locked(engine)
    for path in sorted(folder.glob("*.jar")):
        if sha256_of(path) != known.pop(path.name, None):
            raise ConfigurationError(f"{path} is not the file that {LOCK.name} names: remove {folder} and try again")
    if known:
        missing = ", ".join(sorted(known))
        raise ConfigurationError(f"{folder} lacks {missing}, which {LOCK.name} names: remove it and try again")
    return folder


def fetched(engine: str, progress: Callable[[str], None] = print) -> Path:
    """The same folder, unchecked."""
    jars = JARS[engine]
    # The engine's version stands for the list of modules, which would make a long name.
    return fetch(f"{engine}-{jars.version}", jars.modules, progress=progress, is_complete=jars.is_complete)


def lock_lines() -> list[str]:
    """The lock's lines for the jars that are fetched now."""
    return [
        f"{engine} {sha256_of(path)} {path.name}" for engine in JARS for path in sorted(fetched(engine).glob("*.jar"))
    ]


def locked(engine: str) -> dict[str, str]:
    """The required SHA-256 of each of an engine's jars, by file."""
    lines = (line.split() for line in LOCK.read_text(encoding="utf-8").splitlines())
    return {file: digest for name, digest, file in lines if name == engine}


def sha256_of(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SOURCES = Path(__file__).parents[1] / "java"
HEAP = "-Xmx3g"


@dataclass(frozen=True, slots=True)
class Program:
    """main: the name of the class and of its source file; options: of the engine's virtual machine."""

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

    Raises ConfigurationError if Java, its compiler or the jars are unavailable.
    """
    program, libraries = PROGRAMS[engine], jars_of(engine, say)
    classes = _compiled(engine, libraries, say)
    path = f"{classes}:{libraries}/*"
    return [find_java(), HEAP, *program.options, "-cp", path, program.main, "{job}", JARS[engine].version]


def _compiled(engine: str, libraries: Path, say: Callable[[str], None]) -> Path:
    """The folder with the classes, named by a digest of the sources, so that changed ones are recompiled."""
    sources = [SOURCES / "Answer.java", SOURCES / "Job.java", SOURCES / f"{PROGRAMS[engine].main}.java"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    folder = cache_folder() / "benchmark" / f"{engine}-{JARS[engine].version}-{digest}"
    if not (folder / f"{PROGRAMS[engine].main}.class").exists():
        say(f"compiling {engine}'s adapter")
        folder.mkdir(parents=True, exist_ok=True)
        # Only the launcher of a compiler expands an asterisk.
        path = ":".join(map(str, sorted(libraries.glob("*.jar"))))
        _compile(["-nowarn", "-proc:none", "-d", str(folder), "-cp", path, *map(str, sources)])
    return folder


def _compile(arguments: Sequence[str]) -> None:
    # Starting the compiler by its module ensures that it has the same release as the runtime.
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
