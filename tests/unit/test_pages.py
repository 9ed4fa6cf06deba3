"""What a page names exists: files, headings, targets, commands, options, variables, values and classes."""

from __future__ import annotations

import pytest

from tests.support.pages import CHECKS, PACKAGE, ROOT, Page, headings, linked, pages

README = Page(ROOT / "README.md", (ROOT / "README.md").read_text())
#: The place of each planted mistake.
PLACE = PACKAGE / "protocol/README.md"
MISTAKES = {
    "see [here](../no-such-room/README.md)": "leads nowhere",
    "see [here](../query/README.md#no-such-heading)": "names a heading that README.md does not have",
    "see [here](#no-such-heading)": "names a heading that README.md does not have",
    "the file `protocol/no_such_file.py`": "no file protocol/no_such_file.py",
    "the file `no_such_file.py`": "no file no_such_file.py",
    "the room `services/spojoin/no_such_room`": "no file services/spojoin/no_such_room",
    "the room `no_such_room/`": "no file no_such_room/",
    "`python tests/no_such_file.py`": "no file tests/no_such_file.py",
    "    spojoin up loadgen/queries/no-such.yaml": "no file loadgen/queries/no-such.yaml",
    "`make no-such-target`": "no target no-such-target",
    "`make bench SLOW=1`": "make bench: there is no variable SLOW",
    "    make no-such-target   # in a block": "no target no-such-target",
    "`spojoin no-such-command`": "no command spojoin no-such-command",
    "`loadgen feed no-such-set`": "no command loadgen feed no-such-set",
    "`spojoin run --no-such-option`": "spojoin run has no option --no-such-option",
    "    loadgen produce --workload q3 \\\n        --no-such-option": "loadgen produce has no option --no-such-option",
    "    .venv/bin/spojoin run trips.yaml -z trips.csv": "spojoin run has no option -z",
    "the option `--no-such-option`": "no command has the option --no-such-option",
    "`python -m loadgen.no_such_module`": "no module loadgen.no_such_module",
    "`python -m helm.tables --no-such-option`": "python -m helm.tables has no option --no-such-option",
    "`python -m loadgen check --no-such-option`": "loadgen check has no option --no-such-option",
    "`SPOJOIN_NO_SUCH_SETTING`": "no variable SPOJOIN_NO_SUCH_SETTING",
    "    helm install x helm/spojoin --set demo.enbaled=true": "no value demo.enbaled",
    "`NoSuchClass` in `model.py`": "model.py has no NoSuchClass",
    "`Query.no_such_field` in `model.py`": "Query in model.py has no no_such_field",
}


def wrong(page):
    return [f"{page.path.relative_to(ROOT)}: {sentence}" for check in CHECKS for sentence in check(page)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.path.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
    assert wrong(page) == []


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_a_planted_mistake_is_found(text, sentence):
    (found,) = wrong(Page(PLACE, f"# A page\n\n{text}\n"))
    assert sentence in found


def test_correct_pages_pass():
    text = (
        "# A page\n\nSee [it](#a-page), `machine.py`, `protocol/machine.py`, `docker/`, `make bench`, `text/csv`,\n"
        "`spojoin run --quiet`, `loadgen feed flights`, `-i trips=trips.csv`, `SPOJOIN_WORKERS`, `report/x.html`,\n"
        "`spojoin-unused`, `python -m json.tool`, `Query.name` in `model.py`.\n\n"
        "    SPOJOIN_WORKER=1 spojoin service pojoin --settings settings.yaml    # --no-such-option\n"
        "    helm upgrade x helm/spojoin --set settings.anything=1 --set-file query.text=query.yaml\n"
    )
    assert wrong(Page(PLACE, text)) == []


def test_the_readme_links_every_page():
    missing = {page.path for page in pages()} - linked(README) - {README.path}
    assert sorted(str(path.relative_to(ROOT)) for path in missing) == []


def test_the_readme_is_short():
    lines = README.text.splitlines()
    assert len(lines) < 150
    assert [line for line in lines if len(line) >= 120] == []


def test_anchors_are_made_as_on_github():
    text = "## What a query can say\n# A join with a key: `kp`, `dp`, `hp`\n### On *Kubernetes*\n"
    assert headings(text) == {"what-a-query-can-say", "a-join-with-a-key-kp-dp-hp", "on-kubernetes"}
