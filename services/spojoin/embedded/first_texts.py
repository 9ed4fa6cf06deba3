"""The first texts of a column, by which a refusal says what reads them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spojoin.embedded.given_tables import ReadOnce
from spojoin.embedded.patterns import files_of
from spojoin.embedded.readers import CSV_DELIMITERS, JSON_SUFFIXES, format_suffix, open_reader
from spojoin.model import CsvOptions

#: Values that are looked at.
_VALUES_MAX = 200
_ROWS_MAX = 20_000


def first_texts(source: object, name: str, options: CsvOptions) -> list[str]:
    """Different texts of a column, as they stand; none of what can be read once only."""
    if isinstance(source, ReadOnce):
        return []
    found = _of_file(Path(source), name, options) if isinstance(source, str | Path) else _of_table(source, name)
    return [str(each) for each in pc.unique(found).drop_null().slice(0, _VALUES_MAX).to_pylist()]


def _of_file(path: Path, name: str, options: CsvOptions) -> pa.Array[Any]:
    first = files_of(path)[0]
    suffix = format_suffix(first, options)
    if suffix in CSV_DELIMITERS:
        from spojoin.embedded.csv_reader import first_rows  # noqa: PLC0415  (where there is a mistake)

        rows = first_rows(first, CSV_DELIMITERS[suffix], options)
        return rows.column(name) if name in rows.schema.names else pa.nulls(0, pa.string())
    if suffix in JSON_SUFFIXES:
        from spojoin.embedded.json_reader import objects_of  # noqa: PLC0415

        values = (row.get(name) for row in islice(objects_of(first), _ROWS_MAX))
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    reader = open_reader(path, pa.schema([(name, pa.string())]), None)
    return next((batch.column(0) for batch in reader), pa.nulls(0, pa.string()))


def _of_table(table: Any, name: str) -> pa.Array[Any]:  # noqa: ANN401  (an Arrow table or a data frame)
    return pa.array([None if each is None or each != each else each for each in islice(table[name], _ROWS_MAX)])  # noqa: PLR0124
