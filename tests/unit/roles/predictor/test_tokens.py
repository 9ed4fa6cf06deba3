"""Tokens of the client-credentials grant: fetched when needed, used for most of their life, refused in one sentence."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import faust
import pytest
from aiokafka.errors import AuthenticationFailedError

from spojoin.errors import ConfigurationError
from spojoin.roles.predictor.faust_kafka import REQUIRED, Tokens, credentials


class Endpoint:
    """Answers as scripted, and records requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answers: list[tuple[int, str]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.headers["Authorization"], body))
                status, text = endpoint.answers.pop(0)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:
                """Log nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def gives(self, token: str, lifetime_s: int) -> None:
        self.answers.append((200, json.dumps({"access_token": token, "expires_in": lifetime_s})))

    def properties(self, **more: str) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.server.server_port}/token"
        given = {"method": "oidc", "client.id": "a b", "client.secret": "hunter2:%", "token.endpoint.url": url}
        given |= {name.replace("_", "."): text for name, text in more.items()}
        return {f"sasl.oauthbearer.{name}": text for name, text in given.items()}


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_token_is_used_for_most_of_its_life(endpoint):
    times = [0.0]
    tokens = Tokens(endpoint.properties(), lambda: times[0])
    endpoint.gives("first", 100)
    endpoint.gives("second", 100)
    assert asyncio.run(tokens.token()) == "first"
    times[0] = 79.0
    assert asyncio.run(tokens.token()) == "first"
    times[0] = 80.0
    assert asyncio.run(tokens.token()) == "second"
    login = base64.b64encode(b"a b:hunter2:%").decode()
    assert endpoint.asked == [(f"Basic {login}", "grant_type=client_credentials")] * 2


def test_a_token_without_a_lifetime_is_used_once(endpoint):
    tokens = Tokens(endpoint.properties(), lambda: 0.0)
    endpoint.answers += [(200, '{"access_token": "first"}'), (200, '{"access_token": "second"}')]
    assert [asyncio.run(tokens.token()) for _ in range(2)] == ["first", "second"]


def test_scope_and_extensions(endpoint):
    tokens = Tokens(endpoint.properties(scope="kafka all", extensions="logicalCluster=lkc-1,pool=p=1"), lambda: 0.0)
    endpoint.gives("t", 1)
    asyncio.run(tokens.token())
    assert endpoint.asked[0][1] == "grant_type=client_credentials&scope=kafka+all"
    assert tokens.extensions() == {"logicalCluster": "lkc-1", "pool": "p=1"}
    assert Tokens(endpoint.properties(), lambda: 0.0).extensions() == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((401, '{"error": "invalid_client"}'), "401"),
        ((200, "no JSON"), "JSONDecodeError"),
        ((200, '{"token": "t"}'), "access_token"),
    ],
)
def test_a_missing_token_is_reported_with_the_reason_and_without_the_secret(endpoint, answer, expected):
    endpoint.answers.append(answer)
    with pytest.raises(AuthenticationFailedError, match=expected) as raised:
        asyncio.run(Tokens(endpoint.properties(), lambda: 0.0).token())
    assert "no token from http://127.0.0.1" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_new_token_is_requested_after_a_failure(endpoint):
    tokens = Tokens(endpoint.properties(), lambda: 0.0)
    endpoint.answers.append((503, ""))
    endpoint.gives("t", 10)
    with pytest.raises(AuthenticationFailedError):
        asyncio.run(tokens.token())
    assert asyncio.run(tokens.token()) == "t"


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_missing_property_is_named(endpoint, missing):
    given = {name: text for name, text in endpoint.properties().items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"kafka: {missing} is missing"):
        Tokens(given, lambda: 0.0)


def test_another_way_to_get_tokens_is_refused(endpoint):
    with pytest.raises(ConfigurationError, match="method is default; with OAUTHBEARER expected oidc"):
        Tokens(endpoint.properties(method="default"), lambda: 0.0)
    with pytest.raises(ConfigurationError, match=r"https\.ca\.location is /no/file"):
        Tokens({**endpoint.properties(), "https.ca.location": "/no/file"}, lambda: 0.0)


def test_fausts_credentials(endpoint):
    tokens = credentials(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **endpoint.properties()}
    )
    assert isinstance(tokens, faust.OAuthCredentials)
    scram = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u"}
    assert credentials(scram).mechanism.value == "SCRAM-SHA-512"
    assert credentials({}) is None
    with pytest.raises(ConfigurationError, match="mechanism is GSSAPI; the predictor knows PLAIN"):
        credentials({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})
