"""Every query that a reader finds in the repository: loadgen's files, the chart's, and those on two pages."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "services/spojoin/query/README.md")
#: An indented block that begins like a query.
_BLOCK = re.compile(r"(?m)^    name: .+\n(?:    .+\n)+")


def sample_queries() -> dict[str, str]:
    """The text of each query by a unique name; names of the pages' queries begin with `readme-`."""
    files = [*sorted((ROOT / "loadgen/queries").glob("*.yaml")), ROOT / "helm/spojoin/files/demo-query.yaml"]
    texts = [path.read_text() for path in files]
    blocks = [block for page in PAGES for block in _BLOCK.findall((ROOT / page).read_text())]
    texts += [textwrap.dedent(block).replace("name: ", "name: readme-", 1) for block in blocks]
    return {_name_of(text): text for text in texts}


def _name_of(text: str) -> str:
    found = re.search(r"(?m)^name: (\S+)", text)
    assert found, text
    return found[1]
