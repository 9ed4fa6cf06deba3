"""Every image of the chart is named by its values: by a tag, or by a digest, which stands in the tag's place."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.chart import CHART, manifests, template

VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
DIGESTS = {"image": "1" * 64, "devImage": "2" * 64, "sparkImage": "3" * 64}
REPOSITORIES = {"image": "spojoin", "devImage": "spojoin-dev", "sparkImage": "spojoin-spark"}
#: Together these render each place where the chart names an image.
BACKFILL = ("backfill.enabled=true", "backfill.from.racks=/data/in", "backfill.output=/data/out", "backfill.claim=c")
RELEASES = [
    ("demo", ("devKafka.fixPermissions=true", *BACKFILL)),
    ("demo", (*BACKFILL, "backfill.operator=true")),
    ("demo", ("packing=together", "standbys=1")),
    ("operators", ()),
    ("production", ()),
]
NAMED = re.compile(r'image: \{\{ include "spojoin\.(image|devImage|sparkImage)" (\.|\.root) \}\}')


def images(part: Any) -> Iterator[str]:
    """The references of a manifest, wherever they stand in it."""
    if isinstance(part, dict):
        yield from (each for name, each in part.items() if name == "image" and isinstance(each, str))
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from images(each)


@pytest.mark.parametrize(("example", "settings"), RELEASES)
def test_every_image_has_the_tag_of_its_values_or_the_charts_version(example, settings):
    tags = [f"{name}.tag={name.lower()}-1" for name in DIGESTS]
    found = set(images(manifests(example, *settings, *tags)))
    assert found <= {f"{repository}:{name.lower()}-1" for name, repository in REPOSITORIES.items()}
    assert set(images(manifests(example, *settings))) == {f"{each.split(':')[0]}:{VERSION}" for each in found}


@pytest.mark.parametrize(("example", "settings"), RELEASES)
def test_a_digest_takes_the_place_of_every_tag(example, settings):
    given = [f"{name}.digest=sha256:{digest}" for name, digest in DIGESTS.items()]
    found = set(images(manifests(example, *settings, *given, "image.tag=v1")))
    assert found <= {f"{repository}@sha256:{DIGESTS[name]}" for name, repository in REPOSITORIES.items()}
    assert len(found) == len(set(images(manifests(example, *settings))))


def test_no_template_names_an_image_in_another_way():
    lines = [line for path in (CHART / "templates").rglob("*.*") for line in path.read_text().splitlines()]
    named = [line.strip() for line in lines if re.match(r"\s*(- )?image:", line)]
    assert len(named) > 10
    assert [line for line in named if not NAMED.fullmatch(line)] == []


@pytest.mark.parametrize("digest", ["latest", "sha256:12", f"sha512:{'1' * 64}", f"sha256:{'G' * 64}"])
def test_what_is_no_digest_is_refused(digest):
    done = template("--set", "demo.enabled=true", "--set", f"image.digest={digest}")
    assert done.returncode != 0
    assert "image.digest: Does not match pattern" in done.stderr
