"""Further values and seeds of tests, which `make test` leaves to `make test LONG=1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_only(*values: object, **options: Any) -> Any:
    """A parameter's value, or values, with which a test runs only with `--long`."""
    return pytest.param(*values, marks=pytest.mark.long, **options)


def first_of(count: int, values: Iterable[object]) -> list[object]:
    """The first `count` values as they are, and all others for `--long`."""
    return [value if number < count else long_only(value) for number, value in enumerate(values)]
