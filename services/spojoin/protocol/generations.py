"""Which generation of a query is served (rule P12), as the records of its `generations` topic determine it.

An announcement requests a generation; it counts iff its number is the next one, so if two are written at once, the
first counts. The first generation begins at once; a later one begins with a takeover, which records where its
predecessor stopped. Until then the predecessor continues, and finishes its work.

An announcement also names the query's owner. The first one with an owner gives it the query's name. From then on,
announcements of others don't count, except one that adopts the name from its owner. An announcement without a
generation only claims the name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import orjson

from spojoin.protocol.answered import Answered, PassedOrder
from spojoin.protocol.topology import FIRST_GENERATION
from spojoin.wire.records import NEVER, Announcement, Frame, Place, SourcePosition, SourceState, Takeover


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a generation begins: the first from nothing, a later one where its predecessor stopped.

    fingerprint: of the query's meaning; 0 if it isn't compared
    cut: by (stream, partition), the place before which all rows were answered or refused by earlier generations
    highs, checkpoint: more about answered rows in event-time order, see `Answered`
    lateness_us: the largest lateness of earlier generations
    starts: where reading of the inputs starts
    first_indexes: the index of each stream's first row, empty for 0; first_seq: as in `Barrier`
    counts: rows of each stream before the cut, empty for 0
    numbered: rows with a number before the cut, if two streams share an input
    rejected: rows refused before the cut, by reason
    own: the numbers of the rows that answer, if a history is divided into shares; None if all rows answer that no
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
        return Answered.from_takeover(self.cut, self.highs, self.checkpoint)

    @property
    def continues_order(self) -> bool:
        """Whether the generation continues its predecessor's order of event time."""
        return bool(self.highs)

    def count(self, stream: int) -> int:
        """How many rows of a stream earlier generations had."""
        return self.counts[stream] if self.counts else 0


#: The number in an announcement that claims the name and requests no generation; earlier versions ignore it.
CLAIM = 0


class Generations:
    """Follows the topic, record by record.

    owner: the owner of the query's name; empty until it is claimed
    """

    def __init__(self) -> None:
        self.owner = ""
        self._announced: dict[int, Announcement] = {}
        self._takeover: Takeover | None = None

    def accept_record(self, record: Announcement | Takeover) -> bool:  # P12.2
        """Take the next record; return whether it counts."""
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

    def _is_entitled(self, announcement: Announcement) -> bool:  # P12.3
        """Whether the name is free, the announcer's, or adopted from its owner; earlier versions name no owner."""
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
        """The generation that answers; None before the first announcement."""
        return self._announced.get(self.current_number)

    @property
    def wanted(self) -> Announcement | None:
        """The newest announced generation: the current one or a later one."""
        return self._announced.get(self.next_number - 1)

    @property
    def successor(self) -> Announcement | None:
        """The generation that will replace the current one; None if none was announced."""
        return self._announced.get(self.current_number + 1)

    @property
    def takeover(self) -> Takeover | None:
        """How the current generation began; None for the first."""
        return self._takeover

    def announced(self, generation: int) -> Announcement:
        """The announcement of a generation, which counted."""
        return self._announced[generation]


def takeover_behind(frame: Frame, generation: int, lateness_us: int) -> Takeover:
    """The takeover from a generation whose results end with this frame."""
    counts = tuple(piece.first_index + piece.passed + len(piece) + piece.void for piece in frame.slices)
    return Takeover(
        generation + 1,
        generation,
        dict(frame.source),
        counts,
        dict(frame.rejected),
        frame.checkpoint,
        lateness_us,
        frame.first_seq + frame.count,
    )


def answered_places(sources: SourceState, beginning: Beginning, *, keeps_order: bool = True) -> SourceState:
    """The places before which every row was answered or refused, by a generation or an earlier one.

    keeps_order: whether the next generation continues its order of event time
    """
    found = dict(sources)
    for key, cut in beginning.cut.items():
        at = found.get(key)
        high = beginning.highs.get(key, NEVER)
        if at is None or (at.offset, at.row) < cut:
            found[key] = SourcePosition(*cut, high)
        elif keeps_order:  # the rows that are read again may not include the largest time before the cut
            found[key] = replace(at, high_time_us=max(at.high_time_us, high))
    return found


def order_so_far(checkpoint: bytes, beginning: Beginning) -> bytes:
    """The rows passed by a generation's event-time order, and those only earlier ones passed; empty by arrival."""
    passed = PassedOrder.from_saved(orjson.loads(checkpoint)) if checkpoint else None
    return beginning.answered().saved_with(passed)


def forgetting(checkpoint: bytes, inputs: Collection[tuple[int, int]]) -> bytes:
    """A checkpoint of event-time order without its entries for inputs that were created anew."""
    if not (checkpoint and inputs):
        return checkpoint
    passed = [
        replace(
            each,
            reads={key: place for key, place in each.reads.items() if key not in inputs},
            late=frozenset(row for row in each.late if row[:2] not in inputs),
            promised={key: promise for key, promise in each.promised.items() if key not in inputs},
        )
        for each in Answered.from_takeover({}, {}, checkpoint).passed
    ]
    return orjson.dumps([each.saved() for each in passed])
