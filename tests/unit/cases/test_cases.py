"""Every case that users report is answered rightly, or refused with a way out that gives the right answer.

Doors: `sql` is the command over files, `python` is `spojoin.sql` over the same files, `frames` is `spojoin.sql` over
Arrow tables where all inputs say their columns, `run` is a query file over files.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

import spojoin
from spojoin.cli.main import app
from spojoin.errors import SpoJoinError
from tests.support.cases import Case, canonical, cases, names_of, query_text, table_of, with_names, write_inputs
from tests.support.long import long_only

CASES = list(cases())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a door gives: rows and refused rows by reason, or words that refuse; said: what it says besides."""

    rows: list[dict[str, Any]] | None
    rejected: Mapping[str, int] = field(default_factory=dict)
    said: str = ""


Door = Callable[[Case, str, Mapping[str, Any]], Outcome]


def through_sql(_case: Case, statement: str, options: Mapping[str, Any]) -> Outcome:
    given = ["sql", statement, "-o", "out.jsonl", "--report", "report.json", "--quiet"]
    return _outcome([*given, *command_options(options)])


def through_run(case: Case, statement: str, options: Mapping[str, Any]) -> Outcome:
    Path("query.yaml").write_text(query_text(replace(case, options=options), statement, "case"))
    inputs = [f"--input={name}={file}" for name, file in names_of(case).items()]
    return _outcome(["run", "query.yaml", *inputs, "-o", "out.jsonl", "--report", "report.json", "--quiet"])


def _outcome(arguments: list[str]) -> Outcome:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    if result.exit_code:
        return Outcome(None, {}, result.stderr)
    rows = [orjson.loads(line) for line in Path("out.jsonl").read_bytes().splitlines()]
    report = orjson.loads(Path("report.json").read_bytes())
    return Outcome(rows, report["rejected_by_reason"], result.stderr)


def through_python(_case: Case, statement: str, options: Mapping[str, Any]) -> Outcome:
    return _read(lambda: spojoin.sql(statement, **options))


def through_frames(case: Case, statement: str, options: Mapping[str, Any]) -> Outcome:
    tables = {name: table_of(case.inputs[file]) for name, file in names_of(case).items()}
    return _read(lambda: spojoin.sql(with_names(case, statement), **options, **tables))


def _read(start: Callable[[], Any]) -> Outcome:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            results = start()
            rows = results.to_arrow().to_pylist()
        except SpoJoinError as error:
            return Outcome(None, {}, str(error))
    return Outcome(rows, dict(results.rejected), " ".join(str(each.message) for each in noted))


def command_options(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments of `spojoin.sql` as options of `spojoin sql`."""
    return [f"--{name.replace('_', '-')}={text}" for name, value in options.items() for text in _texts(value)]


def _texts(value: object) -> list[str]:
    """A value as the command takes it: a dict of dicts is one of each input's, a dict one text."""
    if not isinstance(value, Mapping):
        return [str(value)]
    if any("." in name for name in value):
        return [f"{name}={text}" for name, each in value.items() for text in _texts(each)]
    return [",".join(f"{name}={each}" for name, each in value.items())]


DOORS: dict[str, Door] = {"sql": through_sql, "python": through_python, "frames": through_frames, "run": through_run}


def at_doors() -> list[Any]:
    """Each statement of a case at its doors, in turn; at its other doors it is long."""
    found = []
    statements = [(each, number) for each in CASES for number in range(len(each.statements))]
    for turn, (case, number) in enumerate(statements):
        is_typed = all(isinstance(content, dict) and "columns" in content for content in case.inputs.values())
        doors = [door for door in case.doors if door in DOORS and (door != "frames" or is_typed)]
        for place, door in enumerate(doors):
            made = pytest.param if place == turn % len(doors) else long_only
            found.append(made(case, number, door, id=f"{case.name}-{number}-{door}"))
    return found


@pytest.mark.parametrize(("case", "number", "door"), at_doors())
def test_a_case_is_answered_rightly_or_refused_with_a_way_out(
    case: Case, number: int, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(case, tmp_path)
    statement = case.statements[number]
    outcome = DOORS[door](case, statement, case.options)
    if case.refused:
        assert outcome.rows is None, f"answered: {outcome.rows}"
        check_words(case.refused, outcome.said)
        if case.instead is None:
            return
        check_way_out(case, door, outcome.said)
        statement = case.instead.statement or statement
        outcome = DOORS[door](case, statement, {**case.options, **case.instead.options})
    assert outcome.rows is not None, outcome.said
    assert canonical(outcome.rows) == canonical(case.answer or [])
    assert dict(outcome.rejected) == dict(case.rejected)
    check_words(case.noted, outcome.said)


def check_words(words: tuple[str, ...], said: str) -> None:
    for each in words:
        assert _plain(each) in _plain(said)


def check_way_out(case: Case, door: str, said: str) -> None:
    """The way out stands in the refusal as the door's user types it."""
    assert case.instead is not None
    if case.instead.statement is not None:
        written = with_names(case, case.instead.statement) if door in ("frames", "run") else case.instead.statement
        assert _plain(written) in _plain(said)
    for name, value in case.instead.options.items():
        for text in _texts(value):
            spelled = f"--{name.replace('_', '-')} {shlex.quote(text)}" if door == "sql" else f"{name}="
            assert spelled in said


def _plain(text: str) -> str:
    return " ".join(text.split())


def test_there_are_cases_of_every_kind() -> None:
    kinds = {"asof", "files", "names", "numbers", "self", "sql", "table", "text", "time", "unmatched"}
    assert {case.name.partition("/")[0] for case in CASES} == kinds
