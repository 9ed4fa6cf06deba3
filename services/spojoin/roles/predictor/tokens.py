"""Tokens for OAUTHBEARER by the client-credentials grant, from the same properties that librdkafka fetches its own by.

RFC 6749, 4.4: the client's id and secret are sent as basic authorization; as they are, which is librdkafka's way.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]
from aiokafka.errors import AuthenticationFailedError  # type: ignore[import-untyped]

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties

_BEFORE = "sasl.oauthbearer."
REQUIRED = tuple(f"{_BEFORE}{name}" for name in ("client.id", "client.secret", "token.endpoint.url"))
#: the fraction of its life for which a token is used; librdkafka does the same
LIFE_SHARE = 0.8
TIMEOUT_S = 10.0


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One client's token, fetched when it is asked for and the last one is about to end.

    Raises ConfigurationError where a property is missing. `now_s` is a clock, in seconds that never run backwards.
    """

    def __init__(self, properties: Properties, now_s: Callable[[], float]) -> None:
        _check(properties)
        self._properties = properties
        self._tls = _tls(properties)
        self._now_s = now_s
        self._token = ""
        self._good_until_s = float("-inf")

    async def token(self) -> str:
        """A token that is good for a while. Raises AuthenticationFailedError, which the client tries again after."""
        if self._now_s() >= self._good_until_s:
            asked_s = self._now_s()
            answer = await self._fetch()
            self._token = str(answer["access_token"])
            self._good_until_s = asked_s + LIFE_SHARE * float(answer.get("expires_in", 0))
        return self._token

    def extensions(self) -> dict[str, str]:
        """What is sent with the token: name=value, separated by commas."""
        pairs = [text.partition("=") for text in self._text("extensions").split(",") if text]
        return {name: value for name, _, value in pairs}

    async def _fetch(self) -> Mapping[str, Any]:
        try:
            return await self._ask()
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
            where = self._text("token.endpoint.url")
            raise AuthenticationFailedError(f"no token from {where}: {type(error).__name__} {error}") from error

    async def _ask(self) -> Mapping[str, Any]:
        form = {"grant_type": "client_credentials"}
        if scope := self._text("scope"):
            form["scope"] = scope
        headers = {"Authorization": aiohttp.encode_basic_auth(self._text("client.id"), self._text("client.secret"))}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT_S), raise_for_status=True) as session,
            session.post(self._text("token.endpoint.url"), data=form, headers=headers, ssl=self._tls) as answer,
        ):
            found: Mapping[str, Any] = await answer.json(content_type=None)
            return {"access_token": found["access_token"], **found}

    def _text(self, name: str) -> str:
        return str(self._properties.get(f"{_BEFORE}{name}", ""))


def _check(properties: Properties) -> None:
    method = properties.get(f"{_BEFORE}method")
    if method != "oidc":
        found = "is missing" if method is None else f"is {method}"
        raise ConfigurationError(f"kafka: {_BEFORE}method {found}; with OAUTHBEARER expected oidc")
    for name in REQUIRED:
        if not properties.get(name):
            raise ConfigurationError(f"kafka: {name} is missing; OAUTHBEARER needs it")


def _tls(properties: Properties) -> ssl.SSLContext:
    file = properties.get("https.ca.location")
    try:
        return ssl.create_default_context(cafile=None if file is None else str(file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"kafka: https.ca.location is {file}, which can't be used ({error})") from error
