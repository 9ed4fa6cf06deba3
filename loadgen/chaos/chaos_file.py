"""The file of `loadgen chaos`: a campaign."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from loadgen.chaos.plan import FaultKind
from loadgen.load.files import FilePart, FiniteDuration
from loadgen.load.load_file import ServedLoadFile

REDIS_VARIABLES = ("SPOJOIN_REDIS_URL", "REDIS_URL")
NO_FAULTS = "none"


class Where(StrEnum):
    """The place of the struck services."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


def _names(given: object) -> object:
    """Text with commas as a list of names."""
    if not isinstance(given, str):
        return given
    return [] if given.strip() == NO_FAULTS else [name.strip() for name in given.split(",") if name.strip()]


Kinds = Annotated[tuple[FaultKind, ...], BeforeValidator(_names)]


class PodsPart(FilePart):
    """Services that are pods."""

    namespace: str = Field(
        default_factory=lambda: os.environ.get("POD_NAMESPACE") or "default",
        description="Their namespace. Default: POD_NAMESPACE.",
    )
    release: str = Field(default="spojoin", description="The release's name.")
    broker_selector: str | None = Field(
        default=None, description="Labels of Kafka's pods. null: the release's component kafka."
    )
    delete_broker: bool = Field(default=False, description="Delete Kafka's pod instead of ending its process.")
    delete_redis: bool = Field(default=False, description="Delete the release's Redis instead of flushing it.")
    redis: str | None = Field(default=None, description="Redis, as a URL. null: SPOJOIN_REDIS_URL or REDIS_URL.")

    @property
    def broker_labels(self) -> str:
        """The labels of Kafka's pods."""
        own = f"app.kubernetes.io/instance={self.release},app.kubernetes.io/component=kafka"
        return self.broker_selector or own

    @property
    def redis_url(self) -> str | None:
        """Redis, if it is known."""
        found = (os.environ.get(name) for name in REDIS_VARIABLES)
        return self.redis or next((url for url in found if url), None)


class ChaosFile(ServedLoadFile):
    rate: float = Field(default=2_000.0, ge=0.1, description="Rows a second, of all streams together.")
    duration: FiniteDuration = Field(default="60s", description="90s, 5m or 1.5h.")
    kinds: Kinds = Field(
        default=tuple(FaultKind), description="Which faults, as a list or with commas; none for an undisturbed run."
    )
    every: FiniteDuration = Field(default="5s", description="Time between two faults, on average.")
    settle: FiniteDuration = Field(
        default="5s", description="Time before the first fault, for example to fill a window."
    )
    stall: FiniteDuration = Field(
        default="120s", description="Without a result for this long the services count as stuck."
    )
    sample: int | None = Field(default=None, ge=1, description="Recompute only this number of probes. null: all.")
    output: Path | None = Field(default=None, description="The folder for chaos.json. null: it isn't written.")
    where: Where = Field(default=Where.LOCAL, description="local: services started on this machine; kubernetes: pods.")
    pods: PodsPart = Field(default=PodsPart(), description="With `where: kubernetes`: which pods.")
