"""Which forms and casts read texts as times or numbers: those that read the texts that are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

import pyarrow as pa

_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%Y-%m-%d"),
    *("%Y%m%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%Y.%m.%d"),
)
_CLOCKS = (
    *("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %I:%M %p", " %H%M%S"),
    *("T%H%M%S", "T%H:%M", "T%H:%M:%S", "T%H", " %I.%M.%S.%f %p", " %H:%M:%S,%g", "T%H:%M:%S,%g", "T%H%M%SZ"),
)
_ZONES = ("", " %Z", " %z")
_WHOLE = ("%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %Z", "%a %b %d %H:%M:%S %Z %Y", "%d/%b/%Y:%H:%M:%S %z")
_FORMS = [
    *(day + clock + zone for zone, day, clock in product(_ZONES, _DAYS, _CLOCKS) if clock or not zone),
    *(*_WHOLE, "%Y-%m", "%G-W%V-%u"),
]
#: A zone behind a time of day, which a cast to TIMESTAMP would drop.
_ZONED = re.compile(r"(:\d\d([.,]\d+)?)\s*([A-Za-z]{2,4}|[A-Za-z]+/[A-Za-z_/]+|[+-]\d\d:?(\d\d)?)$")
#: What parts digits and words of a text, and of a form.
_WORDS = re.compile(r"%[A-Za-z]|[A-Za-z0-9]+")
_DIGIT = re.compile(r"\d")
#: Words that may stand for no value in one column.
_WORDS_MAX = 3
#: Years of fewer digits are no years but the days or the last two digits of others.
_LEAST_YEAR = 1000
_SPACES = r"\s\x{00A0}\x{202F}"
#: Numbers as people write them: the shape, what is replaced in it, and by what.
_SHAPES = (
    (r"\([\d.]+\)|[\d.]+", r"\((.*)\)", r"-\1"),
    (r"[\d.]+-?", "(.*)-", r"-\1"),
    (rf"-?\d{{1,3}}([,{_SPACES}]\d{{3}})*(\.\d+)?", f"[,{_SPACES}]", ""),
    (r"-?[^\d.,-]*-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?[^\d.,]*", "[^0-9.-]", ""),
)
_NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "FLOAT")


def forms_of(texts: Sequence[str]) -> list[str]:
    """The forms, of the common ones, by which DuckDB reads all texts as dates or times."""
    forms = [form for form in _FORMS if texts and _marks(form) == _marks(texts[0])]
    counts = _read_counts(texts, map(_try_form, forms))
    return [form for form, count in zip(forms, counts, strict=True) if count == len(texts)]


def cast_of(column: str, kind: str, texts: Sequence[str]) -> str | None:
    """The expression that reads most texts of a column as DuckDB's type `kind`; None where no common one reads half.

    A few words without digits among numbers or times say that there is no value.
    """
    words = [text for text in texts if not _DIGIT.search(text)]
    if 0 < len(words) <= _WORDS_MAX and len(words) < len(texts) and _cast(column, kind, words) is None:
        for word in words:
            column = f"NULLIF({column}, {_quoted(word)})"
        texts = [text for text in texts if text not in words]
    return _cast(column, kind, texts)


def _cast(column: str, kind: str, texts: Sequence[str]) -> str | None:
    if kind in _NUMBERS:
        ways = _numeric(column)
    elif kind in ("TIMESTAMP", "DATE"):
        ways = (
            {} if any(map(_ZONED.search, texts)) else {f"CAST({column} AS {kind})": _of_years(f"TRY_CAST(t AS {kind})")}
        )
        ways |= {_as_clock(f"strptime({column}, {_quoted(form)})", form): _try_form(form) for form in forms_of(texts)}
    else:
        ways = {f"CAST({column} AS {kind})": f"TRY_CAST(t AS {kind})"}
    counts = dict(zip(ways, _read_counts(texts, ways.values()), strict=True))
    best = max(counts, key=counts.__getitem__, default=None)  # the first of the best
    return best if best is not None and counts[best] * 2 >= max(len(texts), 1) else None


def _as_clock(moment: str, form: str) -> str:
    """The moment as a clock in UTC shows it, as the other side has no zone."""
    return f"({moment} AT TIME ZONE 'UTC')" if form[-2:].lower() == "%z" else moment


def _marks(text: str) -> str:
    """The marks between digits and words, but of a zone at the end."""
    return _WORDS.sub("", re.sub(" %[zZ]$", "", _ZONED.sub(r"\1", text))).strip()


def _numeric(column: str) -> dict[str, str]:
    """Whole numbers first, where no fraction is lost; then without what people write around numbers."""
    whole = "CASE WHEN coalesce(TRY_CAST(t AS DOUBLE) = TRY_CAST(t AS BIGINT), true) THEN TRY_CAST(t AS BIGINT) END"
    found = {f"CAST({column} AS BIGINT)": whole, f"CAST({column} AS DOUBLE)": "TRY_CAST(t AS DOUBLE)"}
    for shape, pattern, to in _SHAPES:
        flags = ", 'g'" if not to else ""
        read = "CAST(regexp_replace({}, '{}', '{}'{}) AS DOUBLE)"
        tried = f"TRY_{read.format('t', pattern, to, flags)}"
        found[read.format(column, pattern, to, flags)] = f"CASE WHEN regexp_full_match(t, '{shape}') THEN {tried} END"
    shape = rf"-?(\d+|\d{{1,3}}([.{_SPACES}]\d{{3}})+)(,\d+)?"
    tried = f"TRY_CAST({_with_point('t')} AS DOUBLE)"
    found[f"CAST({_with_point(column)} AS DOUBLE)"] = f"CASE WHEN regexp_full_match(t, '{shape}') THEN {tried} END"
    return found


def _with_point(column: str) -> str:
    """A number such as 1.200,5 with a decimal point."""
    return f"REPLACE(regexp_replace({column}, '[.{_SPACES}]', '', 'g'), ',', '.')"


def _try_form(form: str) -> str:
    return _of_years(f"try_strptime(t, {_quoted(form)})")


def _of_years(moment: str) -> str:
    return f"CASE WHEN year({moment}) >= {_LEAST_YEAR} OR isinf({moment}) THEN {moment} END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_counts(texts: Sequence[str], expressions: Iterable[str]) -> list[int]:
    """For how many texts each expression of `t` has a value."""
    import duckdb  # noqa: PLC0415  (where there is a mistake)

    expressions = list(expressions)
    asked = ", ".join(f"count({each})" for each in expressions)
    if not texts or not asked:
        return [0 for _ in expressions]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("texts", pa.table({"t": pa.array(texts, pa.string())}))
        found = connection.execute(f"SELECT {asked} FROM texts").fetchone()
    return list(found or ())
