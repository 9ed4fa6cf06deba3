"""Checks that what pages name exists: links, paths, targets, commands, variables, values, classes.

Each check yields sentences about what does not exist. Code is text between backticks or indented by four.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml

from loadgen.__main__ import app as loadgen_app
from spojoin.cli.main import app as spojoin_app
from spojoin.runtime.settings import ENV_PREFIX, OTHERS, Settings

ROOT = Path(__file__).parents[2]
ROOMS = ("services", "loadgen", "helm", "docker", "protos", "tests")
PACKAGE = ROOT / "services/spojoin"
#: Where a path on a page may begin, besides the page's own folder.
BASES = (ROOT, PACKAGE, ROOT / "loadgen")
#: Files that a page may name without a folder.
_OF_THIS_PROJECT = (".py", ".md", ".proto", ".lock", ".css", ".js", ".Dockerfile", ".java")
#: Folders that commands create.
_MADE = ("report", "bench-results", ".venv", ".cache")
#: Options of other programs that pages mention.
_FOREIGN_OPTIONS = {"--set", "--set-file", "--reuse-values", "--force", "--help"}

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMAND = re.compile(r"(?:^|[\s\"'(])(?:\.venv/bin/)?(spojoin|loadgen) ([^|>]*)")
_OPERATING = re.compile(r"(spojoin|python -m loadgen|kubectl|helm|amtool|kcat) ")
_MODULE = re.compile(r"python -m ([\w.]+)([^|>]*)")
_TARGET = re.compile(r"(?:^|\s)make ([a-z][a-z-]*)((?: [A-Z_]+=\S*)*)")
_VARIABLE = re.compile(rf"\b{ENV_PREFIX}[A-Z][A-Z_]*[A-Z]\b")
_ROOM_PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(ROOMS)})(?:/[\w.-]+)+)(?![\w*/<])")
_CLASS = re.compile(r"`(\w+)(?:\.(\w+))?` in `([\w/]+\.py)`")


@dataclass(frozen=True)
class Page:
    """A page: its path and its text."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The page without its indented blocks."""
        return "\n".join(line for line in self.text.splitlines() if not line.startswith("    "))

    @property
    def spans(self) -> list[str]:
        """The text between backticks; a span may continue on the next line."""
        return [" ".join(span.split()) for span in _SPAN.findall(self.prose)]

    @property
    def code(self) -> list[str]:
        """Spans, and lines of indented blocks, without comments; a line with a final backslash includes the next."""
        blocks = re.findall(r"(?m)^    (.*)$", self.text.replace("\\\n", ""))
        return [*self.spans, *(re.split(r"\s+#\s", line)[0] for line in blocks)]

    def commands(self, places: dict[str, str]) -> list[str]:
        """Commands that an operator may run, with placeholders filled in; two words only name a command."""
        stands = re.compile(rf"\b({'|'.join(places)})\b")
        found = [line.strip() for line in self.code if _OPERATING.match(line.strip()) and line.strip().count(" ") > 1]
        return [stands.sub(lambda name: places[name[0]], line) for line in found]


def pages() -> list[Page]:
    """All pages of the project."""
    folders = (".github", *ROOMS)
    paths = [ROOT / "README.md", *(path for folder in folders for path in sorted((ROOT / folder).rglob("*.md")))]
    return [Page(path, path.read_text()) for path in paths]


def wrong_links(page: Page) -> Iterator[str]:
    """Links to files and headings that do not exist."""
    for target in _targets(page):
        place, _, anchor = target.partition("#")
        path = (page.path.parent / place).resolve() if place else page.path
        if not path.exists():
            yield f"the link {target} leads nowhere"
        elif anchor and anchor not in headings(page.text if path == page.path else path.read_text()):
            yield f"the link {target} names a heading that {path.name} does not have"


def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.+)$", text)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def linked(page: Page) -> set[Path]:
    """The files that a page links."""
    return {(page.path.parent / target.partition("#")[0]).resolve() for target in _targets(page)}


def _targets(page: Page) -> list[str]:
    found = [first or second for first, second in _LINK.findall(page.prose)]
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def wrong_paths(page: Page) -> Iterator[str]:
    """Paths between backticks, and those in commands that begin with a room, that do not exist."""
    for path in (path for line in page.code for path in _ROOM_PATH.findall(line) if path != line):
        if not (ROOT / path).exists():
            yield f"there is no file {path}"
    for span in page.spans:
        if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)*/?", span) and _is_path(span, page) and not _exists(span, page):
            yield f"there is no file {span}"


def _is_path(span: str, page: Page) -> bool:
    first = span.partition("/")[0]
    if first in _MADE or "*." in span:
        return False
    if "/" not in span:
        return span.endswith(_OF_THIS_PROJECT)
    bases = (page.path.parent, *BASES)
    return span.endswith(("/", *_OF_THIS_PROJECT)) or any((base / first).is_dir() for base in bases)


def _exists(span: str, page: Page) -> bool:
    return any(list(base.glob(span.rstrip("/"))) for base in (page.path.parent, *BASES))


def wrong_targets(page: Page) -> Iterator[str]:
    """`make` targets and their variables that the Makefile does not have."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?m)^([a-z][a-z-]*):", makefile))
    for line in page.code:
        for target, variables in _TARGET.findall(line):
            if target not in targets:
                yield f"there is no target {target}"
            for name in re.findall(r"([A-Z_]+)=", variables):
                if f"$({name})" not in makefile and f"{name}," not in makefile:
                    yield f"make {target}: there is no variable {name}"


@cache
def _commands() -> dict[str, Any]:
    """The trees of commands, which are Typer's own copies of click's classes."""
    return {"spojoin": typer.main.get_command(spojoin_app), "loadgen": typer.main.get_command(loadgen_app)}


def wrong_commands(page: Page) -> Iterator[str]:
    """Commands and options that `spojoin`, `loadgen` and the modules run by `python -m` do not have."""
    for line in page.code:
        for program, rest in _COMMAND.findall(line):
            yield from _wrong_command(_commands()[program], program, _words(rest))
        for module, rest in _MODULE.findall(line):
            yield from _wrong_module(module, _words(rest))
        if line.startswith("--") and (option := re.split("[ =]", line)[0]) not in _known_options():
            yield f"no command has the option {option}"


def _wrong_command(command: Any, name: str, words: list[str]) -> Iterator[str]:
    below = getattr(command, "commands", None)
    if below is None or not words or words[0].startswith("-"):
        known = {"-h", "--help", *_own_options(command)}
        options = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
        yield from (f"{name} has no option {option}" for option in options if option not in known)
    elif words[0] in below:
        yield from _wrong_command(below[words[0]], f"{name} {words[0]}", words[1:])
    elif re.fullmatch(r"[a-z-]+", words[0]):  # COMMAND stands for any
        yield f"there is no command {name} {words[0]}"


def _wrong_module(module: str, words: list[str]) -> Iterator[str]:
    source = _source(module)
    if source is None:
        yield f"there is no module {module}"
        return
    options = [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]
    of_module = {"--help", *_options_in(source)} if source else set(options)
    yield from (f"python -m {module} has no option {option}" for option in options if option not in of_module)


def _source(module: str) -> str | None:
    """The text of a module or a package's main; None if there is none; empty for modules that aren't checked."""
    if module in _commands() or module.partition(".")[0] not in ("spojoin", "loadgen", "helm"):
        return ""
    path = module.replace(".", "/")
    places = [base / f"{path}{end}" for base in (ROOT, ROOT / "services") for end in (".py", "/__main__.py")]
    return next((place.read_text() for place in places if place.is_file()), None)


def _options_in(source: str) -> set[str]:
    """The options of a command that a module makes: named in quotes, or by Typer after a parameter."""
    parameters = re.findall(r"(?m)^    (\w+): Annotated\[", source)
    return {*re.findall(r'"(--[a-z-]+)"', source), *(f"--{name.replace('_', '-')}" for name in parameters)}


@cache
def _known_options() -> set[str]:
    scripts = [path.read_text() for room in ("loadgen", "helm") for path in (ROOT / room).rglob("__main__.py")]
    of_modules = {option for text in scripts for option in _options_in(text)}
    return _FOREIGN_OPTIONS | of_modules | {o for command in _commands().values() for o in _all_options(command)}


def _own_options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)


def _all_options(command: Any) -> Iterator[str]:
    yield from _own_options(command)
    for each in getattr(command, "commands", {}).values():
        yield from _all_options(each)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # the span cuts off a quote
        return text.split()


def wrong_variables(page: Page) -> Iterator[str]:
    """Environment variables with the project's prefix that have no meaning."""
    known = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields} | set(OTHERS)
    for name in _VARIABLE.findall(page.text):
        if name not in known and not name.startswith(f"{ENV_PREFIX}TEST_"):
            yield f"there is no variable {name}"


def wrong_values(page: Page) -> Iterator[str]:
    """Values of the chart that a command sets and values.yaml does not have."""
    values = yaml.safe_load((ROOT / "helm/spojoin/values.yaml").read_text())
    for line in page.code:
        for setting in re.findall(r"--set(?:-file)? ([\w.]+)=", line):
            if not _has(values, setting.split(".")):
                yield f"the chart has no value {setting}"


def _has(values: object, path: list[str]) -> bool:
    if not path or values == {}:  # an empty map takes any name
        return True
    return isinstance(values, dict) and path[0] in values and _has(values[path[0]], path[1:])


def wrong_classes(page: Page) -> Iterator[str]:
    """Classes, their members and constants that a page attributes to a file without them."""
    for name, member, file in _CLASS.findall(page.prose):
        path = next((base / file for base in (page.path.parent, PACKAGE) if (base / file).is_file()), PACKAGE / file)
        body = re.search(rf"(?ms)^(?:class )?{name}\b.*?(?=^\S|\Z)", path.read_text()) if path.is_file() else None
        if body is None:
            yield f"{file} has no {name}"
        elif member and not re.search(rf"(?m)^    (def )?{member}\b", body[0]):
            yield f"{name} in {file} has no {member}"


CHECKS = (wrong_links, wrong_paths, wrong_targets, wrong_commands, wrong_variables, wrong_values, wrong_classes)
