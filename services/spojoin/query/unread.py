"""Why a statement can't be read, where that is a function's arguments: sqlglot says it of its classes, not of calls."""

from __future__ import annotations

import re
from typing import Any

import sqlglot
from sqlglot import Token, TokenType

_TOO_MANY = re.compile(r"arguments \((\d+)\) is greater than .* \((\d+)\)")
_TOO_FEW = "Required keyword"


def arguments_fault(sql: str, error: dict[str, Any], place: int, dialect: str) -> str | None:
    """What is wrong with the arguments of the call that ends at `place`; None where the error is another one.

    error: of sqlglot's parser
    """
    description = str(error.get("description", ""))
    too_many = _TOO_MANY.search(description)
    if too_many is None and not description.startswith(_TOO_FEW):
        return None
    call = _call_that_ends(sqlglot.tokenize(sql, dialect=dialect), place)
    if call is None:
        return None
    if too_many is None:
        return f"{call} lacks an argument"
    given, most = too_many.groups()
    return f"{call} has {given} arguments: expected {'one' if most == '1' else f'at most {most}'}"


def _call_that_ends(tokens: list[Token], place: int) -> str | None:
    """The name before the parenthesis that the one at `place` closes."""
    last = next((n for n, token in enumerate(tokens) if token.start == place), None)
    if last is None or tokens[last].token_type is not TokenType.R_PAREN:
        return None
    depth = 0
    for number in range(last, 0, -1):
        kind = tokens[number].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth == 0:
            return tokens[number - 1].text.upper()
    return None
