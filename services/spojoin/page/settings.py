"""The page's settings: a service's settings, and the address that the page is served on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from spojoin.errors import ConfigurationError
from spojoin.runtime.settings import ENV_PREFIX, Settings, load_settings

PAGE_PREFIX = f"{ENV_PREFIX}PAGE_"


class PageAddress(BaseSettings):
    """Where the page is served: SPOJOIN_PAGE_HOST, SPOJOIN_PAGE_PORT and SPOJOIN_PAGE_PATH; port 0 takes any free one.

    There is no login, so by default only this machine has access. A proxy may show the page at a `path`,
    such as /joins: it is served there and at /, for proxies that strip the path.
    """

    model_config = SettingsConfigDict(env_prefix=PAGE_PREFIX, frozen=True)

    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8080, ge=0, le=65_535)
    path: str = Field("/", pattern=r"^/[^?#\s]*$")


class PageSettings(NamedTuple):
    """Where the page is served, and a service's settings: query_file, redis_url, those of Kafka, workers."""

    service: Settings
    address: PageAddress


def load_page_settings(
    file: Path | None = None, *, host: str | None = None, port: int | None = None, **overrides: object
) -> PageSettings:
    """From arguments, the environment and a settings file, in this order. Raises ConfigurationError."""
    service = load_settings(file, **overrides)
    if service.redis_url is None:
        raise ConfigurationError(f"setting redis_url is missing: set {ENV_PREFIX}REDIS_URL, where the services report")
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    try:
        return PageSettings(service, PageAddress(**given))  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = f"{PAGE_PREFIX}{str(first['loc'][0]).upper()}"
        raise ConfigurationError(f"{name} is {first['input']!r}: {first['msg'].lower()}") from error


def secrets_of(settings: Settings) -> list[str]:
    """What must never be shown: the address of Redis and its password, and passwords and keys for Kafka."""
    redis = settings.store_url() or ""
    hidden = [str(value) for name, value in settings.kafka_properties().items() if _is_secret(name)]
    return [text for text in (redis, *_passwords(redis), *hidden) if text]


def _passwords(address: str) -> list[str]:
    """An address's password, as written and decoded."""
    password = urlsplit(address).password or ""
    return list(dict.fromkeys((password, unquote(password))))


def _is_secret(name: str) -> bool:
    return any(part in name for part in ("password", "secret", "key", "token", "jaas", "oauthbearer.config"))
