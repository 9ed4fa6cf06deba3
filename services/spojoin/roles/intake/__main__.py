"""An intake as a process."""

from __future__ import annotations

from spojoin.errors import ConfigurationError
from spojoin.protocol.services import Rotation, names
from spojoin.protocol.topology import Role
from spojoin.reading.parse import parser
from spojoin.reading.registered_rows import RegisteredSchemas
from spojoin.roles.intake.machine import IntakeMachine
from spojoin.runtime.generations import Serving
from spojoin.runtime.process import leave, main
from spojoin.runtime.registry import registry_of
from spojoin.runtime.service import run
from spojoin.runtime.settings import ENV_PREFIX, Settings, load_settings
from spojoin.runtime.wiring import Wiring, numbered


def wire(serving: Serving, settings: Settings) -> Wiring:
    """How the runtime makes the intake with the number in the settings."""
    count, registry = settings.intakes, registry_of(settings)
    if not count:
        raise ConfigurationError(f"setting intakes is 0: set {ENV_PREFIX}INTAKES to how many intakes there are")
    number = numbered(settings, "intake", count)
    return Wiring(
        names(Role.INTAKE, count)[number],
        lambda _: IntakeMachine(Rotation(number, count)),
        parse=parser(serving.query, RegisteredSchemas(None if registry is None else registry.find)),
    )


if __name__ == "__main__":
    leave(main(Role.INTAKE, lambda: run({Role.INTAKE: wire}, load_settings())))
