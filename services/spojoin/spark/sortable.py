"""Columns by which Spark can put rows in order: it has none for maps, wherever in a value they are."""

from __future__ import annotations

from pyspark.sql import Column, functions
from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def parts_of(kind: DataType) -> list[DataType]:
    """The types of the parts of a nested type; none of any other."""
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
    """A column that is in another place wherever `column` has another value; maps stand as lists of their entries."""
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
