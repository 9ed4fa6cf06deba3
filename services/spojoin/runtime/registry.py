"""The schema registry and the form of results that the settings name; the form may need the registry."""

from __future__ import annotations

import functools
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import orjson

from spojoin.errors import ConfigurationError
from spojoin.model import Query
from spojoin.ports.interfaces import SchemaRegistry
from spojoin.runtime.settings import Settings
from spojoin.suggest import listed
from spojoin.wire.registered import PREFIX_BYTES, schema_id_of
from spojoin.wire.result_forms import RESULT_FORMS
from spojoin.wire.result_writers import ResultWriter, result_writer

if TYPE_CHECKING:
    from spojoin.ports.confluent_registry import RegistryAddress


def registry_of(settings: Settings) -> SchemaRegistry | None:
    """The registry, the same for all lives of a service; None if none is named. Raises ConfigurationError."""
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


def result_writer_of(settings: Settings, topic: str) -> ResultWriter:
    """The writer of results into `topic`, in the form that the settings name. Raises ConfigurationError."""
    registry = registry_of(settings)
    form = RESULT_FORMS[settings.results_format]
    return result_writer(form, topic, None if registry is None else registry.register)


def check_single_rows(query: Query, results_format: str) -> None:
    """Raise ConfigurationError if a query needs messages of single rows, which the form of results doesn't have."""
    said = "key" if query.results.key is not None else "trace" if query.results.is_traced else None
    if said is not None and not RESULT_FORMS[results_format].has_single_rows:
        others = [form.name for form in RESULT_FORMS.values() if form.has_single_rows]
        raise ConfigurationError(
            f"query {query.name}: '{said}' is for messages of single rows, and results_format is {results_format}, "
            f"many rows a message: expected {listed(others)} (spojoin up --results json)"
        )


class RegisteredResults:
    """Results in Avro, read by their schema in the registry."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._schemas: dict[int, Any] = {}

    def row(self, value: bytes) -> dict[str, Any]:
        """The columns of one row. Raises ConfigurationError if no registry is set, and what the registry raises."""
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
