"""An issuer of tokens: an HTTPS endpoint of the client-credentials grant, and its keys as a file."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from spojoin.local.net import LOOPBACK
from spojoin.local.security import Certificates

ISSUER, AUDIENCE = "https://issuer.test", "kafka"
KEY_ID = "test"
LIFE_S = 300


@dataclass
class Issuer:
    """The clients that may get tokens, by id, and those that got one."""

    secrets: Mapping[str, str] = field(repr=False)
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65_537, 2048), repr=False)
    given: list[str] = field(default_factory=list)
    url: str = ""

    def write_keys(self, file: Path) -> Path:
        public = {**RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True), "kid": KEY_ID, "alg": "RS256"}
        file.write_text(json.dumps({"keys": [public]}))
        return file

    def token(self, client: str, audience: str = AUDIENCE) -> str:
        now = int(time.time())
        claims = {"sub": client, "iss": ISSUER, "aud": audience, "iat": now, "exp": now + LIFE_S}
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": KEY_ID})

    def answer(self, authorization: str, body: str) -> dict[str, object] | None:
        scheme, _, code = authorization.partition(" ")
        client, _, secret = base64.b64decode(code).decode().partition(":")
        is_right = scheme == "Basic" and self.secrets.get(client) == secret
        if not is_right or parse_qs(body).get("grant_type") != ["client_credentials"]:
            return None
        self.given.append(client)
        return {"access_token": self.token(client), "token_type": "Bearer", "expires_in": LIFE_S}

    @contextmanager
    def serving(self, certificates: Certificates) -> Iterator[Issuer]:
        server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.chain, certificates.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.url = f"https://{LOOPBACK}:{server.server_port}/token"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found = issuer.answer(self.headers["Authorization"], body)
            text = json.dumps(found or {"error": "invalid_client"}).encode()
            self.send_response(200 if found else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:
            """No line for a request."""

    return Handler
