"""A process of any role or roles: `python -m spojoin.runtime router+sink`, or `together`.

A process imports only the roles that it runs: others would take time, and their dependencies may not be installed. So
the table of roles names the modules to import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from spojoin.protocol.packing import parse_group
from spojoin.protocol.topology import Role, role_entry
from spojoin.runtime.process import leave, main
from spojoin.runtime.service import run
from spojoin.runtime.settings import Settings, load_settings
from spojoin.runtime.wiring import Wire
from spojoin.telemetry import log_lines


def start(roles: Sequence[Role], settings: Settings) -> int:
    """Run roles in one process until SIGTERM or SIGINT; return the exit status of `runtime.service.run`."""
    if not role_entry(roles[0]).has_machine:
        serve = cast("Callable[[Settings], int]", _from_main(roles[0], "serve"))
        log_lines.begin_process(roles[0])
        return serve(settings)
    return run({role: wire_of(role) for role in roles}, settings)


def wire_of(role: Role) -> Wire:
    """How a role with a machine is wired."""
    return cast("Wire", _from_main(role, "wire"))


def _from_main(role: Role, name: str) -> object:
    return getattr(import_module(f"spojoin.roles.{role_entry(role).package}.__main__"), name)


if __name__ == "__main__":
    name = " ".join(sys.argv[1:])
    leave(main(name, lambda: start(parse_group(name), load_settings())))
