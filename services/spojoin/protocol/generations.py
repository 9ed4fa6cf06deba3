"""Which generation of a query is served (rule P12): what follows from the records of its `generations` topic.

An announcement requests a generation; it counts iff its number is the next one, so that of two written at once the
first counts. The first generation begins at once; a later one begins with a takeover, which says where its predecessor
stopped. Until then the predecessor continues, and finishes its work.

An announcement also says whose query it is. The first that does makes its owner the name's, and announcements of others
don't count any more, but for one that adopts the name from its owner. One that announces no generation claims the name
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spojoin.protocol.answered import Answered, Place
from spojoin.protocol.topology import FIRST_GENERATION
from spojoin.wire.records import Announcement, SourceState, Takeover


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a generation begins: the first from nothing, a later one where its predecessor stopped.

    fingerprint: of the query's meaning; 0 where nobody compares it
    cut: per (stream, partition), the place before which all rows were answered, or refused, by earlier generations
    highs, checkpoint: what else is known of answered rows in event-time order, see `Answered`
    lateness_us: how far event times of earlier generations might run back
    starts: where reading of the inputs starts
    first_indexes: the index of each stream's first row, empty for 0; first_seq: as in `Barrier`
    counts: rows of each stream before the cut, empty for 0; numbered: rows with a number before it, where two
        streams share an input
    rejected: rows refused before it, by reason
    own: the numbers of the rows that answer, where one history is divided among several; None where all do that no
        earlier generation has answered
    """

    generation: int = FIRST_GENERATION
    fingerprint: int = 0
    cut: Mapping[tuple[int, int], Place] = field(default_factory=dict)
    starts: SourceState = field(default_factory=dict)
    first_indexes: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    highs: Mapping[tuple[int, int], int] = field(default_factory=dict)
    lateness_us: int = 0
    checkpoint: bytes = b""
    numbered: int = 0
    first_seq: int = 0
    own: range | None = None

    def answered(self) -> Answered:
        """Rows that earlier generations have answered."""
        return Answered.of(self.cut, self.highs, self.checkpoint)

    def count(self, stream: int) -> int:
        """How many rows of a stream earlier generations had."""
        return self.counts[stream] if self.counts else 0


#: The number in an announcement that claims the name and requests no generation; earlier versions ignore it.
CLAIM = 0


class Generations:
    """Follows the topic, record by record.

    owner: to whom the query's name belongs; empty while nobody has claimed it
    """

    def __init__(self) -> None:
        self.owner = ""
        self._announced: dict[int, Announcement] = {}
        self._takeover: Takeover | None = None

    def hear(self, record: Announcement | Takeover) -> bool:
        """Take the next record; returns whether it counts."""
        if isinstance(record, Announcement):
            counts = record.generation in (CLAIM, self.next_number) and self._is_entitled(record)
            if counts:
                self.owner = record.owner or self.owner
            if counts and record.generation != CLAIM:
                self._announced[record.generation] = record
            return counts
        follows = record.generation == self.current_number + 1 and record.from_generation == self.current_number
        if follows and record.generation in self._announced:
            self._takeover = record
            return True
        return False

    def _is_entitled(self, announcement: Announcement) -> bool:
        """Whether the name is free, its announcer's, or adopted from its owner. Earlier versions name no owner."""
        return announcement.owner in ("", self.owner) or self.owner in ("", announcement.adopts)

    @property
    def next_number(self) -> int:
        """The number that an announcement must have to count."""
        return len(self._announced) + FIRST_GENERATION

    @property
    def current_number(self) -> int:
        """The generation that answers."""
        return FIRST_GENERATION if self._takeover is None else self._takeover.generation

    @property
    def current(self) -> Announcement | None:
        """The generation that answers; None where nothing was announced yet."""
        return self._announced.get(self.current_number)

    @property
    def wanted(self) -> Announcement | None:
        """The newest that was announced: the current one, or what follows it one by one."""
        return self._announced.get(self.next_number - 1)

    @property
    def successor(self) -> Announcement | None:
        """The generation that will replace the current one; None where none was announced."""
        return self._announced.get(self.current_number + 1)

    @property
    def takeover(self) -> Takeover | None:
        """How the current generation began; None for the first."""
        return self._takeover

    def announced(self, generation: int) -> Announcement:
        """An announcement that counted."""
        return self._announced[generation]
