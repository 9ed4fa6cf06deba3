"""Methods and layouts as plain data: their names, options and sources, and the check of given options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spojoin.errors import QueryError
from spojoin.model import OptionValue
from spojoin.suggest import listed, unknown


@dataclass(frozen=True, slots=True)
class ChoiceOption:
    """An option: a number from `least` to `most`, whole if its default is, or one of `choices`, or any text."""

    name: str
    default: OptionValue
    about: str
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return listed(self.choices)
        if isinstance(self.default, str):
            return "text"
        if isinstance(self.default, int):
            return f"a whole number from {self.least:,.0f} to {self.most:,.0f}"
        return f"a number from {self.least:g} to {self.most:g}"

    def parse(self, text: str) -> OptionValue | None:
        """The value of a text; None if it isn't allowed."""
        if self.choices:
            return text if text in self.choices else None
        if isinstance(self.default, str):
            return text
        try:
            value = int(text) if isinstance(self.default, int) else float(text)
        except ValueError:
            return None
        return value if self.least <= value <= self.most else None


@dataclass(frozen=True, slots=True)
class MethodAbout:
    """A method; `cites` names its paper and section; refused: options that it doesn't take, each with the reason."""

    name: str
    about: str
    cites: str
    options: tuple[ChoiceOption, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LayoutAbout:
    """A layout; `cites` names its paper and section.

    is_served: whether the services run it; needs_key: whether it needs an equality on a key
    has_mutable_part: whether new tuples wait in a mutable part until they are batched
    """

    name: str
    about: str
    cites: str
    options: tuple[ChoiceOption, ...] = ()
    is_served: bool = False
    needs_key: bool = False
    has_mutable_part: bool = False


def complete(
    owner: str, options: Sequence[ChoiceOption], given: Mapping[str, str], line: int | None = None
) -> tuple[tuple[str, OptionValue], ...]:
    """All options with their values or defaults; owner: names the method or layout in errors. Raises QueryError."""
    known = {option.name: option for option in options}
    for name in given:
        if not known:
            raise QueryError(f"{owner} has no options, so {name!r} has no effect: remove it", line)
        if name not in known:
            raise QueryError(unknown(f"option of {owner}", name, known), line)
    values = dict.fromkeys(known, None) | {name: known[name].parse(text) for name, text in given.items()}
    for name, text in given.items():
        if values[name] is None:
            raise QueryError(f"{owner}: {name} is {text!r}; expected {known[name].expected}", line)
    return tuple((name, known[name].default if value is None else value) for name, value in values.items())


def as_options(flag: str, given: Sequence[str]) -> dict[str, str]:
    """Values by name, from a command-line flag's texts `name=value`. Raises QueryError."""
    options = [text.partition("=") for text in given]
    for option, sign, _ in options:
        if not sign:
            raise QueryError(f"{flag} {option!r}: expected name=value")
    return {option: value for option, _, value in options}
