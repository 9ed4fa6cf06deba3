"""A schema registry over HTTP, with Confluent's client. The extra `registry` brings its packages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from spojoin.errors import ConfigurationError, SpoJoinError
from spojoin.ports.interfaces import RegistryUnavailable
from spojoin.wire.registered import Reference, RegisteredSchema, SchemaKind, UnknownSchema

#: The timeout of a request, how often it is tried again, and the waits between the tries.
TIMEOUT_S, RETRIES, RETRY_MS, RETRY_MS_MAX = 5.0, 2, 100, 1_000
#: The greatest depth of nested references, which would have no end in a circle.
_DEPTH_MAX = 32
_FORBIDDEN = (401, 403)
_LATER = (408, 429)
_ID_MAX = 2**31 - 1
_SERIALIZED = "serialized"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address of a registry, and the user.

    url: one address, or several separated by commas
    ca: a file of certificates with which the registry's own is checked; by default those of the usual authorities
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None

    def properties(self) -> dict[str, Any]:
        """The client's settings, including the password."""
        found: dict[str, Any] = {
            "url": self.url,
            "timeout": TIMEOUT_S,
            "max.retries": RETRIES,
            "retries.wait.ms": RETRY_MS,
            "retries.max.wait.ms": RETRY_MS_MAX,
        }
        if self.username is not None:
            found["basic.auth.user.info"] = f"{self.username}:{self.password or ''}"
        return found if self.ca is None else {**found, "ssl.ca.location": str(self.ca)}


class ConfluentRegistry:
    """`SchemaRegistry` over HTTP. Asks once for each id, since a registered schema never changes."""

    def __init__(self, address: RegistryAddress) -> None:
        self._url = address.url
        # A client caches one form of each schema, but Protobuf is needed in two.
        self._as_written, self._serialized = _client(address), _client(address)
        self._found: dict[int, RegisteredSchema] = {}

    def find(self, schema_id: int) -> RegisteredSchema:
        if schema_id > _ID_MAX:
            raise UnknownSchema(f"schema {schema_id}: registries count schemas up to {_ID_MAX}")
        if schema_id not in self._found:
            asked = _Request(self._url, f"schema {schema_id}", UnknownSchema)
            self._found[schema_id] = asked.answer(lambda: self._read(schema_id))
        return self._found[schema_id]

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        asked = _Request(self._url, f"subject {subject}", UnknownSchema)
        return self.find(asked.answer(lambda: int(self._as_written.get_latest_version(subject).schema_id or 0)))

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """The id of a schema under a subject."""
        new = Schema(schema.text, schema.kind.value)
        asked = _Request(self._url, f"subject {subject}", ConfigurationError)
        return asked.answer(lambda: int(self._as_written.register_schema(subject, new)))

    def close(self) -> None:
        self._as_written.close()
        self._serialized.close()

    def _read(self, schema_id: int) -> RegisteredSchema:
        schema = self._as_written.get_schema(schema_id)
        if _kind(schema) is SchemaKind.PROTOBUF:
            return self._resolved(self._serialized.get_schema(schema_id, fmt=_SERIALIZED))
        return self._resolved(schema)

    def _resolved(self, schema: Schema, depth: int = 0) -> RegisteredSchema:
        if depth > _DEPTH_MAX:
            raise UnknownSchema(f"its references are nested deeper than {_DEPTH_MAX}: expected no circle")
        kind, text = _kind(schema), schema.schema_str or ""
        references = [
            Reference(each.name or "", self._resolved(self._version(kind, each), depth + 1))
            for each in schema.references or ()
        ]
        if kind is SchemaKind.PROTOBUF:
            references += _well_known(text, {each.name for each in references})
        return RegisteredSchema(kind, text, tuple(references))

    def _version(self, kind: SchemaKind, reference: SchemaReference) -> Schema:
        """A referenced schema, even if it has been deleted since."""
        if reference.subject is None or reference.version is None:
            raise UnknownSchema(f"its reference {reference.name} has no subject or no version")
        subject, version = reference.subject, reference.version
        if kind is SchemaKind.PROTOBUF:
            return self._serialized.get_version(subject, version, True, _SERIALIZED).schema
        return self._as_written.get_version(subject, version, True).schema


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to a registry, and what its refusal means."""

    url: str
    what: str
    refusal: type[SpoJoinError]

    def answer(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except SchemaRegistryError as error:
            raise self._told(error) from error
        except (httpx2.HTTPError, OSError, ValueError) as error:  # ValueError: the answer isn't JSON
            raise RegistryUnavailable(f"{self}: {error or type(error).__name__}") from error

    def _told(self, error: SchemaRegistryError) -> SpoJoinError:
        status = error.http_status_code
        sentence = f"{self}: {error.error_message} (HTTP {status})"
        if status in _FORBIDDEN:
            return ConfigurationError(f"{sentence}: check registry_username, registry_password and their rights")
        return self.refusal(sentence) if 400 <= status < 500 and status not in _LATER else RegistryUnavailable(sentence)

    def __str__(self) -> str:
        return f"schema registry {self.url}, {self.what}"


def _client(address: RegistryAddress) -> SchemaRegistryClient:
    try:
        return SchemaRegistryClient(address.properties())
    except (ValueError, OSError) as error:  # OSError: there is no such file, or it has no certificates
        raise ConfigurationError(f"schema registry {address.url}: {error}") from error


def _kind(schema: Schema) -> SchemaKind:
    try:
        return SchemaKind(schema.schema_type or SchemaKind.AVRO)
    except ValueError as error:
        raise UnknownSchema(f"its type is {schema.schema_type}; expected {', '.join(SchemaKind)}") from error


def _well_known(text: str, registered: set[str]) -> Iterator[Reference]:
    """Protobuf's own files, which aren't registered, and the files that these import."""
    from confluent_kafka.schema_registry import protobuf  # noqa: F401, PLC0415  (adds such files to the pool)

    for name in _imports(text):
        if name in registered:
            continue
        registered.add(name)
        try:
            found = descriptor_pool.Default().FindFileByName(name)
        except KeyError:
            continue  # an error comes later if the type needs this file
        inner = base64.b64encode(found.serialized_pb).decode()
        yield Reference(name, RegisteredSchema(SchemaKind.PROTOBUF, inner, tuple(_well_known(inner, registered))))


def _imports(text: str) -> list[str]:
    try:
        return list(FileDescriptorProto.FromString(base64.b64decode(text, validate=True)).dependency)
    except (binascii.Error, DecodeError):
        return []  # the reader of the type reports this itself
