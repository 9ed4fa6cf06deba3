"""The forms of results: each has a writer, and the page of the wire format describes each."""

from __future__ import annotations

import pytest

from spojoin.wire.result_forms import RESULT_FORMS
from spojoin.wire.result_writers import result_writer
from tests.support.source_tree import ROOT

PAGE = (ROOT / "services/spojoin/wire/README.md").read_text()


@pytest.mark.parametrize("form", RESULT_FORMS.values(), ids=RESULT_FORMS)
def test_a_form_has_a_writer(form):
    assert result_writer(form, "q.results", lambda _subject, _schema: 1).form is form


def test_the_page_lists_every_form():
    assert "\n".join(f"| `{form.name}` | {form.value} |" for form in RESULT_FORMS.values()) in PAGE


def test_a_form_with_a_registered_schema_needs_a_registry():
    with pytest.raises(ValueError, match="avro need a schema registry"):
        result_writer(RESULT_FORMS["avro"], "q.results", None)
