"""Infers the column types of files, tables and data frames, so that users needn't write a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from spojoin.columns.inferred import InferredSchema, common_type, infer_schema, repeated_name
from spojoin.embedded.file_paths import files_of, naming_standard_input
from spojoin.embedded.python_rows import (
    NOT_TAKEN,
    how_to_give,
    kind_of_value,
    lacking_in_arrow,
    table_of,
    unusable_column,
)
from spojoin.embedded.readers import (
    CSV_DELIMITERS,
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    folder_columns,
    format_suffix,
    is_json,
    may_be_csv,
)
from spojoin.errors import BadData, ConfigurationError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, TypeName

#: Rows of text from which types are inferred; they are in the first 4 MiB of a file.
SAMPLE_ROWS = 20_000
#: How many files of text are sampled if a pattern names more: the first, the last, and some between.
SAMPLE_FILES = 16

_STRING = ColumnType(TypeName.STRING)


def schema_of(source: object) -> dict[str, ColumnType]:
    """The columns of a file or table with their types; see `schema_with_notes`."""
    return dict(schema_with_notes(source).columns)


def schema_with_notes(source: object, *, carries: bool = False, csv: CsvOptions = AS_THE_PAGE_SAYS) -> InferredSchema:
    """The columns of a source with their types, and why some can't be used.

    source: a path, a pattern of files or `-`; an Arrow schema, table, batch or reader; a data frame of pandas, or
    anything with Arrow's C stream or C schema interface; a dict of arrays. No rows are taken from a reader. The types
    of text (CSV, JSON) come from its first rows: a later row with a value that doesn't fit is refused.

    carries: see `infer_schema`; text has no such columns
    csv: how CSV is written

    Raises ConfigurationError if a file can't be read or files differ, BadData for any other object.
    """
    if isinstance(source, str | Path):
        return _columns_of_files(Path(source), csv, carries=carries)
    found = infer_schema(arrow_schema_of(source), carries=carries)
    return replace(found, guessed=frozenset(found.columns)) if getattr(source, "is_guessed", False) else found


def arrow_schema_of(source: Any) -> pa.Schema:  # noqa: ANN401  (any argument)
    """The Arrow schema of a table, data frame, reader or dict of arrays. Raises BadData for any other object."""
    if isinstance(source, pa.Schema):
        return source
    if isinstance(getattr(source, "schema", None), pa.Schema):
        return source.schema
    if type(source).__module__.split(".")[0] == "pandas":
        names = list(source.columns)
        repeated = next((name for name in names if names.count(name) > 1), None)
        if repeated is not None:
            raise BadData(f"the data frame's {repeated_name(str(repeated))}")
        try:
            return pa.Schema.from_pandas(source)
        except NOT_TAKEN as error:
            raise BadData(f"the data frame's {unusable_column(source) or error}") from error
    if isinstance(source, Mapping):
        return table_of(source, "the dict").schema
    if why := lacking_in_arrow(source):
        raise BadData(f"the data frame's {why}")
    if hasattr(source, "__arrow_c_schema__"):
        return pa.schema(source)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).schema
    way = how_to_give(source) or "expected a file, an Arrow table, batch, reader or schema, or a data frame"
    raise BadData(f"{kind_of_value(source)} tells no column types: {way}")


@dataclass(frozen=True, slots=True)
class _FileColumns:
    """The column types that one file shows, None for a column without a value in the rows that were read."""

    columns: Mapping[str, ColumnType | None]
    left_out: Mapping[str, str]


def _columns_of_files(path: Path, csv: CsvOptions, *, carries: bool) -> InferredSchema:
    """The types that hold the values of all files that a path stands for."""
    all_files = files_of(path)
    files = _sampled(all_files)
    of_folders = {} if all_files == [path] else folder_columns(all_files)
    found = [_columns_of_file(each, csv, carries=carries) for each in files]
    left_out = {name: why for each in found for name, why in each.left_out.items() if name not in of_folders}
    names = dict.fromkeys(name for each in found for name in each.columns if name not in {*left_out, *of_folders})
    return InferredSchema(
        {name: _common_type(name, files, found) for name in names}
        | {name: kind or _STRING for name, kind in of_folders.items()},
        left_out,
        frozenset(names if any(map(_is_text, files)) else ()),
        frozenset(name for name in names if all(each.columns.get(name) is None for each in found)),
        is_open=not (names or left_out) and any(map(is_json, files)),
    )


def _sampled(files: list[Path]) -> list[Path]:
    """All files that contain their schema, and at most SAMPLE_FILES of the others."""
    if len(files) <= SAMPLE_FILES or not _is_text(files[0]):
        return files
    return [files[at * (len(files) - 1) // (SAMPLE_FILES - 1)] for at in range(SAMPLE_FILES)]


def _is_text(path: Path) -> bool:
    return may_be_csv(path) or is_json(path)


def _common_type(name: str, files: list[Path], found: list[_FileColumns]) -> ColumnType:
    """One type for a column of several files; text if files of text show several types."""
    first: tuple[Path, ColumnType] | None = None
    for path, each in zip(files, found, strict=True):
        kind = each.columns.get(name)
        if kind is None:
            continue
        first = first or (path, kind)
        common = common_type(first[1], kind) or (_STRING if _is_text(path) else None)
        if common is None:
            raise ConfigurationError(
                f"column {name!r} has type {first[1]} in {first[0]} and {kind} in {path}; files that are read as one "
                "stream need one type: cast the column in one of them"
            )
        first = first[0], common
    return first[1] if first else _STRING


def _columns_of_file(path: Path, csv: CsvOptions, *, carries: bool) -> _FileColumns:
    with naming_standard_input(path):
        suffix = format_suffix(path, csv)
        if suffix in CSV_DELIMITERS:
            return _columns_of_csv(path, CSV_DELIMITERS[suffix], csv)
        return (
            _columns_of_json(path, carries=carries)
            if suffix in JSON_SUFFIXES
            else _columns_of_arrow(_written_schema(path, suffix), carries=carries)
        )


def _columns_of_arrow(schema: pa.Schema, *, carries: bool) -> _FileColumns:
    known = infer_schema(schema, carries=carries)
    untyped = {each.name for each in schema if pa.types.is_null(each.type)}
    return _FileColumns({n: None if n in untyped else kind for n, kind in known.columns.items()}, known.left_out)


# A format's library is loaded when the first file is read, as in `readers`.
def _written_schema(path: Path, suffix: str) -> pa.Schema:
    if suffix in PARQUET_SUFFIXES:
        from spojoin.embedded.columnar_readers import ParquetReader  # noqa: PLC0415

        return ParquetReader(path, pa.schema([]), None).file_schema
    from spojoin.embedded.columnar_readers import ArrowReader  # noqa: PLC0415

    return ArrowReader(path, pa.schema([]), None).file_schema


def _columns_of_csv(path: Path, delimiter: str, csv: CsvOptions) -> _FileColumns:
    from spojoin.embedded.csv_form import told_type  # noqa: PLC0415
    from spojoin.embedded.csv_reader import first_rows  # noqa: PLC0415

    rows = first_rows(path, delimiter, csv).slice(0, SAMPLE_ROWS)
    return _FileColumns({name: told_type(rows.column(name), csv) for name in rows.schema.names}, {})


def _columns_of_json(path: Path, *, carries: bool) -> _FileColumns:
    from spojoin.embedded.json_reader import check_objects, json_type, nested_type, objects_of  # noqa: PLC0415  # noqa: PLC0415

    rows = list(islice(objects_of(path), SAMPLE_ROWS))
    check_objects(path, rows[:2])
    values: dict[str, list[object]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    nested = [name for name, cells in values.items() if any(isinstance(cell, dict | list) for cell in cells)]
    found: dict[str, ColumnType | None] = {name: json_type(values[name]) for name in values if name not in nested}
    left_out: dict[str, str] = {}
    for name in nested:
        kind = nested_type(values[name]) if carries else None
        if kind is None:
            left_out[name] = _why_left_out(name, path, carries=carries)
        else:
            found[name] = ColumnType(TypeName.CARRIED, arrow=kind)
    return _FileColumns({name: found[name] for name in values if name in found}, left_out)


def _why_left_out(name: str, path: Path, *, carries: bool) -> str:
    what = "objects or arrays of unlike kinds" if carries else "objects or arrays"
    way = f"jq -c '.{name} |= tojson' {path.name} > NEW.jsonl"
    return f"column {name!r} holds {what}: make columns of their fields first, or text of all, as by: {way}"
