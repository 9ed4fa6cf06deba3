"""The schema registry that the settings name, and results in forms that need it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import SchemaRegistry
from spojoin.runtime.settings import Settings
from spojoin.wire.registered import PREFIX_BYTES, SchemaKind, framed, schema_id_of
from spojoin.wire.results import REGISTERED_AVRO, REGISTERED_JSON
from spojoin.wire.row_values import RowWriter, row_writer

if TYPE_CHECKING:
    from spojoin.ports.confluent_registry import RegistryAddress

_ROW_FORMS = {"avro": SchemaKind.AVRO, "json-schema": SchemaKind.JSON}
_CONTENT_TYPES = {SchemaKind.AVRO: REGISTERED_AVRO, SchemaKind.JSON: REGISTERED_JSON}


def registry_of(settings: Settings) -> SchemaRegistry | None:
    """The registry, the same for all lives of a service; None where none is named. Raises ConfigurationError."""
    if settings.registry_url is None:
        return None
    try:
        import fastavro  # noqa: F401, PLC0415  (which readers load later)

        from spojoin.ports.confluent_registry import RegistryAddress  # noqa: PLC0415  (nobody without a registry pays)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"registry_url needs {error.name}: pip install 'spojoin[registry]'") from error
    return _opened(
        RegistryAddress(
            settings.registry_url, settings.registry_username, settings.registry_login(), settings.registry_ca
        )
    )


def row_form_of(settings: Settings, topic: str) -> RegisteredRows | None:
    """The form of results in `topic`; None for a form without a registered schema. Raises ConfigurationError."""
    kind, registry = _ROW_FORMS.get(settings.results_format), registry_of(settings)
    return None if kind is None or registry is None else RegisteredRows(registry, topic, kind)


def check_single_rows(query: Query, results_format: str) -> None:
    """Raise ConfigurationError where a query wants what only messages of single rows have, and results are frames."""
    said = "key" if query.result_key is not None else "trace" if query.is_traced else None
    if said is not None and results_format == "frames":
        raise ConfigurationError(
            f"query {query.name}: '{said}' is for messages of single rows, and results_format is frames, many rows a "
            "message: expected json, avro or json-schema (spojoin up --results json)"
        )


class RegisteredRows:
    """Rows in Confluent's wire format. The subject of their schema is "<topic>-value", as serialisers have it."""

    def __init__(self, registry: SchemaRegistry, topic: str, kind: SchemaKind) -> None:
        self.content_type = _CONTENT_TYPES[kind]
        self._registry = registry
        self._topic = topic
        self._kind = kind
        self._columns: pa.Schema | None = None
        self._writer: RowWriter | None = None
        self._id = 0

    def values(self, rows: pa.RecordBatch) -> Sequence[bytes]:
        """The messages' values; registers the schema before the first rows that have it.

        Raises RegistryUnavailable, and ConfigurationError where the registry refuses the schema.
        """
        if self._writer is None or self._columns != rows.schema:
            writer = row_writer(self._kind, self._topic, rows.schema)
            self._id = self._registry.register(f"{self._topic}-value", writer.schema)
            self._writer, self._columns = writer, rows.schema
        return [framed(self._id, data) for data in self._writer.values(rows)]


class RegisteredResults:
    """Results in Avro, read by the schema that stands in the registry."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._schemas: dict[int, Any] = {}

    def row(self, value: bytes) -> dict[str, Any]:
        """The columns of one row. Raises ConfigurationError where no registry is set, and what it raises."""
        import fastavro  # noqa: PLC0415  (only this form needs it)

        schema_id = schema_id_of(value) or 0
        if schema_id not in self._schemas:
            self._schemas[schema_id] = fastavro.parse_schema(orjson.loads(self._text(schema_id)))
        row = fastavro.schemaless_reader(BytesIO(value[PREFIX_BYTES:]), self._schemas[schema_id], None)
        return cast("dict[str, Any]", row)

    def _text(self, schema_id: int) -> str:
        registry = registry_of(self._settings)
        if registry is None:
            raise ConfigurationError("the results are Avro with a registered schema: set SPOJOIN_REGISTRY_URL")
        return registry.find(schema_id).text


@functools.cache
def _opened(address: RegistryAddress) -> SchemaRegistry:
    from spojoin.ports.confluent_registry import ConfluentRegistry  # noqa: PLC0415  (nobody without a registry pays)

    return ConfluentRegistry(address)
