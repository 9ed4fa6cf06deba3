"""Options as data: a command takes one dataclass, and its fields are what the command line offers."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

from typer.core import TyperCommand

C = TypeVar("C")


class Command(TyperCommand):
    """A command whose arguments may be SQL: one that begins with a comment is none of the options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  (click's own)
        """The arguments, with a space before such a comment."""
        return super().parse_args(ctx, [f" {each}" if re.match(r"--\s", each) else each for each in args])


def with_options(command: Callable[[C], None]) -> Callable[..., None]:
    """Let Typer read a command's options from the fields of the dataclass that is its one parameter.

    A field is annotated as Typer reads a parameter: `Annotated[type, typer.Option(...)]`; a default is the option's.
    """
    (parameter,) = inspect.signature(command).parameters
    options: type[Any] = get_type_hints(command)[parameter]

    @functools.wraps(command)
    def from_options(**given: object) -> None:
        command(options(**given))

    del from_options.__wrapped__  # Typer would read the dataclass as an option
    from_options.__signature__ = inspect.Signature(_parameters(options))  # type: ignore[attr-defined]
    from_options.__annotations__ = get_type_hints(options, include_extras=True)
    return from_options


def _parameters(options: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in dataclasses.fields(options)
    ]


def _default(field: dataclasses.Field[Any]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
