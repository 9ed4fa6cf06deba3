"""The command lines of the chart's containers are ones that the programs accept."""

import pytest
from typer.main import get_command

from loadgen.__main__ import app as loadgen
from spojoin.cli.main import app as spojoin
from tests.support.chart import CHART, EXAMPLES, manifests, pods

QUERY = CHART / "files/demo-query.yaml"
SERVERS = {"kafka", "redis"}


def parse(app, arguments):
    """Read arguments as the program would, and run nothing; errors are its own."""
    command, rest = get_command(app), list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    return command.make_context(command.name, rest)


def program_of(container):
    """The program's commands; nothing where a module takes no arguments."""
    module = (container.get("command") or [None])[-1]
    return {None: spojoin, "loadgen": loadgen}.get(module)


@pytest.mark.parametrize("example", EXAMPLES)
def test_programs_accept_their_arguments(monkeypatch, example):
    read = 0
    for component, pod in pods(manifests(example)).items():
        program = program_of(pod.container)
        for name, value in pod.variables.items():
            monkeypatch.setenv(name, value)
        if program is None:
            assert "args" not in pod.container
        elif component not in SERVERS:
            parse(program, [str(QUERY) if part.endswith("query.yaml") else part for part in pod.container["args"]])
            read += 1
    assert read >= 9


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(spojoin, ["topics"]), (spojoin, ["validate", str(QUERY), "--deploid"]), (loadgen, ["produce", "--rtae", "1"])],
)
def test_a_wrong_argument_would_be_found(program, arguments):
    with pytest.raises(Exception, match=r"query|--deploid|--rtae") as found:
        parse(program, arguments)
    assert hasattr(found.value, "exit_code"), "it is the program's own refusal"
