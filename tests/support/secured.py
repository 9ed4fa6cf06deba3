"""A closed broker and a closed Redis, and two queries whose principals have exactly the rights of `access.py`."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import orjson

from spojoin.errors import ConfigurationError
from spojoin.local.broker import LocalBroker
from spojoin.local.children import Children
from spojoin.local.net import LOOPBACK
from spojoin.local.redis import LocalRedis, find_redis_with_tls
from spojoin.local.security import BrokerSecurity, Certificates, RedisSecurity, TokenTrust
from spojoin.local.users import add_users, allow
from spojoin.ports.kafka import KafkaConfig, KafkaLog
from spojoin.ports.shared_state import store_rules
from spojoin.protocol.access import Person, Principal, rights
from spojoin.protocol.topology import Role
from tests.support.certificates import make_certificates
from tests.support.tokens import AUDIENCE, ISSUER, Issuer

#: The services join the first query; tests only try their rights on the second one's topics.
JOINED, TOUCHED = "joined", "touched"
INPUT = "in.readings"
PRINCIPALS: tuple[Principal, ...] = (*Role, *Person)
STORE_ADMIN = "admin"


def user_of(query: str, principal: Principal) -> str:
    return f"{query}-{principal.value}"


@dataclass(frozen=True)
class Secured:
    """The running servers. passwords: by user, for Kafka and Redis; why_open: why Redis is open, if it is."""

    children: Children
    broker: LocalBroker
    security: BrokerSecurity
    redis: LocalRedis
    passwords: dict[str, str] = field(repr=False)
    store_passwords: Mapping[str, str] = field(repr=False)
    why_open: str | None
    issuer: Issuer

    def log(self, query: str, principal: Principal) -> KafkaLog:
        user = user_of(query, principal)
        return KafkaLog(KafkaConfig(self.broker.bootstrap, self.security.user(user, self.passwords[user])))

    @cached_property
    def admin(self) -> KafkaLog:
        return KafkaLog(KafkaConfig(self.broker.bootstrap, self.security.client))

    def store_url(self, user: str) -> str:
        if self.why_open:
            return self.redis.url
        authority = self.security.certificates.authority
        login = f"{user}:{self.store_passwords[user]}@"
        return self.redis.url.replace("//", f"//{login}") + f"?ssl_ca_certs={authority}"

    def secrets(self) -> list[str]:
        return [self.security.password, *self.passwords.values(), *self.store_passwords.values()]

    def environment(self, query: str, principal: Principal, folder: Path) -> dict[str, str]:
        """The variables of this principal's process: a file holds its Kafka password, a variable the store's."""
        user = user_of(query, principal)
        file = folder / user
        file.write_text(self.passwords[user] + "\n")
        properties = self.security.user("", "")
        kafka = {name: text for name, text in properties.items() if name not in ("sasl.username", "sasl.password")}
        variables = {
            "SPOJOIN_BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "SPOJOIN_KAFKA": orjson.dumps(kafka).decode(),
            "SPOJOIN_KAFKA_USERNAME": user,
            "SPOJOIN_KAFKA_PASSWORD_FILE": str(file),
            "SPOJOIN_REDIS_URL": self.redis.url,
        }
        if self.why_open is None:
            variables["SPOJOIN_REDIS_URL"] += f"?ssl_ca_certs={self.security.certificates.authority}"
            variables["SPOJOIN_REDIS_USERNAME"] = query
            variables["SPOJOIN_REDIS_PASSWORD"] = self.store_passwords[query]
        return variables

    @property
    def tokens(self) -> dict[str, str | int | float | bool]:
        """Client properties for OAUTHBEARER, except the client's id and secret: those are the user and password."""
        authority = str(self.security.certificates.authority)
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": authority,
            "https.ca.location": authority,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.issuer.url,
        }


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Both servers and their users, with no rights beyond those that `rights` grants."""
    certificates = make_certificates(folder, LOOPBACK, "localhost")
    store_passwords = {name: new_password() for name in (JOINED, TOUCHED, STORE_ADMIN)}
    passwords = {user_of(query, each): new_password() for query in (JOINED, TOUCHED) for each in PRINCIPALS}
    issuer = Issuer(passwords)
    trust = TokenTrust(issuer.write_keys(folder / "keys.json"), ISSUER, AUDIENCE)
    security = BrokerSecurity(certificates, new_password(), tokens=trust)
    with ExitStack() as stack:
        stack.enter_context(issuer.serving(certificates))
        children = stack.enter_context(Children())
        redis, why_open = _redis(children, certificates, store_passwords)
        stack.enter_context(redis)
        broker = stack.enter_context(LocalBroker(children, security=security))
        add_users(broker, passwords)
        for query in (JOINED, TOUCHED):
            for each in PRINCIPALS:
                allow(broker, user_of(query, each), rights(each, query, [INPUT]))
        yield Secured(children, broker, security, redis, passwords, store_passwords, why_open, issuer)


def new_password() -> str:
    return secrets.token_hex(12)


def _redis(
    children: Children, certificates: Certificates, passwords: Mapping[str, str]
) -> tuple[LocalRedis, str | None]:
    """A closed Redis if an installed server supports that; otherwise the reason why not."""
    users = [f"user {query} on >{passwords[query]} {store_rules(query)}" for query in (JOINED, TOUCHED)]
    users.append(f"user {STORE_ADMIN} on >{passwords[STORE_ADMIN]} ~* &* +@all")
    try:
        find_redis_with_tls()
    except ConfigurationError as error:
        return LocalRedis(children), str(error)
    return LocalRedis(children, security=RedisSecurity(certificates, tuple(users))), None
