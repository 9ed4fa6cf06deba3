"""The columns of a statement's sides: from their data, from options, and from how the statement uses them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spojoin.columns.inferred import InferredSchema
from spojoin.embedded.file_paths import files_of
from spojoin.embedded.inferred_schema import schema_with_notes
from spojoin.embedded.input_options import Columns, SideSource, option_of_input
from spojoin.embedded.readers import is_json, may_be_csv
from spojoin.errors import ConfigurationError, QueryError
from spojoin.model import AS_THE_PAGE_SAYS, ColumnType, CsvOptions, FileForm, TypeName
from spojoin.query.statement import Statement
from spojoin.query.types_by_use import ordered_texts, types_by_use, with_named_columns
from spojoin.suggest import unknown

_TIMESTAMP = ColumnType(TypeName.TIMESTAMP)
_MOMENTS = (TypeName.TIMESTAMP, TypeName.DATE)


def columns_of(
    statement: Statement,
    sides: Sequence[SideSource],
    schemas: Mapping[str, Columns],
    csv: Mapping[str, CsvOptions],
    times: Mapping[str, str],
) -> list[InferredSchema]:
    """The columns of both sides, the left one first; columns without values get the types that the statement shows.

    schemas, csv, times: the options, by the names of inputs

    Raises ConfigurationError if data can't be read, or have no column that options name.
    """
    found = [columns_of_data(each.source, each.names, schemas, csv) for each in sides]
    found = with_named_columns(statement, found)
    types = types_by_use(statement, found)
    if sides[0].source is sides[1].source or sides[0].names == sides[1].names:
        types = [{**types[1], **types[0]}] * 2
    found = [_with_type(each, type_) for each, type_ in zip(found, types, strict=True)]
    pairs = zip(sides, found, found[::-1], strict=True)
    return [_with_time(each, other, option_of_input(times, *side.names)) for side, each, other in pairs]


def columns_of_data(
    source: object, names: Sequence[str], schemas: Mapping[str, Columns], csv: Mapping[str, CsvOptions]
) -> InferredSchema:
    """The columns of data, with any declared types. names: the data's names in options; errors use the first.

    Raises ConfigurationError if data can't be read, or have no column that options name.
    """
    found = schema_with_notes(source, carries=True, csv=_csv_of(source, names, csv))
    if not (found.columns or found.left_out or found.is_open):
        raise ConfigurationError(f"{names[0]} has no columns: expected at least one")
    given = option_of_input(schemas, *names) or {}
    if not _is_file(source, is_json):  # a file's later rows may have further columns
        given = _known(names[0], found, given, is_of_all="" in schemas)
    return replace(
        found,
        columns={**found.columns, **given},
        guessed=found.guessed - {*given},
        untyped=found.untyped - {*given},
        left_out={name: why for name, why in found.left_out.items() if name not in given},
    )


def form_of(found: InferredSchema, names: Sequence[str], csv: Mapping[str, CsvOptions]) -> FileForm:
    """What is known about the form of data, besides their columns."""
    return FileForm(option_of_input(csv, *names) or AS_THE_PAGE_SAYS, found.guessed, found.guessed & found.untyped)


def _csv_of(source: object, names: Sequence[str], csv: Mapping[str, CsvOptions]) -> CsvOptions:
    form = option_of_input(csv, *names)
    if form is None or _is_file(source, may_be_csv):
        return form or AS_THE_PAGE_SAYS
    if "" not in csv:
        raise ConfigurationError(f"csv of {names[0]}: it isn't a CSV file, as its ending says")
    return AS_THE_PAGE_SAYS


def check_named(sides: Sequence[SideSource], *options: Mapping[str, object]) -> None:
    """ConfigurationError if options name an input that the statement doesn't."""
    known = dict.fromkeys(side.side.stream for side in sides)
    for given in (name for each in options for name in each):
        if given and given not in known and all(given != side.name for side in sides):
            raise ConfigurationError(unknown("stream or file", given, known))


def check_orders(
    statement: Statement, sides: Sequence[SideSource], found: Sequence[InferredSchema], csv: Mapping[str, CsvOptions]
) -> None:
    """QueryError if the statement orders texts that an option would read as numbers or times."""
    for number, name in ordered_texts(statement, found):
        side = sides[number]
        for hint in _hints_of(side, [name], csv, is_ordered=True):
            raise QueryError(hint, side.side.line)


@contextmanager
def hinting(
    sides: Sequence[SideSource], found: Sequence[InferredSchema], csv: Mapping[str, CsvOptions], sql: str
) -> Iterator[None]:
    """Within the block, add hints to an error of the statement: what the CSV text columns that it names may be."""
    try:
        yield
    except ConfigurationError as caught:
        from spojoin.embedded.text_hints import Mistaken, with_cast_by_values  # noqa: PLC0415  (where there is a mistake)

        error = with_cast_by_values(caught, Mistaken(sql, sides, found, csv))
        hints = [hint for side, schema in zip(sides, found, strict=True) for hint in _hints(side, schema, csv, sql)]
        if not hints:
            raise error from None
        instead = error.instead if isinstance(error, QueryError) else None
        said = "; ".join(dict.fromkeys([str(error).removesuffix(f"; write: {instead}"), *hints]))
        if instead is not None:
            raise QueryError(said, instead=instead) from None
        error.args = (said,)
        raise error from None


def _hints(side: SideSource, found: InferredSchema, csv: Mapping[str, CsvOptions], sql: str) -> Iterator[str]:
    words = set(re.findall(r"\w+", sql.lower()))
    texts = [name for name, kind in found.columns.items() if kind.name is TypeName.STRING]
    yield from _hints_of(side, [name for name in texts if {*re.findall(r"\w+", name.lower())} <= words], csv)


def _hints_of(
    side: SideSource, names: Sequence[str], csv: Mapping[str, CsvOptions], *, is_ordered: bool = False
) -> Iterator[str]:
    """Hints at what a side's text columns in CSV may be."""
    if _is_file(side.source, may_be_csv):
        from spojoin.embedded.text_hints import hints_of_texts  # noqa: PLC0415  (where there is a mistake)

        options = option_of_input(csv, *side.names) or AS_THE_PAGE_SAYS
        yield from hints_of_texts(Path(str(side.source)), options, names, is_ordered=is_ordered)


def _known(name: str, found: InferredSchema, given: Columns, *, is_of_all: bool) -> Columns:
    for column in given:
        if column not in found.columns and column not in found.left_out and not is_of_all:
            raise ConfigurationError(f"schema of {name}: {unknown('column', column, found.columns)}")
    return {column: kind for column, kind in given.items() if column in {*found.columns, *found.left_out}}


def _with_type(found: InferredSchema, types: Columns) -> InferredSchema:
    return replace(found, columns={**found.columns, **types}, untyped=found.untyped - {*types})


def _with_time(found: InferredSchema, other: InferredSchema, given: str | None) -> InferredSchema:
    """Add the event time of data without values: the named column, or one with the name of the other side's time."""
    times = {
        name: replace(kind, arrow=None)
        for name, kind in other.columns.items()
        if kind.name in _MOMENTS and name not in other.untyped
    }
    kind = next(iter(times.values()), _TIMESTAMP)
    wanted = {given: times.get(given, kind)} if given is not None else {} if _has_time(found) else times
    return _with_type(found, {name: kind for name, kind in wanted.items() if name in found.untyped})


def _has_time(found: InferredSchema) -> bool:
    return any(kind.name in _MOMENTS for kind in found.columns.values())


def _is_file(source: object, fits: Callable[[Path], bool]) -> bool:
    return isinstance(source, str | Path) and fits(files_of(Path(source))[0])
