"""Every query that a reader finds in the repository: loadgen's files, the chart's, and those in the README."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: An indented block of the README that begins as a query does.
_BLOCK = re.compile(r"(?m)^    name: .+\n(?:    .+\n)+")


def sample_queries() -> dict[str, str]:
    """The text of each query, by its name."""
    files = [*sorted((ROOT / "loadgen/queries").glob("*.yaml")), ROOT / "helm/spojoin/files/demo-query.yaml"]
    texts = [path.read_text() for path in files]
    texts += [textwrap.dedent(block) for block in _BLOCK.findall((ROOT / "README.md").read_text())]
    return {name_of(text): text for text in texts}


def name_of(text: str) -> str:
    """The query's name."""
    found = re.search(r"(?m)^name: (\S+)", text)
    assert found, text
    return found[1]
