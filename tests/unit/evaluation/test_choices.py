"""What a query may name where no distribution offers anything beside the product's own, and where one does."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spojoin.cli.main import app
from spojoin.embedded.run import run
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import QueryError
from spojoin.evaluation import choices
from spojoin.evaluation.choices import chosen_layout, chosen_method, evaluations, layouts, methods, stand_in
from spojoin.model import LayoutChoice, Method
from spojoin.query.load import load_served_query, parse_query

QUERY = """
name: q
streams: {s: {schema: {a: int}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '5' ON '20')
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where only spojoin is installed."""
    evaluations.cache_clear()
    monkeypatch.setattr(choices, "entry_points", lambda group: ())
    yield
    evaluations.cache_clear()


@pytest.mark.parametrize("text", ["method: scan", "layout: {name: scale_join, workers: 3}"])
def test_others_are_refused_with_what_installs_them(alone, text: str) -> None:
    with pytest.raises(QueryError, match=r"line 5: .* isn't spojoin's own .*`pip install spojoin-loadgen`"):
        parse_query(QUERY + text)


def test_the_command_line_refuses_them_too(alone) -> None:
    query = parse_query(QUERY)
    with pytest.raises(QueryError, match=r"method 'scan' isn't .*\(spo\).*pip install spojoin-loadgen"):
        chosen_method(query, "scan", ())
    with pytest.raises(QueryError, match=r"layout 'sta' isn't .*\(batch\).*pip install spojoin-loadgen"):
        chosen_layout(query, "sta", 3, ())


def test_the_products_own_may_be_named_and_is_listed(alone) -> None:
    query = parse_query(QUERY + "method: spo\nlayout: {name: batch, workers: 3}")
    assert (query.method, query.layout) == (Method(), LayoutChoice(workers=3))
    assert (list(methods()), list(layouts())) == (["spo"], ["batch"])
    for command, shown in (("methods", "spo"), ("layouts", "batch")):
        assert shown in CliRunner().invoke(app, [command]).output


def test_the_products_own_asks_no_distribution(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(choices, "evaluations", lambda: pytest.fail("asked"))
    (tmp_path / "q.yaml").write_text(QUERY + "method: spo\nlayout: {name: batch, workers: 3}")
    assert stand_in(load_served_query(tmp_path / "q.yaml")) is None


def test_a_report_has_the_cost_of_a_layout_where_something_measures_it(tmp_path: Path) -> None:
    assert {"messages", "per_worker", "topics"} <= _reported(tmp_path).keys()


def test_a_report_names_the_layout_where_nothing_measures_it(alone, tmp_path: Path) -> None:
    assert _reported(tmp_path) == {"name": "batch", "workers": 2}


def _reported(folder: Path) -> dict[str, object]:
    (folder / "s.csv").write_text("a\n" + "".join(f"{n % 7}\n" for n in range(50)))
    query = replace(parse_query(QUERY), layout=LayoutChoice(workers=2))
    report = run(query, RunFiles({"s": folder / "s.csv"}, folder / "out.csv", None, folder / "report.json"))
    layout = report["layout"]
    assert isinstance(layout, dict)
    return layout
