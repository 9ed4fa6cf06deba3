"""The numbered steps of the protocol page, and the comments that name them where code takes them."""

import re
from collections import Counter

from tests.support.source_tree import ROOT, modules

PAGE = ROOT / "services/spojoin/protocol/README.md"
NUMBERS = re.findall(r"^- \*\*(P\d+\.\d+)\*\*", PAGE.read_text(), re.MULTILINE)
COMMENT = re.compile(r"# (P\d+\.\d+(?:, P\d+\.\d+)*)")


def named() -> set[str]:
    texts = [path.read_text() for name, path in modules().items() if name.startswith("spojoin.")]
    return {number for text in texts for group in COMMENT.findall(text) for number in group.split(", ")}


def test_the_page_counts_its_steps():
    steps = Counter(number.partition(".")[0] for number in NUMBERS)
    assert [f"{rule}.{step}" for rule, count in steps.items() for step in range(1, count + 1)] == NUMBERS
    assert list(steps) == [f"P{rule}" for rule in range(1, len(steps) + 1)]


def test_code_names_each_step_and_no_other():
    assert named() == set(NUMBERS)
