"""The query over a history, and the DataFrame of each of its inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from os import PathLike

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from spojoin.columns.stream_columns import arrow_schema
from spojoin.embedded.declared_query import query_of_arguments
from spojoin.embedded.input_options import check_without_kafka
from spojoin.embedded.run import with_order
from spojoin.embedded.statements import BareStatement, StatementOptions, bare_statement
from spojoin.errors import ConfigurationError, QueryError
from spojoin.evaluation.choices import stand_in
from spojoin.model import Query, Stream, TypeName, Use
from spojoin.suggest import listed, unknown

#: The beginnings of type names whose values statements can't even pass on.
_UNKNOWN = ("variant", "interval")


def parts_of(kind: DataType) -> list[DataType]:
    """The types of a nested type's parts; empty for other types."""
    match kind:
        case ArrayType():
            return [kind.elementType]
        case MapType():
            return [kind.keyType, kind.valueType]
        case StructType():
            return [field.dataType for field in kind]
        case _:
            return []


def sortable(column: Column, kind: DataType) -> Column:
    """A column for sorting that distinguishes all values of `column`; maps become lists of their entries."""
    if not _holds_map(kind):
        return column
    match kind:
        case MapType():
            entry = StructType().add("key", kind.keyType).add("value", kind.valueType)
            return functions.transform(functions.map_entries(column), lambda each: sortable(each, entry))
        case ArrayType():
            return functions.transform(column, lambda each: sortable(each, kind.elementType))
        case StructType():
            parts = (sortable(column[field.name], field.dataType).alias(f"_{at}") for at, field in enumerate(kind))
            return functions.struct(column.isNull().alias("is_null"), *parts)
        case _:
            return column


def _holds_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) or any(map(_holds_map, parts_of(kind)))


@dataclasses.dataclass(frozen=True, slots=True)
class FrameQuery:
    """A query, and the DataFrame of each of its inputs, by the input's number."""

    query: Query
    frames: tuple[DataFrame, ...]

    def columns(self, number: int) -> list[str]:
        """The columns of an input that the query uses."""
        return list(arrow_schema(self.query.inputs[number], self.query.needs_time).names)


def frame_query_of_statement(statement: str, frames: Mapping[str, DataFrame], options: StatementOptions) -> FrameQuery:
    """A statement over DataFrames by name. Raises ConfigurationError if it or a column is wrong."""
    for name, frame in frames.items():
        _check_frame(name, frame)
    found = _query(statement, frames, options)
    inputs = []
    for stream in found.query.inputs:
        source = found.sources[stream.name]
        if not isinstance(source, _FrameColumns):
            raise ConfigurationError(
                f"{stream.name}: expected a DataFrame of this name, such as spark.read.parquet(...)"
            )
        inputs.append(source.frame)
    return _check_query(FrameQuery(found.query, tuple(inputs)))


def _query(statement: str, frames: Mapping[str, DataFrame], options: StatementOptions) -> BareStatement:
    try:
        return bare_statement(statement, {name: _FrameColumns(frame) for name, frame in frames.items()}, options)
    except QueryError as error:
        for field in (field for frame in frames.values() for field in frame.schema):
            if f"'{field.name}'" in str(error) and not _is_known(field.dataType):
                kind = field.dataType.simpleString()
                error.args = (f"{error}; {field.name} is of type {kind}, which statements don't know",)
        raise


def frame_query(query: Query | PathLike[str] | str, frames: tuple[DataFrame, ...]) -> FrameQuery:
    """A query with a DataFrame for each input, in their order. Raises ConfigurationError if they don't fit."""
    found = with_order(query_of_arguments(query, None, None, None))
    inputs = found.inputs
    if len(frames) == 2 and len(inputs) == 1 and frames[0] is frames[1]:
        frames = frames[:1]
    if len(frames) != len(inputs):
        raise ConfigurationError(
            f"query {found.name!r} reads {listed(stream.name for stream in inputs)}, and DataFrames were given for "
            f"{len(frames)} inputs: expected {len(inputs)}"
        )
    for stream, frame in zip(inputs, frames, strict=True):
        _check_frame(stream.name, frame)
        for column in arrow_schema(stream, needs_time=True).names:
            if column not in frame.columns:
                raise ConfigurationError(f"{stream.name}: {unknown('column', column, frame.columns)}")
    return _check_query(FrameQuery(found, frames))


def _check_query(asked: FrameQuery) -> FrameQuery:
    query = asked.query
    check_without_kafka(query)
    if stand_in(query) is not None:
        raise ConfigurationError(
            f"query {query.name!r} names layout {query.layout.name!r} and method {query.method.name!r}: tasks of Spark "
            "divide a history by its order alone; remove both from the query, or use `spojoin run`"
        )
    if query.has_table and any(use.side == 1 and use.is_number for use in _uses(query)):
        raise ConfigurationError(
            "the statement names the number of a table's row (r.seq), which tasks of Spark don't give: name a column"
        )
    for number, stream in enumerate(query.inputs):
        _check_types(stream, asked.columns(number), asked.frames[number].schema)
    return asked


def _uses(query: Query) -> Iterator[Use]:
    for expression in (*(each.expression for each in query.results.select), *query.residuals):
        yield from expression.uses
    for one in query.answers.grouped.aggregates if query.answers.grouped else ():
        for expression in one.needed:
            yield from expression.uses


def _check_frame(name: str, frame: object) -> None:
    if not isinstance(frame, DataFrame):
        raise ConfigurationError(f"{name} is of type {type(frame).__qualname__}: expected a DataFrame of Spark")
    if frame.isStreaming:
        raise ConfigurationError(
            f"{name} is a streaming DataFrame, and a history ends: read it by spark.read, and serve the query for what "
            "goes on"
        )


def _check_types(stream: Stream, columns: list[str], schema: StructType) -> None:
    for name in columns:
        kind = schema[name].dataType
        is_passed = name in stream.schema and stream.schema[name].name is TypeName.CARRIED
        if not _is_known(kind) or (parts_of(kind) and not is_passed):
            raise ConfigurationError(
                f"{stream.name}.{name} is of type {kind.simpleString()}, which statements don't know: make columns of "
                "its parts, or leave it out"
            )


def _is_known(kind: DataType) -> bool:
    """Whether statements know a type or can pass its values on."""
    return not kind.simpleString().startswith(_UNKNOWN) and all(map(_is_known, parts_of(kind)))


class _FrameColumns:
    """A DataFrame's columns and types, in the form in which statements see tables."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self.schema: pa.Schema = _arrow_schema(frame.schema)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """The columns whose types Arrow and statements share; naming another one is an error with a reason."""
    return to_arrow_schema(StructType([field for field in schema if _is_known(field.dataType)]))
