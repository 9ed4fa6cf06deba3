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
        ({"query_file": "q", "results_format": "xml"}, "setting results_format is 'xml': input should be"),
        ({"query_file": "q", "redis_url": "localhost"}, "redis_url doesn't begin with redis://"),
        ({"query_file": "q", "registry_url": "localhost:8081"}, "registry_url doesn't begin with http://"),
        ({"query_file": "q", "registry_url": "http://a@b"}, "registry_url holds a user or a password"),
        ({"query_file": "q", "results_format": "avro"}, "results_format avro needs registry_url"),
        ({"query_file": "q", "kafka": {"group.id": "x"}}, "kafka: group.id is set by the service itself"),
        ({"query_file": "q", "wrokers": 2}, "setting wrokers is unknown"),
    ],
)
def test_mistakes_are_one_sentence(given, expected):
    with pytest.raises(ConfigurationError, match=r"^[^\n]+$") as caught:
        load_settings(**given)
    assert str(caught.value).startswith(expected)


def test_files_that_are_missing_or_of_unknown_format(tmp_path):
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
    with pytest.raises(ConfigurationError, match="SPOJOIN_JOINER"):
        numbered(settings, "joiner", 2)


@pytest.mark.parametrize(
    "given",
    [
        {"redis_url": "user:hunter2@redis"},
        {"registry_url": "http://user:hunter2@registry"},
        {"registry_url": ["hunter2"]},
        {"registry_password": ["hunter2"]},
        {"kafka": "hunter2"},
        {"kafka": {"sasl.password": ["hunter2"]}},
    ],
)
def test_error_messages_contain_no_password(given):
    with pytest.raises(ConfigurationError) as raised:
        load_settings(query_file="q", **given)
    assert "hunter2" not in str(raised.value)


# -- users and passwords


def test_a_user_and_a_password_become_client_properties(tmp_path):
    kafka = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    (tmp_path / "password").write_text("hunter2\n")
    settings = load_settings(query_file="q", kafka=kafka, kafka_username="me", kafka_password="hunter2")
    assert settings.kafka_properties() == {**kafka, "sasl.username": "me", "sasl.password": "hunter2"}
    by_file = load_settings(query_file="q", kafka=kafka, kafka_username="me", kafka_password_file=tmp_path / "password")
    assert by_file.kafka_properties() == settings.kafka_properties()
    with pytest.raises(ConfigurationError, match=r"sasl\.username and sasl\.password must be set"):
        load_settings(query_file="q", kafka=kafka).kafka_properties()


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_with_tokens_user_and_password_are_the_clients_id_and_secret(name):
    settings = load_settings(query_file="q", kafka={name: "OAUTHBEARER"}, kafka_username="me", kafka_password="s")
    assert settings.kafka_properties() == {
        name: "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
    }


def test_a_user_and_a_password_become_part_of_the_stores_address(tmp_path):
    given = {"query_file": "q", "redis_url": "rediss://redis:6379/0?ssl_ca_certs=/ca.crt"}
    settings = load_settings(**given, redis_username="me", redis_password="a/b:c@d")
    assert settings.store_url() == "rediss://me:a%2Fb%3Ac%40d@redis:6379/0?ssl_ca_certs=/ca.crt"
    (tmp_path / "password").write_text("p")
    of_nobody = load_settings(**given, redis_password_file=tmp_path / "password")
    assert of_nobody.store_url() == "rediss://:p@redis:6379/0?ssl_ca_certs=/ca.crt"
    assert load_settings(**given).store_url() == given["redis_url"]
    assert load_settings(query_file="q", redis_password="p").store_url() is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka_password": "hunter2", "kafka_password_file": "f"}, "kafka_password and kafka_password_file are both"),
        ({"redis_password": "hunter2", "redis_password_file": "f"}, "redis_password and redis_password_file are both"),
        ({"registry_username": "me"}, "registry_username is set without registry_password"),
        ({"kafka_username": "me"}, "kafka_username is set without kafka_password"),
        ({"redis_username": "me"}, "redis_username is set without redis_password"),
    ],
)
def test_credentials_that_do_not_go_together(given, expected):
    with pytest.raises(ConfigurationError, match=expected) as raised:
        load_settings(query_file="q", **given)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka": {"sasl.username": "x"}}, "kafka has sasl.username and kafka_username is set as well"),
        ({"kafka": {"sasl.password": "hunter2"}}, "kafka has sasl.password and kafka_password is set as well"),
    ],
)
def test_credentials_in_two_places(given, expected):
    settings = load_settings(query_file="q", kafka_username="me", kafka_password="other", **given)
    with pytest.raises(ConfigurationError, match=expected) as raised:
        settings.kafka_properties()
    assert "hunter2" not in str(raised.value)


def test_a_store_with_two_passwords():
    settings = load_settings(query_file="q", redis_url="redis://:hunter2@redis", redis_password="other")
    with pytest.raises(ConfigurationError, match="redis_url holds a user or a password") as raised:
        settings.store_url()
    assert "hunter2" not in str(raised.value)


def test_a_password_file_that_is_missing_or_empty(tmp_path):
    settings = load_settings(query_file="q", kafka_password_file=tmp_path / "none")
    with pytest.raises(ConfigurationError, match=r"kafka_password_file .*none can't be read: No such file"):
        settings.kafka_properties()
    (tmp_path / "empty").write_text("\n")
    settings = load_settings(query_file="q", redis_url="redis://r", redis_password_file=tmp_path / "empty")
    with pytest.raises(ConfigurationError, match=r"redis_password_file .*empty is empty"):
        settings.store_url()


def test_settings_never_show_a_password():
    secrets = {"kafka_password": "hunter2", "redis_password": "hunter2"}
    hidden = {"kafka": {"sasl.oauthbearer.extensions": "hunter2"}, "redis_url": "redis://h:hunter2@redis"}
    assert "hunter2" not in repr(load_settings(query_file="q", **secrets, **hidden))
    with pytest.raises(ValidationError) as raised:
        Settings(query_file="q", kafka={"a": ["hunter2"]}, redis_password=["hunter2"])
    assert "hunter2" not in str(raised.value)
