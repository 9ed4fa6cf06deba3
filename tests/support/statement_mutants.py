"""Corrupts statements' text from a seed: tokens are dropped, doubled, swapped and replaced, and garbage is inserted."""

from __future__ import annotations

from random import Random

from tests.support.statement_text import Refusable, Token, tokens_of


def _words(text: str) -> list[str]:
    """What bars separate."""
    return [each.strip() for each in text.split("¦")]


_PIECES = _words("""
random() ¦ now() ¦ current_date ¦ CURRENT_TIMESTAMP ¦ uuid() ¦ today() ¦ count(*) ¦ sum(l.a) ¦ max(r.b) ¦
first(l.k) ¦ version() ¦ row_number()OVER() ¦ (SELECT(1)) ¦ EXISTS(SELECT(1)) ¦ nosuch(1) ¦ lower() ¦ lower(1,2) ¦
unnest([1,2]) ¦ COLUMNS(*) ¦ l ¦ r ¦ l.* ¦ r.* ¦ * ¦ NULL ¦ TRUE ¦ FALSE ¦ 1/0 ¦ 1//0 ¦ CAST('x'AS(INTEGER)) ¦
'x'::INTEGER ¦ TRY_CAST('x'AS/**/INTEGER) ¦ 'x' ¦ '' ¦ ' ¦ " ¦ ) ¦ ( ¦ [ ¦ ] ¦ { ¦ } ¦ /* ¦ */ ¦ -- ¦ ; ¦ , ¦ . ¦
: ¦ :: ¦ = ¦ == ¦ <> ¦ < ¦ > ¦ <= ¦ >= ¦ != ¦ + ¦ - ¦ * ¦ / ¦ // ¦ % ¦ ^ ¦ || ¦ ! ¦ ~ ¦ @ ¦ # ¦ $ ¦ $1 ¦ ? ¦ ?? ¦
\\ ¦ ` ¦ -> ¦ ->> ¦ => ¦ := ¦ & ¦ | ¦ << ¦ >> ¦ ** ¦ AND ¦ OR ¦ NOT ¦ IS ¦ IN ¦ LIKE ¦ BETWEEN ¦ CASE ¦ WHEN ¦
THEN ¦ ELSE ¦ END ¦ SELECT ¦ FROM ¦ JOIN ¦ ON ¦ WHERE ¦ WINDOW ¦ AS ¦ SLIDE ¦ INTERVAL ¦ DISTINCT ¦ LEFT ¦ RIGHT ¦
FULL ¦ CROSS ¦ NATURAL ¦ ASOF ¦ SEMI ¦ ANTI ¦ USING(a) ¦ UNION ¦ EXCEPT ¦ LIMIT ¦ OFFSET ¦ HAVING ¦ QUALIFY ¦
WITH ¦ VALUES ¦ INSERT ¦ DROP ¦ PIVOT ¦ \0 ¦ \a ¦ ∞ ¦ ½ ¦ \u200b ¦ \ufeff ¦ é ¦ 日 ¦ 😀 ¦ 0 ¦ -1 ¦ 00 ¦ 0x1F ¦ 1_000 ¦
1e400 ¦ -1e400 ¦ 1e-400 ¦ 9223372036854775807 ¦ -9223372036854775808 ¦ 9223372036854775808 ¦
170141183460469231731687303715884105728 ¦ 0.1 ¦ 1.0000000000000001 ¦ 'nan'::DOUBLE ¦ 'inf'::FLOAT ¦ l.nosuch ¦
r.seq ¦ l.seq ¦ seq ¦ rowid ¦ l.rowid ¦ {'a':1} ¦ [1,2] ¦ [1][1] ¦ x->x+1 ¦ ::JSON ¦ ::TIMESTAMPTZ ¦ ::HUGEINT ¦
::UUID ¦ ::BLOB ¦ ::TINYINT ¦ ::BOOLEAN ¦ ::INTEGER ¦ ::VARCHAR ¦ COLLATE ¦ ESCAPE ¦ generate_series(1,3) ¦
read_csv('/nonexistent') ¦ current_setting('threads') ¦ getenv('HOME') ¦ nextval('s') ¦ x'00' ¦ E'\\n' ¦ $$a$$ ¦
"" ¦ "nosuch" ¦ '10'ON'3' ¦ '0' ¦ '1.5' ¦ '-1' ¦ '10K' ¦ '1parsec' ¦ '' ¦ '1/0'
""")
_PHRASES = _words("""
GROUP BY 1 ¦ ORDER BY 1 DESC ¦ LIMIT 1 ¦ IS NULL ¦ IS NOT NULL ¦ NOT NULL ¦ ON TRUE ¦ EMIT ON CLOSE ¦
WINDOW w AS () ¦ WINDOW AS (SLIDE INTERVAL '1' ON '2') ¦ * EXCLUDE (a) ¦ l.* REPLACE (1 AS a) ¦
FILTER (WHERE true) ¦ OVER (PARTITION BY 1) ¦ AND 1 = 1 ¦ AND 1 = 0 ¦ AND NULL ¦ OR TRUE ¦ AND l.seq < r.seq ¦
COLLATE NOCASE ¦ AT TIME ZONE 'UTC' ¦ INTERVAL '1 day' ¦ TABLESAMPLE 10% ¦ CROSS JOIN t1 ¦ JOIN t1 AS z ON TRUE ¦
, t1 AS z ¦ AS x (a, b) ¦ (SELECT 1 AS a) AS s ¦ UNION ALL SELECT 1
""")


_COMPARISONS = ("<", "<=", ">", ">=", "=", "<>", "!=")
#: The words between clauses, which the milder changes keep.
_FRAME = {"SELECT", "FROM", "JOIN", "WINDOW", "SLIDE", "AS"}


def spoilt(rng: Random, text: str) -> str:
    """The text after one to three changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        text = _changed(rng, text)
    return text


def _changed(rng: Random, text: str) -> str:
    try:
        tokens = tokens_of(text)
    except (Refusable, UnicodeError):
        tokens = []
    if not tokens or rng.random() < 0.04:
        at = rng.randrange(len(text) + 1)
        return rng.choice([text[:at], text[at:], text[:at] + text[at + 1 :], text[:at] + "'" + text[at:]])
    if rng.random() < 0.75:
        return _milder(rng, text, tokens)
    at = rng.randrange(len(tokens))
    here, other = tokens[at], rng.choice(tokens)
    start, end = here.start, here.end
    piece = rng.choice(_PHRASES) if rng.random() < 0.25 else rng.choice(_PIECES)
    return rng.choice(
        [
            lambda: text[:start] + text[end:],
            lambda: text[:end] + " " + text[start:],
            lambda: text[:start] + other.text + text[end:],
            lambda: text[:start] + other.text + text[end:],
            lambda: text[:start] + piece + text[end:],
            lambda: text[:start] + " " + piece + " " + text[start:],
            lambda: text[:end] + " " + piece + " " + text[end:],
            lambda: _swapped(text, at, rng.randrange(len(tokens))),
            lambda: _swapped(text, at, min(at + 1, len(tokens) - 1)),
            lambda: text[:start] + (here.text[:-1] or "x") + text[end:],
            lambda: text[:start] + here.text.swapcase() + text[end:],
        ]
    )()


def _milder(rng: Random, text: str, tokens: list[Token]) -> str:
    """Replace one token by another of its kind, so that the result is often still a statement."""
    here = rng.choice([t for t in tokens if t.text not in {"(", ")", "."} and t.word not in _FRAME] or tokens)
    if here.text in _COMPARISONS:
        new = rng.choice(_COMPARISONS)
    elif here.word in {"AND", "OR", "ON", "WHERE"} and rng.random() < 0.7:
        new = f"{here.text} NOT" if rng.random() < 0.5 else {"AND": "OR", "OR": "AND"}.get(here.word, here.text)
    else:
        alike = [t.text for t in tokens if t.kind == here.kind and t.word not in _FRAME]
        new = rng.choice(alike or [here.text])
    return text[: here.start] + new + text[here.end :]


def _swapped(text: str, first: int, second: int) -> str:
    tokens = tokens_of(text)
    a, b = sorted([tokens[first], tokens[second]], key=lambda token: token.start)
    return text if a is b else text[: a.start] + b.text + text[a.end : b.start] + a.text + text[b.end :]
