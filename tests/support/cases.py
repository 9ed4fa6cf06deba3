"""Cases that users report: input, statement, and the right answer or the refusal's words, one YAML file each.

`.github/CONTRIBUTING.md` describes the files. Equal values in different notations are the same: 1 and 1.0, or
`2024-03-01T10:00:00Z` with its zone in another form; a moment without a zone is another value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from spojoin.embedded.inferred_schema import schema_of

FOLDER = Path(__file__).parents[1] / "cases"

_DECIMAL = re.compile(r"decimal(128|256)?\((\d+), *(-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(\w+), *(?:tz=)?([^\]]+)\]")
_QUOTED = re.compile(r"'([^'\n]+\.[a-z.]+)'")
_TABLE = re.compile(r"TABLE\('([^'\n]+)'\)")
#: The suffix of a table's name if the same file is also a stream.
_ALL = "_all"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")
_KNOWN = {
    "about",
    "like",
    "inputs",
    "statement",
    "options",
    "doors",
    "query",
    "answer",
    "rejected",
    "refused",
    "instead",
    "noted",
}


@dataclass(frozen=True, slots=True)
class WayOut:
    """What a refusal proposes: a statement, options, or both."""

    statement: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    statements: equivalent statements; answer: the rows in order, None if the case only states a refusal rejected:
    refused rows by reason; refused: words of the refusal, empty if there is an answer at once
    noted: words of notes beside the answer; query: options of a query file; doors: by name, see the tests
    """

    name: str
    inputs: Mapping[str, Any]
    statements: tuple[str, ...]
    options: Mapping[str, Any]
    doors: tuple[str, ...]
    query: Mapping[str, Any]
    answer: list[dict[str, Any]] | None
    rejected: Mapping[str, int]
    refused: tuple[str, ...]
    instead: WayOut | None
    noted: tuple[str, ...]


def cases() -> Iterator[Case]:
    """All cases, by name."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        yield read_case(path)


def read_case(path: Path) -> Case:
    """The case of a file."""
    typed = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = set(typed) - _KNOWN
    assert not unknown, f"{path}: {unknown}"
    assert typed.keys() & {"answer", "refused"}, f"{path} says neither answer nor refusal"
    instead = typed.get("instead")
    return Case(
        str(path.relative_to(FOLDER).with_suffix("")),
        typed.get("inputs") or {},
        _texts(typed["statement"]),
        typed.get("options") or {},
        tuple(typed.get("doors") or ("sql", "python", "frames")),
        typed.get("query") or {},
        typed.get("answer"),
        typed.get("rejected") or {},
        _texts(typed.get("refused") or ()),
        None if instead is None else WayOut(instead.get("statement"), instead.get("options") or {}),
        _texts(typed.get("noted") or ()),
    )


def _texts(said: str | Sequence[str]) -> tuple[str, ...]:
    return (said,) if isinstance(said, str) else tuple(said)


def write_inputs(case: Case, folder: Path) -> None:
    """Write the case's files, by their names in its statement."""
    for name, content in case.inputs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_bytes(content.encode())
        elif "columns" in content:
            _write_table(path, content)
        elif "base64" in content:
            path.write_bytes(base64.b64decode(content["base64"]))
        else:
            path.write_bytes(content["text"].encode(content.get("encoding", "utf-8")))


def _write_table(path: Path, content: Mapping[str, Any]) -> None:
    table = table_of(content)
    if path.suffix == ".parquet":
        pq.write_table(table, path, **content.get("write", {}))
        return
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def table_of(content: Mapping[str, Any]) -> pa.Table:
    """The rows of an input that lists its columns."""
    types = {name: arrow_type(str(text)) for name, text in content["columns"].items()}
    rows = list(zip(*content["rows"], strict=True)) if content["rows"] else [[] for _ in types]
    return pa.table({name: _array(values, kind) for (name, kind), values in zip(types.items(), rows, strict=True)})


def arrow_type(text: str) -> pa.DataType:
    """An Arrow type by its name."""
    if match := _DECIMAL.fullmatch(text):
        digits = int(match[2]), int(match[3])
        return pa.decimal256(*digits) if match[1] == "256" else pa.decimal128(*digits)
    if match := _ZONED.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    return pa.dictionary(pa.int32(), pa.string()) if text == "dictionary" else pa.type_for_alias(text)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    if any(isinstance(value, str) for value in values) and not pa.types.is_string(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
    return pa.array(values, kind)


def names_of(case: Case) -> dict[str, str]:
    """The inputs by their names as streams, tables or frames: file names without endings."""
    return {re.sub(r"\W", "_", Path(file).stem): file for file in case.inputs}


def with_names(case: Case, statement: str) -> str:
    """The statement with names in place of files."""
    named = {file: name for name, file in names_of(case).items()}
    return _QUOTED.sub(lambda found: named.get(found[1], found[0]), statement)


def query_text(case: Case, statement: str, name: str) -> str:
    """The statement as a query file, whose schemas are those of the files in the current folder.

    A stream's only timestamp is its event time, unless the case names another. A file that is both a stream and a table
    has a second name, as a table.
    """
    tables, plain = set(_TABLE.findall(statement)), set(_QUOTED.findall(_TABLE.sub("", statement)))
    sides: dict[str, dict[str, Any]] = {"streams": {}, "tables": {}}
    for side, file in names_of(case).items():
        schema = {column: str(kind) for column, kind in schema_of(file).items()}
        times = [column for column, kind in schema.items() if kind.startswith("timestamp")]
        if file in plain:
            has_time = len(times) == 1 and not tables
            sides["streams"][side] = {"schema": schema} | ({"time": times[0]} if has_time else {})
        if file in tables:
            sides["tables"][side + _ALL * (file in plain)] = {"schema": schema, "file": file}
    for stream, said in case.query.get("streams", {}).items():
        sides["streams"][stream].update(said)
    others = {option: said for option, said in case.query.items() if option != "streams"}
    both = _TABLE.sub(lambda found: f"'{found[1]}'{_ALL * (found[1] in plain)}", statement)
    sql = re.sub(f"'([^']+)'{_ALL}", lambda found: re.sub(r"\W", "_", Path(found[1]).stem) + _ALL, both)
    given = {kind: each for kind, each in sides.items() if each}
    return yaml.safe_dump(
        {"name": name, "sql": with_names(case, sql)} | given | others | dict(case.options), sort_keys=False
    )


def canonical(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Rows in a canonical form, in which same values are equal."""
    return [{name: _canonical(value) for name, value in row.items()} for row in rows]


def _canonical(value: Any) -> object:
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        value = datetime.fromisoformat(value)
    if isinstance(value, date):
        return _moment(value)
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return _as_json(value)


def _moment(value: date) -> tuple[str, datetime]:
    at = value if isinstance(value, datetime) else datetime.combine(value, time())
    return "moment", at if at.tzinfo is None else at.astimezone(UTC)


def _as_json(value: Any) -> object:
    """A value as in JSON lines."""
    if isinstance(value, time | timedelta):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    is_nan = isinstance(value, float | Decimal) and value != value  # noqa: PLR0124
    return None if is_nan else value
