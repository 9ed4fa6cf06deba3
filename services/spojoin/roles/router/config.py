"""How a router cuts the stream into frames and batches."""

from __future__ import annotations

from dataclasses import dataclass

from spojoin.errors import ConfigurationError

#: Ranks of mutable tuples have 16 bits, of which one value means "none".
MUTABLE_TUPLES_MAX = 65_534

#: A batch must be sorted, its permutations computed, and sent before the frame that hands it over.
HANDOVER_FRAMES = 2

#: The credits of a router that shares a process with all other roles, where nothing is in flight.
UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """Sizes in tuples or frames, times in milliseconds.

    router_id: unique among router instances
    workers: PO-Join workers in new frames, until the control topic requests another count
    workers_max: the largest worker count
    columns: of the workers' grid in new frames; 0 if all workers are one row
    columns_by_key: whether the columns share the tuples by their keys, which the query must then have
    frame_tuples: a frame is closed at this size, or `linger_ms` after its first tuple, or ten times as long after it
        if several other frames wait for their results
    batch_tuples: delta; a stream's batch is sealed at this size, or at an equal part of a larger slide, at a slide's
        end, or `batch_frames` after its start
    handover_frames: a batch is immutable from this many frames after its seal
    credits_frames: how many frames may be under way before their results are out
    """

    router_id: str
    workers: int = 1
    frame_tuples: int = 8_192
    batch_tuples: int = 8_192
    batch_frames: int = 256
    handover_frames: int = HANDOVER_FRAMES
    linger_ms: int = 2
    credits_frames: int = 256
    workers_max: int = 1_024
    columns: int = 0
    columns_by_key: bool = False

    def __post_init__(self) -> None:
        for name in ("workers", "frame_tuples", "batch_tuples", "batch_frames", "handover_frames", "credits_frames"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.workers > self.workers_max:
            raise ConfigurationError(f"workers is {self.workers}; raise workers_max, which is {self.workers_max}")
        # Mutable are the open batch, batches sealed within the handover frames, and the frame itself.
        mutable = self.batch_tuples + (self.handover_frames + 2) * self.frame_tuples
        if mutable > MUTABLE_TUPLES_MAX:
            raise ConfigurationError(
                f"batch_tuples + (handover_frames + 2) * frame_tuples is {mutable}; the mutable part holds at most "
                f"{MUTABLE_TUPLES_MAX} tuples: lower frame_tuples or batch_tuples"
            )
