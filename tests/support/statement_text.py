"""Splits a statement's text by DuckDB's own tokens, for the oracle of statements.

It parses only what the oracle needs: where clauses begin, where AND joins conditions, and the window. Everything else
stays the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import duckdb


class Refusable(Exception):
    """The statement isn't a join by the specification, so the product must refuse it."""


class Undecided(Exception):
    """The oracle can't determine what the statement means."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text without blanks; `depth` counts the parentheses, brackets and CASEs around it."""

    text: str
    start: int
    end: int
    kind: str
    depth: int

    @property
    def word(self) -> str:
        """The token in capitals if it is a word without quotes, otherwise ''."""
        return self.text.upper() if self.kind in {"keyword", "identifier"} and self.text[0] != '"' else ""


@dataclass(frozen=True, slots=True)
class Side:
    """A stream's name and its alias."""

    stream: str
    alias: str


@dataclass(frozen=True, slots=True)
class WindowText:
    """A window's length and slide in rows, or in microseconds if `is_time`."""

    is_time: bool
    length: int
    slide: int


@dataclass(frozen=True, slots=True)
class Clauses:
    """The statement's parts; items and conjuncts are text as written."""

    text: str
    tokens: tuple[Token, ...]
    items: tuple[str, ...]
    left: Side
    right: Side
    conjuncts: tuple[str, ...]
    window: WindowText | None


_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*", re.ASCII)
_COUNTS = {"": 1, "K": 1_000, "k": 1_000, "M": 1_000_000}
_MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000, "sec": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}
#: Next to these, `x BETWEEN a AND b` isn't the whole condition.
_NOT_HALVED = {"NOT", "IS", "IN", "LIKE", "ILIKE", "SIMILAR", "OR", "=", "==", "<", ">", "<=", ">=", "<>", "!="}
_SET_WORDS = {"UNION", "INTERSECT", "EXCEPT"}
_LATER_CLAUSES = {"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "FETCH"} | _SET_WORDS
_OTHER_JOINS = {"NATURAL", "CROSS", "POSITIONAL", "LATERAL"}
#: Joins whose rows ask; other oracles answer these.
_ASKING_JOINS = {"LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF"}


def clauses(text: str) -> Clauses:
    """The parts of the statement. Raises Refusable and Undecided."""
    tokens = _without_end(tokens_of(text))
    window, tokens = _take_window(tokens)
    if not tokens or tokens[0].word != "SELECT":
        raise Refusable("it doesn't begin with SELECT")
    _check_words(tokens)
    listed, rest = _cut(tokens[1:], "FROM")
    tables, rest = _cut(rest, "JOIN")
    second, condition = _cut(rest, "ON")
    left, right = _side(_without_inner(tables)), _side(second)
    on, where = _cut(condition, "WHERE") if _at(condition, "WHERE") is not None else (condition, [])
    if not on or (not where and _at(condition, "WHERE") is not None):
        raise Refusable("a condition is empty")
    found = [piece for part in (on, where) if part for each in _conjuncts(part) for piece in _halves(text, each)]
    return Clauses(text, tuple(tokens), tuple(_items(text, listed)), left, right, tuple(found), window)


def tokens_of(text: str) -> list[Token]:
    """DuckDB's tokens of `text` without its comments."""
    data = text.encode()
    try:
        marks = [(at, str(kind).rpartition(".")[2]) for at, kind in duckdb.tokenize(text)]
    except duckdb.Error as error:
        raise Refusable(str(error)) from error
    ends = [at for at, _ in marks[1:]] + [len(data)] * bool(marks)
    found: list[Token] = []
    depth = 0
    for (at, kind), end in zip(marks, ends, strict=True):
        piece = data[at:end].rstrip()
        if kind == "comment" or not piece:
            continue
        word = piece.decode()
        is_alias = bool(found) and found[-1].word == "AS"
        depth -= word in _CLOSING or (word.upper() == "END" and not is_alias)
        start = len(data[:at].decode())
        found.append(Token(word, start, start + len(word), kind, depth))
        depth += word in _OPENING or (word.upper() == "CASE" and not is_alias)
    return found


def name_of(token: Token) -> str:
    """The name of an identifier, without quotes."""
    return token.text[1:-1].replace('""', '"') if token.text[0] == '"' else token.text


def _without_end(tokens: list[Token]) -> list[Token]:
    while tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    while tokens and tokens[0].text == ";":
        tokens = tokens[1:]
    if any(token.text == ";" for token in tokens):
        raise Refusable("more than one statement")
    return tokens


def _check_words(tokens: Sequence[Token]) -> None:
    words = {b.word for a, b in pairwise(tokens) if b.depth == 0 and a.text != "."}
    if sum(token.word == "SELECT" for token in tokens) > 1:
        raise Refusable("a subquery")
    if _LATER_CLAUSES & words or any(token.word == "OVER" for token in tokens):
        raise Refusable("another clause or a window function")
    if tokens[1:] and tokens[1].word == "DISTINCT":
        raise Refusable("DISTINCT")


def _take_window(tokens: list[Token]) -> tuple[WindowText | None, list[Token]]:
    """The window clause, and the tokens without it."""
    starts = [
        k
        for k, token in enumerate(tokens)
        if token.word == "WINDOW" and (k == 0 or tokens[k - 1].text != ".") and tokens[k + 1 : k + 2]
    ]
    if not starts:
        return None, tokens
    if len(starts) > 1:
        raise Refusable("two windows")
    at = starts[0]
    clause = tokens[at : at + 9]
    shape = [token.word or token.text for token in clause]
    if len(clause) < 9 or shape[1:5] != ["AS", "(", "SLIDE", "INTERVAL"] or (shape[6], shape[8]) != ("ON", ")"):
        raise Refusable("its window isn't SLIDE INTERVAL '...' ON '...'")
    if {clause[5].kind, clause[7].kind} != {"string_const"}:
        raise Refusable("its window has no text in quotes")
    return _window(clause[5].text[1:-1], clause[7].text[1:-1]), tokens[:at] + tokens[at + 9 :]


def _window(slide_text: str, length_text: str) -> WindowText:
    (slide, slide_is_time), (length, is_time) = _size(slide_text), _size(length_text)
    if slide_is_time != is_time or slide == 0 or length % slide or slide > length:
        raise Refusable("the slide doesn't fit the window")
    return WindowText(is_time, length, slide)


def _size(text: str) -> tuple[int, bool]:
    match = _NUMBER.fullmatch(text)
    units = None if match is None else _COUNTS.get(match[2], _MICROSECONDS.get(match[2]))
    if match is None or units is None:
        raise Undecided(f"the size {text!r}")
    size = Fraction(match[1]) * units
    if size.denominator != 1:
        raise Refusable(f"the size {text!r} isn't whole")
    return int(size), match[2] not in _COUNTS


def _at(tokens: Sequence[Token], word: str) -> int | None:
    """The first such word outside parentheses, except the FROM of IS DISTINCT FROM and aliases."""
    found = (k for k, token in enumerate(tokens) if token.word == word and token.depth == 0)
    return next((k for k in found if not k or tokens[k - 1].word not in {"DISTINCT", "AS"}), None)


def _cut(tokens: Sequence[Token], word: str) -> tuple[list[Token], list[Token]]:
    at = _at(tokens, word)
    if at is None:
        raise (Refusable if word == "FROM" else Undecided)(f"no {word}")
    return list(tokens[:at]), list(tokens[at + 1 :])


def _without_inner(tokens: list[Token]) -> list[Token]:
    return tokens[:-1] if tokens and tokens[-1].word == "INNER" else tokens


def _side(tokens: list[Token]) -> Side:
    if any(token.word in _OTHER_JOINS or token.text == "," or token.word == "JOIN" for token in tokens):
        raise Refusable("another kind of join")
    if any(token.word in _ASKING_JOINS for token in tokens):
        raise Undecided("a join whose rows ask")
    if tokens and tokens[0].kind == "string_const":
        raise Undecided("a file as a side")
    names = [token for k, token in enumerate(tokens) if not (token.word == "AS" and k == 1 and len(tokens) == 3)]
    if not 1 <= len(names) <= 2 or any(token.kind not in {"identifier", "keyword"} for token in names):
        raise Refusable("a side that is no name with an alias")
    return Side(name_of(names[0]), name_of(names[-1]))


def _items(text: str, tokens: list[Token]) -> Iterator[str]:
    for part in _split(tokens, lambda token: token.text == "," and token.depth == 0):
        if not part:
            raise Undecided("an empty item of the select list")
        yield _slice(text, part)


def _conjuncts(tokens: list[Token]) -> Iterator[list[Token]]:
    """The runs of tokens that ANDs join at the top level, without outer parentheses; BETWEEN stays whole here."""
    while _is_wrapped(tokens):
        tokens = tokens[1:-1]
    if not tokens:
        raise Refusable("a condition is empty")
    depth = tokens[0].depth
    top = [token.word for token in tokens if token.depth == depth]
    if "OR" in top:
        yield tokens
        return
    parts = _split(tokens, _Ands(depth))
    if len(parts) == 1:
        yield tokens
        return
    for part in parts:
        yield from _conjuncts(part)


def _halves(text: str, tokens: list[Token]) -> list[str]:
    """The conjunct's text; `x BETWEEN a AND b` gives two."""
    depth = tokens[0].depth
    words = [(token.word or token.text) if token.depth == depth else "" for token in tokens]
    if words.count("BETWEEN") != 1 or _NOT_HALVED & set(words):
        return [_slice(text, tokens)]
    at = words.index("BETWEEN")
    middle = words.index("AND", at) if "AND" in words[at:] else 0
    value, low, high = tokens[:at], tokens[at + 1 : middle], tokens[middle + 1 :]
    if not (value and low and high):
        raise Refusable("a BETWEEN without its ends")
    value_text = _slice(text, value)
    return [f"({value_text}\n) >= ({_slice(text, low)}\n)", f"({value_text}\n) <= ({_slice(text, high)}\n)"]


class _Ands:
    """Distinguishes the ANDs between conditions from those of BETWEEN."""

    def __init__(self, depth: int) -> None:
        self._depth, self._between = depth, 0

    def __call__(self, token: Token) -> bool:
        if token.depth != self._depth:
            return False
        self._between += token.word == "BETWEEN"
        if token.word == "AND" and self._between:
            self._between -= 1
            return False
        return token.word == "AND"


def _is_wrapped(tokens: Sequence[Token]) -> bool:
    """Whether one pair of parentheses encloses all tokens."""
    return (
        len(tokens) >= 2
        and (tokens[0].text, tokens[-1].text) == ("(", ")")
        and all(token.depth > tokens[0].depth for token in tokens[1:-1])
    )


def _split(tokens: Sequence[Token], is_border) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if is_border(token):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _slice(text: str, tokens: Sequence[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end]
