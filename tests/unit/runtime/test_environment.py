"""A variable that no setting reads is reported as a mistake."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from spojoin.errors import ConfigurationError
from spojoin.page.settings import PAGE_PREFIX, PageAddress
from spojoin.runtime.settings import OTHERS, Settings, check_environment, load_settings

ROOT = Path(__file__).parents[3]
SUFFIXES = (".py", ".yaml", ".tpl", ".md", ".Dockerfile")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("SPOJOIN_FRAME_TUPLSE", "did you mean SPOJOIN_FRAME_TUPLES? Correct its name or remove it"),
        ("spojoin_wrokers", "did you mean SPOJOIN_WORKERS? Correct its name or remove it"),
        ("SPOJOIN_SETTING", "did you mean SPOJOIN_SETTINGS? Correct its name or remove it"),
        ("SPOJOIN_QQQ", "remove it or correct its name"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(monkeypatch, name, advice):
    monkeypatch.setenv(name, "hunter2")
    with pytest.raises(ConfigurationError) as raised:
        load_settings(query_file="q")
    assert str(raised.value) == f"{name} is no setting: {advice}"


def test_variables_of_settings_and_of_other_parts_are_known():
    settings = {f"SPOJOIN_{name.upper()}" for name in Settings.model_fields}
    assert {f"{PAGE_PREFIX}{name.upper()}" for name in PageAddress.model_fields} <= OTHERS.keys()
    check_environment(
        dict.fromkeys(settings | OTHERS.keys() | {"PATH", "SPOJOIN_TEST_IMAGE"}, "1"), Settings.model_fields
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPOJOIN_KAFKA_SERVICE_HOST", "10.96.0.7"),
        ("SPOJOIN_KAFKA_SERVICE_PORT_KAFKA", "9092"),
        ("SPOJOIN_KAFKA_PORT", "tcp://10.96.0.7:9092"),
        ("SPOJOIN_PAGE_PORT_80_TCP_ADDR", "10.96.0.8"),
    ],
)
def test_kubernetes_service_variables_are_no_mistake(name, value):
    check_environment({name: value}, Settings.model_fields)
    with pytest.raises(ConfigurationError):
        check_environment({"SPOJOIN_KAFKA_PORT": "9092"}, Settings.model_fields)


def test_every_variable_that_the_repository_names_is_known():
    """A new part's variable belongs in OTHERS, or services refuse to start beside it."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = set()
    for file in files.split("\0"):
        path = ROOT / file
        if path.is_file() and path.suffix in SUFFIXES and not file.startswith("tests/"):  # these name wrong ones, too
            named |= set(re.findall(r"\bSPOJOIN_[A-Z_]*[A-Z]\b", path.read_text()))
    assert {"SPOJOIN_QUERY_FILE", "SPOJOIN_SETTINGS"} <= named
    check_environment(dict.fromkeys(named, ""), Settings.model_fields)


@pytest.mark.parametrize("name", ["kafka", "input_topics"])
def test_invalid_json_is_refused_in_a_sentence_without_the_value(monkeypatch, name):
    monkeypatch.setenv(f"SPOJOIN_{name.upper()}", "{hunter2")
    with pytest.raises(ConfigurationError, match=f"^setting {name} can't be read: expected a JSON object") as raised:
        load_settings(query_file="q")
    assert "hunter2" not in str(raised.value)


def test_an_unknown_name_in_a_file_is_refused_with_the_nearest_name(tmp_path):
    (tmp_path / "s.yaml").write_text("query_file: q\nframe_tuplse: 3\n")
    with pytest.raises(ConfigurationError, match="setting frame_tuplse is unknown: did you mean frame_tuples"):
        load_settings(tmp_path / "s.yaml")
