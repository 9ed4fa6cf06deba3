"""Users and passwords, given separately from the addresses and properties that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from spojoin.errors import ConfigurationError

Properties = dict[str, str | int | float | bool]

#: librdkafka's properties for the user and the password
_LOGIN = ("sasl.username", "sasl.password")
_TOKEN_LOGIN = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")


def mechanism_of(properties: Mapping[str, object]) -> str:
    """The SASL mechanism among the properties, under either of its names; empty if there is none."""
    return str(properties.get("sasl.mechanism", properties.get("sasl.mechanisms", ""))).upper()


def with_login(properties: Properties, username: str | None, password: str | None) -> Properties:
    """Client properties with the user and the password added.

    Raises ConfigurationError if the properties hold them already.
    """
    names = _TOKEN_LOGIN if mechanism_of(properties) == "OAUTHBEARER" else _LOGIN
    given = {name: text for name, text in zip(names, (username, password), strict=True) if text is not None}
    for name in sorted(given.keys() & properties.keys()):
        setting = ("kafka_username", "kafka_password")[names.index(name)]
        raise ConfigurationError(f"kafka has {name} and {setting} is set as well: remove one of them")
    return {**properties, **given}


def with_user(url: str, username: str | None, password: str | None) -> str:
    """An address with the user and the password added. Raises ConfigurationError if it already has a login."""
    if username is None and password is None:
        return url
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigurationError("redis_url holds a user or a password, and they are set as well: remove one of them")
    login = f"{quote(username or '', safe='')}:{quote(password or '', safe='')}"
    return parts._replace(netloc=f"{login}@{parts.netloc}").geturl()


def secret(name: str, text: SecretStr | None, file: Path | None) -> str | None:
    """A password, given directly or read from a file without the line end. Raises ConfigurationError."""
    if file is None:
        return text.get_secret_value() if text else None
    try:
        found = file.read_text().rstrip("\r\n")
    except OSError as error:
        raise ConfigurationError(f"{name}_file {file} can't be read: {error.strerror}") from error
    if not found:
        raise ConfigurationError(f"{name}_file {file} is empty; expected a password")
    return found


def check_credentials(what: str, username: str | None, password: SecretStr | None, file: Path | None) -> None:
    """Raise ValueError for settings that contradict each other."""
    if password is not None and file is not None:
        raise ValueError(f"{what}_password and {what}_password_file are both set; expected one of them")
    if username is not None and password is None and file is None:
        raise ValueError(f"{what}_username is set without {what}_password or {what}_password_file")
