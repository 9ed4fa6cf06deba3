"""`spojoin schema`: the columns of a file or of a registered schema, as a query's YAML."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spojoin.cli.errors import one_sentence
from spojoin.cli.options import Debug, with_options

if TYPE_CHECKING:
    from spojoin.columns.inferred import InferredSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """Whose columns."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TOPIC",
            help="A CSV, JSON lines, Parquet or Arrow file; with --registry, a topic of such messages.",
            show_default=False,
        ),
    ]
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="The schema registry; its subject is the topic's, TOPIC-value.")
    ] = None
    envelope: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field of the registered schema that holds the row.")
    ] = None
    debug: Debug = False


@with_options
def schema(options: SchemaOptions) -> None:
    """Print the schema of a stream for a query file: the columns of a file, or of a topic's newest registered schema.

    Services take the schema from the query alone, so a newer schema in the registry changes no running query.
    Columns that no statement can name appear in comments, with the reason. Leave out columns without a use.

    A registry with a login takes SPOJOIN_REGISTRY_USERNAME and SPOJOIN_REGISTRY_PASSWORD.

    Examples:

        spojoin schema trips.parquet

        spojoin schema in.trips --registry http://localhost:8081

        spojoin schema dbserver.public.trades --registry http://localhost:8081 --envelope after
    """
    with one_sentence(is_debug=options.debug):
        found = _of_file(options.source) if options.registry is None else _of_topic(options, options.registry)
        typer.echo(_yaml(found))


def _of_file(source: str) -> InferredSchema:
    from spojoin.embedded.inferred_schema import schema_with_notes

    return schema_with_notes(Path(source))


def _of_topic(options: SchemaOptions, url: str) -> InferredSchema:
    from spojoin.embedded.registered_schema import columns_of
    from spojoin.errors import ConfigurationError, SpoJoinError
    from spojoin.ports.confluent_registry import ConfluentRegistry, RegistryAddress

    user, password = (os.environ.get(f"SPOJOIN_REGISTRY_{name}") for name in ("USERNAME", "PASSWORD"))
    try:
        registry = ConfluentRegistry(RegistryAddress(url, user, password))
        return columns_of(registry.latest(f"{options.source}-value"), options.envelope)
    except SpoJoinError as error:
        raise ConfigurationError(str(error)) from error


def _yaml(found: InferredSchema) -> str:
    import yaml

    columns = {name: str(kind) for name, kind in found.columns.items()}
    text = yaml.safe_dump({"schema": columns}, sort_keys=False, allow_unicode=True, width=10_000)
    return text + "".join(f"  # {sentence}\n" for sentence in found.left_out.values())
