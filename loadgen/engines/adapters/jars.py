"""The engines of the Java world: which jars of Maven Central they are, and that they are still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spojoin.errors import ConfigurationError
from spojoin.local.jars import fetch

#: "engine sha256 file" a line, as `loadgen engines lock` writes it.
LOCK = Path(__file__).parents[1] / "java" / "jars.lock"


@dataclass(frozen=True, slots=True)
class Jars:
    """modules: "organisation:name:revision"; is_complete: all that is needed, else what they depend on is added."""

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
    # What siddhi-core depends on is named org.wso2.orbit, and isn't on Maven Central: the originals stand in.
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
    """The folder with an engine's jars, fetched the first time, each with the SHA-256 of the lock.

    Raises ConfigurationError where they can't be had, or a file is another one.
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
    # A long list of modules would be a long name, and the engine's own version implies the rest.
    return fetch(f"{engine}-{jars.version}", jars.modules, progress=progress, is_complete=jars.is_complete)


def lock_lines() -> list[str]:
    """The lines of the lock for what is fetched now."""
    return [
        f"{engine} {sha256_of(path)} {path.name}" for engine in JARS for path in sorted(fetched(engine).glob("*.jar"))
    ]


def locked(engine: str) -> dict[str, str]:
    """By file the SHA-256 that an engine's jars must have."""
    lines = (line.split() for line in LOCK.read_text(encoding="utf-8").splitlines())
    return {file: digest for name, digest, file in lines if name == engine}


def sha256_of(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
