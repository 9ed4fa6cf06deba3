"""Dashboards, alerts, runbook and page agree with each other and with the metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from helm.tables import files
from helm.tables.__main__ import main
from helm.tables.alerts import ALERTS, NEEDED, RELEASE, release_rules, rules
from helm.tables.dashboards import DASHBOARDS
from helm.tables.expressions import SCOPE, filled, names
from helm.tables.page import exposed, expressions_of, users
from helm.tables.panels import COLUMNS, as_json
from spojoin.protocol.topology import TOPOLOGY, Topic
from spojoin.telemetry.metrics import SERVICE_LABELS, Metrics

CHART = Path(__file__).parents[4] / "helm" / "spojoin"
BOARDS = pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)


def known() -> set[str]:
    """Every metric that a service exposes, its own and the process's."""
    own = {name for metric in Metrics().described for name in exposed(metric)}
    return own | {sample.name for family in Metrics().registry.collect() for sample in family.samples}


def headings() -> list[str]:
    return re.findall(r"^## (.+)$", (CHART / "RUNBOOK.md").read_text(), re.MULTILINE)


def test_the_charts_files_are_up_to_date() -> None:
    assert files.stale(CHART) == [], "run python -m helm.tables --write"


def test_each_alert_has_its_section_in_the_runbook_and_vice_versa() -> None:
    assert headings() == [alert.name for alert in ALERTS]
    for rule in release_rules()["groups"][0]["rules"]:
        file, anchor = rule["annotations"]["runbook"].split("#")
        assert (CHART / file).is_file()
        assert anchor in {heading.lower() for heading in headings()}


def test_each_section_states_the_meaning_the_checks_and_the_remedy() -> None:
    sections = re.split(r"^## .+$", (CHART / "RUNBOOK.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        places = [section.index(f"**What {words}.**") for words in ("it means", "to look at", "to do")]
        assert places == sorted(places)


def test_panels_that_the_runbook_names_exist() -> None:
    titles = {panel.title for board in DASHBOARDS for panel in board.panels}
    named = set(re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", (CHART / "RUNBOOK.md").read_text()))
    assert named
    assert named <= titles


@BOARDS
def test_dashboards_read_only_metrics_that_exist(board) -> None:
    for expression in expressions_of(board):
        assert names(expression)
        assert names(expression) <= known(), expression


@BOARDS
def test_every_panel_queries_within_the_dashboards_scope(board) -> None:
    for panel in board.panels:
        for series in panel.series:
            selectors = re.findall(r"(?:spojoin|process|python)_[a-z_]+(\{[^}]*\})?", series.expression)
            assert selectors
            for selector in selectors:
                assert all(label + matcher in selector for label, matcher in SCOPE.items()), series.expression


@BOARDS
def test_every_variable_in_an_expression_can_be_chosen(board) -> None:
    values = {variable.name: "x" for variable in board.variables} | {"__rate_interval": "1m", "__range": "1h"}
    for expression in expressions_of(board):
        assert "$" not in filled(expression, values)


@BOARDS
def test_the_json_is_laid_out_without_overlaps(board) -> None:
    made = as_json(board)
    taken: set[tuple[int, int]] = set()
    for panel in made["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= COLUMNS
        taken |= cells
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids)
    shown = [panel for panel in made["panels"] if panel["type"] != "row"]
    assert [panel["title"] for panel in shown] == [panel.title for panel in board.panels]
    assert all(panel["description"] and panel["datasource"]["uid"] == "${datasource}" for panel in shown)
    assert [v["name"] for v in made["templating"]["list"]][:4] == ["datasource", "namespace", "release", "query"]


def test_titles_are_unique_within_a_row_and_uids_everywhere() -> None:
    assert len({board.uid for board in DASHBOARDS}) == len(DASHBOARDS)
    for board in DASHBOARDS:
        for row in board.rows:
            titles = [panel.title for panel in row.panels]
            assert len(set(titles)) == len(titles)


def test_alerts_read_only_metrics_that_exist_and_keep_queries_apart() -> None:
    for rule in rules()["groups"][0]["rules"]:
        assert names(rule["expr"]) <= known(), rule["alert"]
        assert "query" in rule["expr"]
        assert "$" not in rule["expr"].replace('"$1"', ""), "a choice of a dashboard"


def test_a_releases_own_rules_read_its_series_alone() -> None:
    for rule in release_rules()["groups"][0]["rules"]:
        selectors = re.findall(r"spojoin_[a-z_]+(\{[^}]*\})?", rule["expr"])
        assert selectors
        assert all(RELEASE in selector for selector in selectors), rule["alert"]


def test_every_metric_is_shown_somewhere() -> None:
    assert [metric.name for metric in Metrics().described if not users(metric)] == []


def test_every_metric_has_a_unit_and_says_what_it_is() -> None:
    units = "bytes|columns|epochs|frames|info|instances|keys|ratio|records|rows|seconds|tuples|workers"
    flags = {"spojoin_caught_up", "spojoin_query_accepted", "spojoin_results_exact"}  # 1 or 0
    endings = {"counter": "total", "gauge": units, "histogram": "seconds"}
    for metric in Metrics().described:
        assert metric.name in flags or re.search(rf"_({endings[metric.kind]})$", metric.name), metric.name
        assert re.fullmatch(r"[A-Z0-9].*\.", metric.help_text), metric.name
        assert not set(metric.labels) & SERVICE_LABELS.keys()


def test_the_described_metrics_are_those_of_the_registry() -> None:
    families = {family.name: family for family in Metrics().registry.collect() if family.name.startswith("spojoin_")}
    described = {metric.name.removesuffix("_total"): metric for metric in Metrics().described}
    assert families.keys() == described.keys()
    for name, family in families.items():
        assert (family.type, family.documentation) == (described[name].kind, described[name].help_text)


def test_roles_whose_answers_are_awaited_are_needed() -> None:
    assert all(edge.role in NEEDED for edge in TOPOLOGY if {Topic.MATCHES, Topic.RESULTS} & set(edge.writes))


def test_the_rule_file_has_the_rules_for_prometheus() -> None:
    text = (CHART / "alerts" / "rules.yaml").read_text()
    assert yaml.safe_load(text) == rules()
    assert text.count("\n- name:") == 1


def test_check_names_stale_files_and_write_updates_them(tmp_path) -> None:
    import typer

    app = typer.Typer()
    app.command()(main)
    shutil.copytree(CHART / "dashboards", tmp_path / "dashboards")
    for name in ("values.yaml", "README.md", "SECURITY.md"):
        shutil.copy(CHART / name, tmp_path)
    (tmp_path / "dashboards" / "old.json").write_text("{}")
    (tmp_path / "dashboards" / "spojoin-role.json").write_text("{}")
    run = CliRunner().invoke
    found = run(app, ["--check", "--chart", str(tmp_path)])
    assert found.exit_code == 1
    for name in ("old.json", "spojoin-role.json", "rules.yaml", "METRICS.md"):
        assert name in found.output
    assert "spojoin-overview.json" not in found.output
    assert run(app, ["--write", "--chart", str(tmp_path)]).exit_code == 0
    assert run(app, ["--check", "--chart", str(tmp_path)]).exit_code == 0
    assert not (tmp_path / "dashboards" / "old.json").exists()
    assert json.loads((tmp_path / "dashboards" / "spojoin-role.json").read_text())["uid"] == "spojoin-role"
    assert run(app, ["--chart", str(tmp_path)]).exit_code == 2
