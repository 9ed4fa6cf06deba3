"""Access control of a local broker and a local Redis: TLS, users and their rights."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

_BROKER = """\
inter.broker.listener.name=SASL_SSL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.sasl.enabled.mechanisms={mechanisms}
# the node itself and its administrator; everybody else is kept by the broker, as SCRAM credentials
listener.name.sasl_ssl.plain.sasl.jaas.config={node}
listener.name.controller.plain.sasl.jaas.config={node}
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:{admin}
"""
_TOKENS = """\
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={keys}
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.issuer={issuer}
listener.name.sasl_ssl.oauthbearer.sasl.oauthbearer.expected.audience={audience}
"""


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority's certificate; the server's key (PKCS #8) and certificates, separate and in one file."""

    authority: Path
    key: Path
    chain: Path
    key_and_chain: Path


@dataclass(frozen=True, slots=True)
class TokenTrust:
    """The tokens that a broker accepts. keys: the file with the issuer's JWKS; audience: the name they must have."""

    keys: Path
    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """SASL_SSL for clients, PLAIN for the administrator, SCRAM-SHA-512 (and OAUTHBEARER) for users, ACLs for all."""

    certificates: Certificates
    password: str = field(repr=False)
    admin: str = "admin"
    tokens: TokenTrust | None = None

    @property
    def client(self) -> dict[str, str | int | float | bool]:
        """The administrator's properties, as librdkafka names them."""
        return {**self._tls, "sasl.mechanism": "PLAIN", "sasl.username": self.admin, "sasl.password": self.password}

    def user(self, name: str, password: str) -> dict[str, str | int | float | bool]:
        """A SCRAM user's properties, as librdkafka names them."""
        return {**self._tls, "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": name, "sasl.password": password}

    @property
    def java_options(self) -> list[str]:
        """Options of the broker's Java, which name the files with keys of tokens that it may read."""
        return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys}"] if self.tokens else []

    def properties(self) -> str:
        """The lines to add to the node's configuration."""
        node = (
            f'{_PLAIN} required username="{self.admin}" password="{self.password}" user_{self.admin}="{self.password}";'
        )
        text = _BROKER.format(
            mechanisms=",".join(["PLAIN", "SCRAM-SHA-512", *(["OAUTHBEARER"] if self.tokens else [])]),
            node=node,
            keystore=self.certificates.key_and_chain,
            authority=self.certificates.authority,
            admin=self.admin,
        )
        if self.tokens is None:
            return text
        return text + _TOKENS.format(keys=self._keys, issuer=self.tokens.issuer, audience=self.tokens.audience)

    @property
    def _keys(self) -> str:
        return self.tokens.keys.resolve().as_uri() if self.tokens else ""

    @property
    def _tls(self) -> dict[str, str | int | float | bool]:
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.certificates.authority)}


@dataclass(frozen=True, slots=True)
class RedisSecurity:
    """TLS only, and users by lines of Redis' ACL file (`user NAME on >PASSWORD ~PATTERN +COMMAND ...`)."""

    certificates: Certificates
    users: tuple[str, ...] = field(repr=False)

    def options(self, port: int, folder: Path) -> dict[str, str]:
        """The server's options; writes its ACL file into `folder`."""
        file = folder / "users.acl"
        file.touch(mode=0o600)
        file.write_text("".join(f"{line}\n" for line in ("user default off", *self.users)))
        return {
            "port": "0",
            "tls-port": str(port),
            "tls-cert-file": str(self.certificates.chain),
            "tls-key-file": str(self.certificates.key),
            "tls-ca-cert-file": str(self.certificates.authority),
            "tls-auth-clients": "no",
            "aclfile": str(file),
        }
