"""Settings from environment and files; a mistake is one sentence that names it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from spojoin.errors import ConfigurationError
from spojoin.runtime.settings import ENV_PREFIX, Settings, load_settings
from spojoin.runtime.wiring import numbered


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(ENV_PREFIX):
            monkeypatch.delenv(name)


def test_every_setting_is_described():
    for name in Settings.model_fields:
        assert f" {name}:" in Settings.__doc__ or f" {name}," in Settings.__doc__ or f", {name}" in Settings.__doc__, (
            name
        )


def test_environment_and_arguments(monkeypatch):
    monkeypatch.setenv("SPOJOIN_QUERY_FILE", "q.yaml")
    monkeypatch.setenv("SPOJOIN_WORKERS", "3")
    monkeypatch.setenv("SPOJOIN_KAFKA", '{"security.protocol": "SASL_SSL"}')
    settings = load_settings(workers=5, worker=None)
    assert settings.workers == 5
    assert settings.kafka == {"security.protocol": "SASL_SSL"}
    assert settings.worker is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "query_file: q.yaml\nworkers: 7\ninput_topics: {trips: t}\n"),
        ("s.toml", 'query_file = "q.yaml"\nworkers = 7\ninput_topics = {trips = "t"}\n'),
        (".env", 'SPOJOIN_QUERY_FILE=q.yaml\nSPOJOIN_WORKERS=7\nSPOJOIN_INPUT_TOPICS={"trips": "t"}\n'),
    ],
)
def test_files(tmp_path, monkeypatch, name, text):
    (tmp_path / name).write_text(text)
    settings = load_settings(tmp_path / name)
    assert (settings.workers, settings.input_topics) == (7, {"trips": "t"})
    monkeypatch.setenv("SPOJOIN_WORKERS", "2")
    assert load_settings(tmp_path / name).workers == 2
    monkeypatch.setenv("SPOJOIN_SETTINGS", str(tmp_path / name))
    assert load_settings().input_topics == {"trips": "t"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "setting query_file is missing: set SPOJOIN_QUERY_FILE"),
        ({"query_file": "q", "workers": 0}, "setting workers is 0: input should be greater than or equal to 1"),
        ({"query_file": "q", "worker": "x"}, "setting worker is 'x': "),
        (
            {"query_file": "q", "results_format": "xml"},
            "setting results_format is 'xml': input should be",
        ),
        ({"query_file": "q", "redis_url": "localhost"}, "redis_url doesn't begin with redis://"),
        ({"query_file": "q", "kafka": {"group.id": "x"}}, "kafka: group.id is set by the service itself"),
        ({"query_file": "q", "wrokers": 2}, "setting wrokers is unknown"),
    ],
)
def test_mistakes_are_one_sentence(given, expected):
    with pytest.raises(ConfigurationError, match=r"^[^\n]+$") as caught:
        load_settings(**given)
    assert str(caught.value).startswith(expected)


def test_files_that_are_not_there_or_not_known(tmp_path):
    with pytest.raises(ConfigurationError, match="is not there"):
        load_settings(tmp_path / "none.yaml")
    (tmp_path / "s.ini").write_text("")
    with pytest.raises(ConfigurationError, match=r"expected \.yaml, \.toml or \.env"):
        load_settings(tmp_path / "s.ini")


def test_settings_are_frozen():
    settings = Settings(query_file="q")
    with pytest.raises(ValidationError):
        settings.workers = 9


def test_numbers_of_instances():
    settings = Settings(query_file="q", worker=1)
    assert numbered(settings, "worker", 2) == 1
    with pytest.raises(ConfigurationError, match=r"setting worker is 1; expected 0\.\.0"):
        numbered(settings, "worker", 1)
    with pytest.raises(ConfigurationError, match="SPOJOIN_PREDICATE"):
        numbered(settings, "predicate", 2)


@pytest.mark.parametrize(
    "given",
    [{"redis_url": "user:hunter2@redis"}, {"kafka": "hunter2"}, {"kafka": {"sasl.password": ["hunter2"]}}],
)
def test_a_sentence_tells_no_password(given):
    with pytest.raises(ConfigurationError) as raised:
        load_settings(query_file="q", **given)
    assert "hunter2" not in str(raised.value)
