"""The checks of a deployment before it begins."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from spojoin.cli.main import app

QUERY = """
name: q
streams:
  s: {schema: {a: int, b: int}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a AND l.b > r.b WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SPOJOIN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.yaml").write_text(QUERY)
    (tmp_path / "laid.yaml").write_text(QUERY + "layout: {name: scale_join, workers: 3}\n")
    (tmp_path / "alone.yaml").write_text(QUERY + "method: scan\n")


def validate(*arguments, **settings):
    env = {f"SPOJOIN_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(app, ["validate", *arguments], env=env)


@pytest.mark.parametrize("joiners", ["1", "2", "5"])
def test_any_number_of_joiners_is_accepted(joiners):
    assert validate("q.yaml", "--deployed", joiners=joiners).output == "q: the query is valid\n"


@pytest.mark.parametrize(
    ("file", "settings", "sentence"),
    [
        ("q.yaml", {"frame_tuples": "abc"}, "setting frame_tuples is 'abc': input should be a valid integer"),
        ("q.yaml", {"frame_tuplse": "1"}, "SPOJOIN_FRAME_TUPLSE is no setting: did you mean SPOJOIN_FRAME_TUPLES?"),
        ("q.yaml", {"handover_frames": "400"}, "lower frame_tuples or batch_tuples"),
        ("laid.yaml", {"workers": "2"}, "setting workers is 2, and the query's layout asks for 3"),
        ("alone.yaml", {}, "method 'scan' runs in `spojoin run` only"),
    ],
)
def test_what_services_would_refuse_is_refused_early(file, settings, sentence):
    assert validate(file, **settings).exit_code == 0
    result = validate(file, "--deployed", **settings)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_operators_topic_has_room_for_the_partials():
    assert validate("q.yaml", "--partials", "2").exit_code == 0
    result = validate("q.yaml", "--partials", "1")
    assert result.exit_code == 2
    assert "the query has 2 predicates" in result.stderr
    assert "set strimzi.topics.predicates to 2 or more" in result.stderr


def test_names_that_yaml_reads_as_another_type_need_quotes():
    assert validate("q.yaml", "--named", "q", "--named", "s").exit_code == 0
    result = validate("q.yaml", "--named", "q", "--named", "true")
    assert result.exit_code == 2
    assert "the chart read q, true: put s in quotes" in result.stderr
