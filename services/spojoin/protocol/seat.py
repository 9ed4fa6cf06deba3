"""Which instance of a service speaks (rule P15): decided by the log, which is everybody's clock.

Every instance writes a beat into the service's partition of `presence`, the next one only when it has read the last one
back. The one that speaks says so in its beats. Another takes the seat when it has read ECHOES beats of its own in a row
without one of the speaker's between: so neither its own stall nor a slow log looks like the speaker's end, and clocks
only pace the beats. Two that speak at once say the same, so nothing depends on the choice but who is silent.
"""

from __future__ import annotations

from spojoin.wire.records import Presence

#: Beats of its own that an instance must read between two of the speaker's before it takes the seat.
ECHOES = 5


class Seat:
    """One instance's view of its service's seat.

    instance: its name among the service's instances; life: distinguishes its restarts
    patience_ms: how long the speaker may be silent; its last beat may be an interval, a fifth of that, old by then
    is_heir: whether it may follow an earlier life of its instance at once; not if a later one has fenced it
    """

    def __init__(self, service: str, instance: str, life: str, patience_ms: float, *, is_heir: bool = True) -> None:
        self._service = service
        self._instance = instance
        self._life = life
        self._interval_ms = patience_ms / ECHOES
        self._next_ms: float | None = None
        self._awaits_echo = False
        self._echoes = 0
        self._has_claimed = not is_heir
        self._term = 0
        self._holder = ("", "")

    @property
    def is_mine(self) -> bool:
        """Whether this instance speaks."""
        return self._holder == (self._instance, self._life)

    def hear(self, presence: Presence) -> None:
        """Take a record of the partition; those of other services may stand in it as well."""
        if presence.service != self._service:
            return
        if presence.speaks:
            self._hear_speaker(presence)
        if presence.life == self._life:
            self._hear_echo(presence)

    def _hear_speaker(self, presence: Presence) -> None:
        speaker = presence.instance, presence.life
        if presence.term > self._term:  # of two that claim one term, the first in the log has it
            self._term, self._holder = presence.term, speaker
        if (presence.term, speaker) == (self._term, self._holder):
            self._echoes = 0

    def _hear_echo(self, echo: Presence) -> None:
        self._awaits_echo = False
        self._echoes += 0 if echo.speaks else 1
        if self._echoes >= ECHOES:  # the claim needs not wait for the next interval
            self._next_ms = None

    def beat(self, now_ms: float) -> Presence | None:
        """What to write now, if anything: a beat, or the claim to the seat."""
        if self._awaits_echo or (self._next_ms is not None and now_ms < self._next_ms):
            return None
        self._next_ms, self._awaits_echo = now_ms + self._interval_ms, True
        if self.is_mine:
            return self._presence(self._term, speaks=True)
        # An instance that restarts goes on at once, but doesn't fight with a life of its own that isn't over.
        is_next_life = self._holder[0] == self._instance and not self._has_claimed
        is_free = not self._holder[0] or is_next_life or self._echoes >= ECHOES
        self._has_claimed |= is_free
        return self._presence(self._term + is_free, speaks=is_free)

    def _presence(self, term: int, *, speaks: bool) -> Presence:
        return Presence(self._service, self._instance, self._life, term, speaks)
