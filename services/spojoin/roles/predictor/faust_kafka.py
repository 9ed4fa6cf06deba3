"""Faust's connection to Kafka, configured by librdkafka's properties, and tokens for OAUTHBEARER.

Tokens come by the client-credentials grant (RFC 6749, 4.4): the client's id and secret are sent as basic
authorization, unencoded, as librdkafka does.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import faust
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]
from aiokafka.errors import AuthenticationFailedError  # type: ignore[import-untyped]
from faust.transport.drivers import aiokafka as driver
from faust.types.auth import CredentialsT

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties, mechanism_of

#: how long a killed predictor holds up its successor
SESSION_S = 10.0

#: a just created topic may be unknown when the group is joined: then nothing is read before the next update
METADATA_MS = 5_000


def make_app(name: str, bootstrap: str, properties: Properties, message_bytes_max: int, **options: Any) -> faust.App:  # noqa: ANN401
    """A Faust app without web server, tables and topic declarations, whose group is `name`."""
    app = faust.App(
        name,
        broker=[f"kafka://{server.strip()}" for server in bootstrap.split(",")],
        broker_credentials=credentials(properties),
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=message_bytes_max,
        consumer_metadata_max_age_ms=METADATA_MS,
        producer_max_request_size=message_bytes_max,
        autodiscover=False,
        store="memory://",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        broker_session_timeout=SESSION_S,
        **options,
    )
    app.transport = _Transport(app.conf.broker_consumer, app)
    return app


def credentials(properties: Properties) -> CredentialsT | None:
    """Faust's form of librdkafka's security properties; Faust doesn't use other properties.

    Raises ConfigurationError for a protocol or mechanism that can't be mapped.
    """
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol == "PLAINTEXT":
        return None
    if protocol == "SSL":
        return faust.SSLCredentials(context=_ssl_context(properties))
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        raise ConfigurationError(
            f"kafka: security.protocol is {protocol}; expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
        )
    context = _ssl_context(properties) if protocol == "SASL_SSL" else None
    mechanism = mechanism_of(properties) or "PLAIN"
    if mechanism == "OAUTHBEARER":
        return faust.OAuthCredentials(oauth_cb=Tokens(properties, time.monotonic), ssl_context=context)
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        raise ConfigurationError(
            f"kafka: sasl.mechanism is {mechanism}; "
            "the predictor knows PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"
        )
    return faust.SASLCredentials(
        username=str(properties.get("sasl.username", "")),
        password=str(properties.get("sasl.password", "")),
        mechanism=mechanism,
        ssl_context=context,
    )


def _ssl_context(properties: Properties) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=_text(properties, "ssl.ca.location"))
        certificate = _text(properties, "ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(
                certificate, _text(properties, "ssl.key.location"), _text(properties, "ssl.key.password")
            )
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"kafka: the files that ssl.* names can't be used ({error})") from error
    return context


def _text(properties: Properties, name: str) -> str | None:
    value = properties.get(name)
    return None if value is None else str(value)


class _Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # The fetcher takes this when the consumer starts.
        consumer._isolation_level = "read_committed"
        consumer._fetch_min_bytes, consumer._fetch_max_wait_ms = FETCH_BYTES_MIN, FETCH_WAIT_MS
        return consumer


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:  # noqa: ANN401
        """Commit nothing: every life reads from the earliest retained record."""
        return False


class _Transport(driver.Transport):
    Consumer = _Consumer


_BEFORE = "sasl.oauthbearer."

REQUIRED = tuple(f"{_BEFORE}{name}" for name in ("client.id", "client.secret", "token.endpoint.url"))

#: the fraction of its lifetime for which a token is used, as in librdkafka
LIFE_SHARE = 0.8

TIMEOUT_S = 10.0


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One client's token, fetched when it is needed and the last one is about to expire.

    Raises ConfigurationError if a property is missing. `now_s`: a monotonic clock in seconds.
    """

    def __init__(self, properties: Properties, now_s: Callable[[], float]) -> None:
        _check(properties)
        self._properties = properties
        self._tls = _tls(properties)
        self._now_s = now_s
        self._token = ""
        self._good_until_s = float("-inf")

    async def token(self) -> str:
        """A token that is valid for a while. Raises AuthenticationFailedError, after which the client tries again."""
        if self._now_s() >= self._good_until_s:
            asked_s = self._now_s()
            answer = await self._fetch()
            self._token = str(answer["access_token"])
            self._good_until_s = asked_s + LIFE_SHARE * float(answer.get("expires_in", 0))
        return self._token

    def extensions(self) -> dict[str, str]:
        """The extensions that are sent with the token, from a text of name=value, separated by commas."""
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


#: plans may be delayed by this much
FETCH_BYTES_MIN, FETCH_WAIT_MS = 8 << 20, 500
