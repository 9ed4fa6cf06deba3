"""Files that a statement names by DuckDB's functions, as in `FROM read_csv('q.csv', delim=';')`.

Each call becomes the path in quotes, and its arguments become options of that file. Characters keep their places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import TokenType

from spojoin.embedded.source_options import csv_by_name, schema_by_name
from spojoin.embedded.statements import StatementOptions
from spojoin.embedded.written import Written
from spojoin.errors import ConfigurationError, QueryError
from spojoin.query.csv_options import is_csv_option
from spojoin.query.places import places_in

_CSV = ("READ_CSV", "READ_CSV_AUTO")
_OTHERS = ("READ_PARQUET", "PARQUET_SCAN", "READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO")
_TYPES = ("types", "dtypes", "column_types", "columns")
#: How DuckDB finds out what files hold, which is done here in any case: no row depends on these.
_NEEDLESS = ("auto_detect", "sample_size", "ignore_errors", "parallel", "format", "compression", "max_line_size")
_BEFORE = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN)


@dataclass(frozen=True, slots=True)
class _FileCall:
    """A call by its words: the function's name, and the one behind the closing parenthesis."""

    first: int
    stop: int
    path: str
    options: Mapping[str, object]


def with_files_of_calls(words: Written, options: StatementOptions) -> tuple[Written, StatementOptions]:
    """The statement with the paths that calls name, and the options with those of the calls. Raises QueryError."""
    sql = words.text
    schemas, csv = dict(options.schemas), dict(options.csv)
    for call in _calls(words):
        start, end = words.span(call.first, call.stop)
        try:
            types = {name: each for name, each in call.options.items() if name in _TYPES}
            form = {name: each for name, each in call.options.items() if name not in types}
            for each in types.values():
                schemas[call.path] = schema_by_name({call.path: each})[call.path]  # type: ignore[dict-item]
            if form:
                csv[call.path] = csv_by_name({call.path: form})[call.path]
        except ConfigurationError as error:
            raise QueryError(str(error), places_in(words.text)(start)) from error
        quoted = "'" + call.path.replace("'", "''") + "'"
        rest = "".join(each if each in "\r\n" else " " for each in sql[start + len(quoted) : end])
        sql = sql[:start] + quoted + rest + sql[end:]
    is_changed = sql != words.text
    return (Written(sql), replace(options, schemas=schemas, csv=csv)) if is_changed else (words, options)


def _calls(words: Written) -> Iterator[_FileCall]:
    for k in range(len(words.tokens)):
        name = words.word(k)
        if name not in (*_CSV, *_OTHERS) or words.kind(k + 1) is not TokenType.L_PAREN:
            continue
        if words.kind(k - 1) in _BEFORE and k + 1 in words.closes:
            yield _call(words, k, words.closes[k + 1], is_csv=name in _CSV)


def _call(words: Written, k: int, close: int, *, is_csv: bool) -> _FileCall:
    commas = [j for j in words.at(k + 1, k + 2, close) if words.kind(j) is TokenType.COMMA]
    firsts = [k + 2, *(each + 1 for each in commas)]
    parts = list(zip(firsts, [*commas, close], strict=True))
    place = places_in(words.text)(words.start(k))
    paths = _value(words, *parts[0])
    path = paths[0] if isinstance(paths, list) and len(paths) == 1 else paths
    if not isinstance(path, str):
        raise QueryError(f"{words.word(k).lower()}: expected one path in quotes, or a pattern such as 'q-*.csv'", place)
    found: dict[str, object] = {}
    for first, stop in parts[1:]:
        name = words.word(first).lower()
        if name in _NEEDLESS:
            continue
        if name not in _TYPES and not (is_csv and is_csv_option(name)):
            raise QueryError(f"{words.word(k).lower()}: '{name}' isn't taken here: expected the path alone"
                             + (", or options of how CSV is written" if is_csv else ""), place)  # fmt: skip
        found[name] = _value(words, first + 2, stop)
    return _FileCall(k, close + 1, path, found)


def _value(words: Written, first: int, stop: int) -> object:
    """What an argument says: a text, a number or a truth value as text, a list or a struct of texts."""
    if stop - first == 1:
        return words.tokens[first].text
    try:
        return ast.literal_eval(words.text[slice(*words.span(first, stop))])
    except (ValueError, SyntaxError):
        return None
