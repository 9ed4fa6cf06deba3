"""Finds a Java for Kafka, and fetches jars from Maven Central with Apache Ivy, which PySpark's wheel contains."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from spojoin.errors import ConfigurationError
from spojoin.local.children import start_error

#: Kafka 4 brokers need it
JAVA_VERSION_MIN = 17

#: tried together; raise both at once and run the contract suite
KAFKA_MODULES = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")

#: of the package `ivy`
_DEBIAN_IVY = Path("/usr/share/java/ivy.jar")
Progress = Callable[[str], None]

#: How often Ivy is run before a download counts as failed: each run keeps what the ones before it have downloaded.
_ATTEMPTS = 3


def find_java() -> str:
    """The path of a Java runtime that is new enough: JAVA_HOME's, otherwise the one on PATH.

    Raises ConfigurationError with what to do if there is none.
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
    """The feature number: 17 for 17.0.15, 8 for 1.8.0."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise ConfigurationError(
            f"{java} -version says no version but {said.strip()!r}: set JAVA_HOME to a Java runtime"
        )
    return int(found[1])


def cache_folder() -> Path:
    """The folder for jars: SPOJOIN_CACHE_FOLDER, otherwise the user's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    if named := os.environ.get("SPOJOIN_CACHE_FOLDER"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spojoin"


def kafka_jars(cache: Path | None = None, progress: Progress = print) -> Path:
    """The folder with the broker's jars, fetched the first time."""
    return fetch("kafka", KAFKA_MODULES, cache, progress)


def fetch(
    name: str,
    modules: Sequence[str],
    cache: Path | None = None,
    progress: Progress = print,
    *,
    is_complete: bool = False,
) -> Path:
    """The folder with the jars of `modules` ("organisation:name:revision") and all their dependencies.

    is_complete: whether `modules` names all dependencies, so that none is added
    Fetched once into `cache` (default `cache_folder()`); SPOJOIN_MAVEN_URL names another repository than Maven Central.
    Raises ConfigurationError if Java, PySpark or the network is missing, or the disk is full.
    """
    root = cache or cache_folder()
    folder = root / "jars" / "+".join([name, *(module.rsplit(":", 1)[1] for module in modules)])
    if not folder.is_dir():
        java, ivy = find_java(), _ivy_jar()
        progress(f"fetching {', '.join(modules)} into {folder}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                described = _ivy_xml(modules, is_complete=is_complete)
                _retrieve([java, "-jar", str(ivy), "-cache", str(root / "ivy")], described, Path(scratch), progress)
                _publish(Path(scratch) / "libs", folder)
        except OSError as error:
            raise start_error("fetching jars", error) from error
    return folder


def _publish(libs: Path, folder: Path) -> None:
    """Rename the folder when it is complete, so that a half-filled one is never used."""
    try:
        libs.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, with the same jars
            raise


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    places = spec.submodule_search_locations if spec else None
    found = sorted(jar for place in places or () for jar in Path(place).glob("jars/ivy-*.jar"))
    found.extend(jar for jar in [_DEBIAN_IVY] if jar.is_file())
    if not found:
        raise ConfigurationError("PySpark, which carries the downloader Ivy, is missing: pip install 'spojoin[local]'")
    return found[0]


def _retrieve(ivy: Sequence[str], described: str, scratch: Path, progress: Progress) -> None:
    (scratch / "ivy.xml").write_text(described)
    (scratch / "ivysettings.xml").write_text(_settings_xml())
    pattern = str(scratch / "libs" / "[artifact]-[revision].[ext]")
    command = [
        *ivy,
        "-settings",
        str(scratch / "ivysettings.xml"),
        "-ivy",
        str(scratch / "ivy.xml"),
        "-retrieve",
        pattern,
    ]
    for attempt in range(_ATTEMPTS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            said = _follow(process.stdout, progress)
        if process.returncode == 0 and any((scratch / "libs").glob("*.jar")):
            return
        failure = _failure(said)
        if attempt + 1 < _ATTEMPTS:
            progress(f"  trying again: {failure}")
            time.sleep(2**attempt)
    raise ConfigurationError(failure)


def _follow(output: Iterable[str], progress: Progress) -> list[str]:
    """Report a line for each downloaded jar; return all lines."""
    said: list[str] = []
    for line in output:
        said.append(line.rstrip())
        if found := re.match(r"downloading \S*/(\S+\.jar) ", line):
            count = sum(text.startswith("downloading ") for text in said)
            progress(f"  {count:3d} {found[1]}")
    return said


def _failure(said: Sequence[str]) -> str:
    text = "\n".join(said)
    if "No space left on device" in text:
        return f"the disk is full: make room in {cache_folder()}"
    source = os.environ.get("SPOJOIN_MAVEN_URL", "Maven Central")
    error = re.search(r"Server access error at url \S+ \((?:[\w.]+: )?(.*)\)|\[FAILED +\] (.*?)\.? \(\d+ms\)", text)
    missing = dict.fromkeys(re.findall(r":: (\S+#\S+): not found", text))
    reason = (error[1] or error[2]) if error else f"{', '.join(missing)} not found" if missing else ""
    what = f" ({reason})" if reason else ""
    return f"jars could not be fetched from {source}{what}: check the network, or set SPOJOIN_MAVEN_URL to a mirror"


def _ivy_xml(modules: Sequence[str], *, is_complete: bool) -> str:
    transitive = "false" if is_complete else "true"
    lines = [
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="default" transitive="{transitive}"/>'
        for organisation, name, revision in (module.split(":") for module in modules)
    ]
    return f"""<ivy-module version="2.0"><info organisation="spojoin" module="jars"/>
<configurations><conf name="default"/></configurations>
<dependencies defaultconf="default">{"".join(lines)}</dependencies></ivy-module>"""


def _settings_xml() -> str:
    """Ivy's own resolver finds Maven Central by itself; only another repository needs a name."""
    other = os.environ.get("SPOJOIN_MAVEN_URL")
    root = f' root="{other}"' if other else ""
    return f"""<ivysettings><settings defaultResolver="maven"/>
<resolvers><ibiblio name="maven" m2compatible="true"{root}/></resolvers></ivysettings>"""
