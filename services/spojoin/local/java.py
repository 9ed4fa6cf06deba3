"""Finding a Java that Kafka can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from spojoin.errors import ConfigurationError

#: Kafka 4 brokers need it
JAVA_VERSION_MIN = 17


def find_java() -> str:
    """The path of a Java runtime that is new enough: JAVA_HOME's, else the one on PATH.

    Raises ConfigurationError with what to do where there is none.
    """
    advice = (
        f"install a Java {JAVA_VERSION_MIN} runtime (for example the package openjdk-{JAVA_VERSION_MIN}-jre-headless)"
    )
    java = shutil.which("java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin")) or shutil.which("java")
    if java is None:
        raise ConfigurationError(f"Java is missing: {advice}, or set JAVA_HOME")
    version = _version(java)
    if version < JAVA_VERSION_MIN:
        raise ConfigurationError(f"{java} is Java {version}, too old for Kafka: {advice}, and set JAVA_HOME to it")
    return java


def _version(java: str) -> int:
    """The feature number: 17 of 17.0.15, 8 of 1.8.0."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise ConfigurationError(
            f"{java} -version says no version but {said.strip()!r}: set JAVA_HOME to a Java runtime"
        )
    return int(found[1])
