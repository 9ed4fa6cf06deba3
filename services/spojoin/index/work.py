"""What an index spends on its own structures, besides answering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

#: Seconds that never run backwards. An index holds no clock: whoever wants its times hands a timer in.
Timer = Callable[[], float]


def untimed() -> float:
    """The timer where nobody wants times: all of them are 0."""
    return 0.0


@dataclass(slots=True)
class Work:
    """How often and how long. The timer is read for these numbers only: nothing is decided by them.

    merges: nodes made of others, by merging or splitting; builds: search structures made for a node when first needed
    """

    timer: Timer = field(default=untimed, repr=False, compare=False)
    merges: int = 0
    merge_seconds: float = 0.0
    builds: int = 0
    build_seconds: float = 0.0

    def merged(self, began_s: float) -> None:
        """Nodes were made of others, from `began_s` by the timer to now."""
        self.merges += 1
        self.merge_seconds += self.timer() - began_s

    def built(self, began_s: float) -> None:
        """A structure was made, from `began_s` by the timer to now."""
        self.builds += 1
        self.build_seconds += self.timer() - began_s

    def counters(self) -> dict[str, float]:
        """All numbers by name."""
        return {
            "merges": self.merges,
            "merge_seconds": self.merge_seconds,
            "builds": self.builds,
            "build_seconds": self.build_seconds,
        }
