"""What a campaign has done so far, as a file, so that an interrupted one goes on where it was."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from spojoin.errors import ConfigurationError
from spojoin.simulate.coverage import Coverage


@dataclass(slots=True)
class SeedCampaignState:
    """Seeds start..start+seeds-1, of which the first `done` have run, in `seconds`.

    failed: the command that replays each seed that failed, with the reason in one line
    """

    start: int
    seeds: int
    done: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether all seeds have run."""
        return self.done >= self.seeds

    @property
    def left(self) -> range:
        """The seeds that have not run."""
        return range(self.start + self.done, self.start + self.seeds)

    def save(self, path: Path) -> None:
        """Write the file as a whole or not at all."""
        saved = {
            "start": self.start,
            "seeds": self.seeds,
            "done": self.done,
            "seconds": self.seconds,
            "coverage": self.coverage.as_json(),
            "failed": self.failed,
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(saved))
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> SeedCampaignState | None:
        """What was saved; None where nothing was. Raises ConfigurationError where the file can't be read."""
        if not path.exists():
            return None
        try:
            saved = json.loads(path.read_text())
            return cls(**saved | {"coverage": Coverage.from_json(saved["coverage"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} holds no campaign ({error}): remove it to begin another") from error
