"""Faust on this system's terms: it sees what transactions committed, and commits no offsets itself.

Faust reads uncommitted records unless it writes in transactions itself. The predictor must see the log as every other
reader does (rule P3), so the driver's consumer is set so when it is made; Faust has no setting for that, nor for
fetching seldom and much, which costs the broker and the predictor a fraction of fetching each frame.
"""

from __future__ import annotations

import ssl
import time
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from faust.transport.drivers import aiokafka as driver
from faust.types.auth import CredentialsT

from spojoin.errors import ConfigurationError
from spojoin.ports.credentials import Properties, mechanism_of
from spojoin.roles.predictor.tokens import Tokens

#: plans may be delayed by this much
FETCH_BYTES_MIN, FETCH_WAIT_MS = 8 << 20, 500
#: a predictor that was killed holds up its successor for this long
SESSION_S = 10.0
#: a topic that was made a moment ago may be unknown when the group is joined: then nothing is read before the next look
METADATA_MS = 5_000


class _Thread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Taken by the fetcher when the consumer starts.
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
    """Faust's form of librdkafka's security properties; other properties don't concern Faust.

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
