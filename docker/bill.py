"""Bills of materials in CycloneDX's format, by its own library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


class Part(Protocol):
    """The properties of a part. A jar without a group has no package URL."""

    @property
    def name(self) -> str:
        """The name; for Maven, GROUP:NAME."""

    @property
    def version(self) -> str:
        """The version; empty if unknown."""

    @property
    def purl(self) -> str:
        """The package URL."""

    @property
    def sha256(self) -> str:
        """The SHA-256 of the part, if it is a file."""


def write_bill(parts: Sequence[Part], name: str, file: Path) -> None:
    """Write a CycloneDX file of the parts of `name`. It holds no time, so equal parts make equal files."""
    about = Component(name=name, type=ComponentType.CONTAINER, bom_ref=name)
    bom = Bom(components=map(_component, parts), metadata=BomMetaData(component=about))
    bom.register_dependency(about, bom.components)
    bill = json.loads(JsonV1Dot6(bom).output_as_string())
    del bill["metadata"]["timestamp"], bill["serialNumber"]
    file.write_text(json.dumps(bill, indent=2, sort_keys=True) + "\n")


def _component(part: Part) -> Component:
    group, _, own = part.name.rpartition(":")
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else []
    url = PackageURL.from_string(part.purl) if part.purl else None
    ref = part.purl or f"{part.name}@{part.sha256}"
    return Component(name=own, group=group or None, version=part.version, purl=url, hashes=hashes, bom_ref=ref)
