"""Build images twice without a cache and compare their layers, entry by entry.

python docker/reproduce.py --epoch SECONDS services dev spark -- docker build OPTIONS
  SECONDS   the commit's time: it replaces later times, as BuildKit's `rewrite-timestamp` does
Exit status: 0 all layers are equal; 1 some differ, and the output names the entries.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

#: The number of a layer's entries that the output names.
NAMED = 20


class Entry(NamedTuple):
    """A file's entry in a layer."""

    kind: bytes
    mode: int
    owner: tuple[int, int]
    time: int
    target: str
    sha256: str


Layer = dict[str, Entry]


def layers(saved: Path, epoch: int) -> Iterator[Layer]:
    """The layers of an image that `docker save` wrote, in order."""
    with tarfile.open(saved) as image:
        manifest = image.extractfile("manifest.json")
        assert manifest is not None
        for name in json.load(manifest)[0]["Layers"]:
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                yield {each.name: entry(layer, each, epoch) for each in layer}


def entry(layer: tarfile.TarFile, info: tarfile.TarInfo, epoch: int) -> Entry:
    """The entry, with a time of at most `epoch`."""
    file = layer.extractfile(info) if info.isreg() else None
    digest = hashlib.file_digest(file, "sha256").hexdigest() if file else ""  # type: ignore[arg-type]
    return Entry(info.type, info.mode, (info.uid, info.gid), min(int(info.mtime), epoch), info.linkname, digest)


def differences(first: Layer, second: Layer) -> list[str]:
    """A sentence for each entry that differs."""
    found = []
    for name in sorted(first.keys() | second.keys()):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            found.append(f"{name} is in the {'second' if one is None else 'first'} only")
        elif one != other:
            parts = [part for part in Entry._fields if getattr(one, part) != getattr(other, part)]
            found.append(f"{name} differs in {', '.join(parts)}")
    return found


def is_reproduced(image: str, command: Sequence[str], epoch: int, folder: Path) -> bool:
    """Build an image twice, print differences, and return whether all layers are equal."""
    saved = []
    for number in (1, 2):
        tag = f"spojoin-reproduced:{image}-{number}"
        file = f"docker/{image}.Dockerfile"
        subprocess.run([*command, "--no-cache", "--file", file, "--tag", tag, "."], check=True)
        saved.append(folder / f"{image}-{number}.tar")
        subprocess.run(["docker", "save", "--output", str(saved[-1]), tag], check=True)
        subprocess.run(["docker", "image", "rm", tag], check=True, stdout=subprocess.DEVNULL)
    pairs = list(zip(*(layers(each, epoch) for each in saved), strict=True))
    unequal = 0
    for number, pair in enumerate(pairs, start=1):
        told = differences(*pair)
        unequal += bool(told)
        for sentence in told[:NAMED]:
            print(f"{image}, layer {number} of {len(pairs)}: {sentence}")
        if len(told) > NAMED:
            print(f"{image}, layer {number} of {len(pairs)}: {len(told) - NAMED:,} more")
    print(f"{image}: {len(pairs) - unequal} of {len(pairs)} layers are equal")
    return not unequal


def main() -> int:
    """Build and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("images", nargs="+")
    split = sys.argv.index("--")
    options = parser.parse_args(sys.argv[1:split])
    with tempfile.TemporaryDirectory() as folder:
        told = [is_reproduced(each, sys.argv[split + 1 :], options.epoch, Path(folder)) for each in options.images]
    return 0 if all(told) else 1


if __name__ == "__main__":
    sys.exit(main())
