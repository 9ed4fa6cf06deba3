"""The table of formats is that of the page."""

from __future__ import annotations

from spojoin.reading.formats import FORMATS
from tests.support.source_tree import ROOT

PAGE = (ROOT / "services/spojoin/wire/README.md").read_text()


def test_the_page_has_a_row_for_each_format() -> None:
    assert "\n".join("| {} | {} | {} |".format(*each.about) for each in FORMATS) in PAGE


def test_a_content_type_names_one_format() -> None:
    names = [name for each in FORMATS for name in each.content_types]
    assert len(names) == len(set(names))
