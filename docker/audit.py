"""List the parts of the images as CycloneDX files, and look up their known vulnerabilities.

python docker/audit.py REPORT --lock docker/services.lock --jars kafka=FOLDER --image spojoin:dev
  REPORT   the folder of the bills, NAME.cdx.json
  --lock   a lock file of pip
  --jars   a name, and a folder of jars
  --image  an image that Docker has, for its Debian packages
Exit status: 0 no known vulnerability; 1 some part is vulnerable; 2 advisories are unavailable.
docker/ignored-advisories.toml lists advisories to ignore, each with a reason and a last day.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

OSV = "https://api.osv.dev/v1/querybatch"
IGNORED = Path(__file__).parent / "ignored-advisories.toml"
#: The command that prints an image's Debian release, and each package's source and version.
DEBIAN = (
    ". /etc/os-release; dpkg-query --show --showformat "
    '"Debian:$VERSION_ID\\t\\${source:Package}\\t\\${source:Version}\\n"'
)
#: The number of packages that OSV takes at once.
BATCH = 500


class Part(NamedTuple):
    """A package: its OSV ecosystem, its name there, its version, its package URL, its SHA-256 if known."""

    ecosystem: str
    name: str
    version: str
    purl: str
    sha256: str = ""


class Finding(NamedTuple):
    """A known vulnerability of a part."""

    part: str
    advisory: str


class NoAdvisories(Exception):
    """Advisories are unavailable, so parts may be vulnerable."""


# -- parts


def jar(path: Path) -> Part:
    """Identify a jar by its own pom.properties, by Ivy's cache beside it, or by its name."""
    group, name, version = _by_pom(path) or _by_cache(path) or ("", path.stem, "")
    purl = f"pkg:maven/{group}/{name}@{version}" if group else ""
    return Part("Maven", f"{group}:{name}" if group else name, version, purl, _sha256(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _by_pom(path: Path) -> tuple[str, str, str] | None:
    """Identify a jar by its properties. A shaded jar also holds others'; the file name tells its own."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", entry):
                text = archive.read(entry).decode(errors="replace")
                said = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
                if path.stem == f"{said.get('artifactId')}-{said.get('version')}":
                    return said.get("groupId", ""), said["artifactId"], said["version"]
    return None


def _by_cache(path: Path) -> tuple[str, str, str] | None:
    """Identify a jar by Ivy's cache, two folders above the jars: GROUP/NAME/KIND/NAME-VERSION.jar."""
    for found in (path.parents[2] / "ivy").glob(f"*/*/*/{path.name}"):
        group, name = found.parts[-4:-2]
        return group, name, path.stem.removeprefix(f"{name}-")
    return None


def debian(image: str) -> list[Part]:
    """The source packages of an image. If Docker or the image is missing: none, and a message."""
    command = ["docker", "run", "--rm", "--entrypoint", "sh", image, "-c", DEBIAN]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print(f"{image} can't list its Debian packages: run make images", file=sys.stderr)
        return []
    return packages(said)


def packages(said: str) -> list[Part]:
    """An image's output as parts."""
    rows = sorted({tuple(line.split("\t")) for line in said.splitlines() if line})
    return [
        Part(release, name, version, f"pkg:deb/debian/{name}@{version}?arch=source") for release, name, version in rows
    ]


# -- vulnerabilities


def of_osv(parts: Sequence[Part], address: str = OSV) -> list[Finding]:
    """The known vulnerabilities of Maven's and Debian's packages. Raises NoAdvisories."""
    found = []
    asked = [part for part in parts if part.version and (part.ecosystem != "Maven" or ":" in part.name)]
    for start in range(0, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        for part, answer in zip(batch, _ask(batch, address), strict=True):
            found += [Finding(f"{part.name} {part.version}", each["id"]) for each in answer.get("vulns", ())]
    return found


def _ask(parts: Sequence[Part], address: str) -> list[Mapping[str, list[dict[str, str]]]]:
    queries = [{"package": {"ecosystem": p.ecosystem, "name": p.name}, "version": p.version} for p in parts]
    body = json.dumps({"queries": queries}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            results: list[Mapping[str, list[dict[str, str]]]] = json.load(answer)["results"]
            return results
    except (OSError, ValueError, KeyError) as error:
        raise NoAdvisories(f"{address} gives no advisories ({error})") from error


def of_pip_audit(lock: Path) -> list[Finding]:
    """The known vulnerabilities of locked Python packages, by PyPI's advisories. Raises NoAdvisories."""
    options = ["--strict", "--progress-spinner", "off", "--disable-pip", "--no-deps", "--format", "json"]
    command = [sys.executable, "-m", "pip_audit", *options, "--requirement", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        told = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError) as error:
        reason = (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
        raise NoAdvisories(f"PyPI gives no advisories for {lock} ({reason})") from error
    return [Finding(f"{each['name']} {each['version']}", one["id"]) for each in told for one in each.get("vulns", ())]


def left(findings: Iterable[Finding], ignored: str, today: datetime.date) -> list[Finding]:
    """The findings that aren't ignored today. `ignored` is TOML: [[ignored]] with id, until and reason."""
    names = set()
    for each in tomllib.loads(ignored).get("ignored", []):
        if not (each.keys() == {"id", "until", "reason"} and each["reason"].strip()):
            raise SystemExit(f"{IGNORED.name}: an entry has {sorted(each)}; expected id, until and a reason")
        if today <= each["until"]:
            names.add(each["id"])
    return [each for each in findings if each.advisory not in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the bills, then look up vulnerabilities of their parts."""
    from bill import write_bill  # noqa: PLC0415  (only the environment of `make audit` has its library)

    options = _options(arguments)
    report: Path = options.report
    report.mkdir(parents=True, exist_ok=True)
    others = []
    for lock in options.lock:
        bill = report / f"{lock.stem}.cdx.json"
        command = [
            sys.executable,
            "-m",
            "cyclonedx_py",
            "requirements",
            "--output-reproducible",
            "-o",
            str(bill),
            str(lock),
        ]
        subprocess.run(command, check=True)
    for name, folder in options.jars:
        parts = [jar(path) for path in sorted(Path(folder).glob("*.jar"))]
        unknown = sum(not part.purl for part in parts)
        print(f"{name}: {len(parts)} jars, {unknown} of them without a group, so without advisories")
        write_bill(parts, name, report / f"{name}-jars.cdx.json")
        others += parts
    for image in options.image:
        parts = debian(image)
        if parts:
            write_bill(parts, image, report / f"{image.rpartition('/')[2].partition(':')[0]}-debian.cdx.json")
        others += parts
    return _verdict(options.lock, others)


def _verdict(locks: Sequence[Path], others: Sequence[Part]) -> int:
    findings, missing = list[Finding](), list[str]()
    for look, of in [(of_osv, others), *((of_pip_audit, lock) for lock in locks)]:
        try:
            findings += look(of)  # type: ignore[operator]
        except NoAdvisories as error:
            missing.append(str(error))
    wrong = left(findings, IGNORED.read_text(), datetime.date.today())
    for finding in wrong:
        print(f"{finding.part}: {finding.advisory}")
    for sentence in missing:
        print(f"{sentence}: these parts may be vulnerable", file=sys.stderr)
    print(f"{len(wrong)} known vulnerabilities, {len(findings) - len(wrong)} ignored until their last day")
    return 1 if wrong else 2 if missing else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    def named(text: str) -> tuple[str, str]:
        name, _, path = text.partition("=")
        return name, path

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--lock", type=Path, action="append", default=[])
    parser.add_argument("--jars", type=named, action="append", default=[])
    parser.add_argument("--image", action="append", default=[])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
