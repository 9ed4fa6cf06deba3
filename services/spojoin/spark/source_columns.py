"""The columns of a query's results in Spark's types."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from spojoin.embedded.writers import result_schema
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import Output, Query
from spojoin.ports.interfaces import Log
from spojoin.protocol.generations import Generations
from spojoin.protocol.topology import Topic, topic_name
from spojoin.runtime.generations import GenerationsTopic, announced_query
from spojoin.spark.source_options import SourceOptions
from spojoin.spark.source_range import BEFORE, RangeReading, all_results_of, results_of


def columns_of(log: Log[bytes], options: SourceOptions) -> StructType:
    """The columns of a reading: those of the first result that it may find, or otherwise those of the query.

    Raises ConfigurationError if there is no such query, or if nothing defines its columns yet.
    """
    source = results_of(options.query)
    if not log.partitions(source.topic):
        raise ConfigurationError(
            f"Kafka has no topic {source.topic!r}: start the services of query {options.query!r} first (spojoin up), "
            "or correct option 'query'"
        )
    for each in all_results_of(log, options.query):
        bounds = log.bounds(each)
        begin = max(bounds.earliest, bounds.end - BEFORE) if options.starts_late else bounds.earliest
        for answer in RangeReading(log, each, begin, bounds.end).answers():
            if options.generation in (None, answer.generation):
                return spark_columns(answer.rows.schema)
    return spark_columns(_announced_columns(log, options))


def spark_columns(schema: pa.Schema) -> StructType:
    """The columns in Spark's types: text for dictionaries, TIMESTAMP_NTZ for times without a zone.

    Raises ConfigurationError if Spark has no such type.
    """
    for field in schema:
        try:
            from_arrow_schema(pa.schema([field]), prefer_timestamp_ntz=True)
        except PySparkTypeError as error:
            raise ConfigurationError(
                f"column {field.name!r} of the results is {field.type}, for which Spark has no type: CAST it in "
                "the query"
            ) from error
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


class ReadColumns:
    """Converts each result's rows to the columns of a reading."""

    def __init__(self, columns: StructType, query: str) -> None:
        self._schema = to_arrow_schema(columns)
        self._query = query

    def of(self, rows: pa.RecordBatch, generation: int) -> pa.RecordBatch:
        """The rows in the types that Spark expects. Raises BadData if they have other columns."""
        wanted = self._schema
        if rows.schema.names != wanted.names or not all(map(_fits, rows.schema.types, wanted.types)):
            raise BadData(
                f"generation {generation} of query {self._query!r} answers with other columns ({_named(rows.schema)}) "
                f"than this reading has ({_named(wanted)}): read it alone, with option generation={generation}, into a "
                "table of its own"
            )
        return rows.cast(wanted)

    def together(self, batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.RecordBatch]:
        """The rows in batches of at least `rows_max` rows, except for the last: small batches cost Spark too much."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= rows_max:
                yield from _joined(held)
                held = []
        yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type fit another type without loss; keys may be numbers or texts."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if pa.types.is_integer(found) and pa.types.is_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    return (
        found == wanted or (pa.types.is_integer(found) and pa.types.is_string(wanted)) or _is_same_kind(found, wanted)
    )


def _is_same_kind(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the types are the same for Spark, which ignores the names and nullability of a map's parts."""
    return pa.types.is_nested(found) and from_arrow_schema(pa.schema([("x", found)])) == from_arrow_schema(
        pa.schema([("x", wanted)])
    )


def _named(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _announced_columns(log: Log[bytes], options: SourceOptions) -> pa.Schema:
    generations = Generations()
    if log.partitions(topic_name(options.query, Topic.GENERATIONS)):
        generations = GenerationsTopic(log, options.query).read()
    query = _wanted(generations, options)
    if query.results.output in (Output.PAIRS, Output.COUNT) and any(stream.key is not None for stream in query.inputs):
        raise ConfigurationError(
            f"query {options.query!r} has no results yet, which say what type its keys have: wait for the first ones, "
            "or name the columns, such as .schema('seq long, stream string, key long, matches long')"
        )
    return result_schema(query, [pa.int64()] * len(query.inputs))


def _wanted(generations: Generations, options: SourceOptions) -> Query:
    number = options.generation or generations.current_number
    if number >= generations.next_number:
        raise ConfigurationError(
            f"query {options.query!r} has no results and no generation {number} yet: start its services first "
            "(spojoin up), or name the columns by .schema(...)"
        )
    return announced_query(generations.announced(number))
