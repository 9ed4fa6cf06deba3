"""A command's settings as a YAML file: one schema to read it, report mistakes, and print an example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from spojoin.errors import ConfigurationError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds of "90", "90s", "5m" or "1.5h"; None for "forever". Raises ValueError."""
    if text == "forever":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError("expected a duration such as 90s, 5m, 1.5h or forever")
    return float(found[1]) * _UNITS[found[2]]


def ending(text: str) -> float:
    """Seconds of a duration that ends. Raises ValueError."""
    found = seconds(text)
    if found is None:
        raise ValueError("expected a duration that ends, such as 90s, 5m or 1.5h")
    return found


COLUMNS = 100


class FilePart(BaseModel):
    """A file, or a section of one. Each field's description is the comment that `example` puts above it."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def _texts(given: object) -> object:
    """Values as texts, since YAML reads 256 as a number and true as a boolean."""
    if not isinstance(given, Mapping):
        return given
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


def _a_file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError("expected the path of a file that exists")
    return path


def _a_duration(text: str) -> str:
    seconds(text)
    return text


def _a_finite_duration(text: str) -> str:
    ending(text)
    return text


#: Properties and settings by name.
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
ExistingFile = Annotated[Path, AfterValidator(_a_file)]
#: A duration as people write it; it may be "forever".
Duration = Annotated[str, AfterValidator(_a_duration)]
#: A duration that ends.
FiniteDuration = Annotated[str, AfterValidator(_a_finite_duration)]

F = TypeVar("F", bound=FilePart)


def read(kind: type[F], source: str | None, options: Mapping[str, object]) -> F:
    """The settings in `source`, overridden by the given `options`.

    source: the path of a YAML file, or YAML text that begins with "{"; None for defaults alone
    options: fields by name as the command line gave them; None if it didn't

    Raises ConfigurationError that names the first wrong field, its value and what was expected.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return kind(**{**_content(source), **given})
    except ValidationError as error:
        raise ConfigurationError(_sentence(error, kind, _name_of(source), given)) from error


def _content(source: str | None) -> dict[str, Any]:
    if source is None:
        return {}
    try:
        found = yaml.safe_load(source if _is_text(source) else Path(source).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{_name_of(source)} is no YAML: {' '.join(str(error).split())}") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigurationError(f"{_name_of(source)} holds {found!r}; expected fields such as `workload: q3`")
    return {str(name): value for name, value in found.items()}


def _is_text(source: str) -> bool:
    return source.lstrip().startswith("{")


def _name_of(source: str | None) -> str:
    return "" if source is None or _is_text(source) else f"{source}: "


def _sentence(error: ValidationError, kind: type[FilePart], where: str, given: Mapping[str, object]) -> str:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    name = ".".join(path)
    if first["type"] == "missing":
        return f"{where}{name} is missing: write it in the file, or give --{name}"
    if first["type"] == "extra_forbidden":
        return f"{where}{name} is unknown; expected one of {', '.join(_part_at(kind, path[:-1]).model_fields)}"
    named = f"--{path[0].replace('_', '-')}" if path[0] in given else f"{where}{name}"
    wanted = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("expected ")
    wanted = f"a number {wanted}" if wanted.startswith(("greater", "less")) else wanted
    return f"{named} is {first['input']!r}; expected {wanted}"


def _part_at(kind: type[FilePart], path: list[str]) -> type[FilePart]:
    """The section at a path of names."""
    for name in path:
        kind = _part_of(kind.model_fields[name]) or kind
    return kind


def _part_of(field: FieldInfo) -> type[FilePart] | None:
    found = field.annotation
    return found if isinstance(found, type) and issubclass(found, FilePart) else None


# --- the example ------------------------------------------------------------------------------------------------------


def example(kind: type[FilePart], **required: object) -> str:
    """A file with all defaults, each field below a comment; `required`: values of fields without a default."""
    return "\n".join(_lines(kind, kind(**required).model_dump(mode="json"), "")) + "\n"


def _lines(kind: type[FilePart], values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """The example's lines; sections come last."""
    for name, field in sorted(kind.model_fields.items(), key=lambda item: _part_of(item[1]) is not None):
        yield f"{indent}# {field.description}"
        part = _part_of(field)
        if part is None:
            yield indent + _line(name, values[name])
        else:
            yield f"{indent}{name}:"
            yield from _lines(part, values[name], indent + "  ")


def _line(name: str, value: object) -> str:
    flow = None if isinstance(value, list | dict) else False
    return yaml.safe_dump({name: value}, default_flow_style=flow, width=COLUMNS).rstrip()
