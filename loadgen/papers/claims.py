"""What a paper shows of a figure, and how the measurement here compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

#: Two ranges of ratios are of one size while their nearer ends differ by less: hardware, languages and data differ.
SAME_SIZE = 1.5
NOTHING = "nothing to compare"


class ClaimVerdict(StrEnum):
    """How a claim of a paper fares."""

    AGREES = "agrees"
    OTHER_SIZE = "same direction, other size"
    DISAGREES = "disagrees"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says of a figure, what was measured here, and why the two may differ; `why` holds either way."""

    paper: str
    here: str
    verdict: ClaimVerdict
    why: str = ""


def claim(paper: str, ratios: Sequence[float], low: float, high: float, why: str) -> Claim:
    """A claim that something is `low` to `high` times something else, compared with the measured ratios.

    The direction is the same where all ratios lie on the paper's side of 1. A paper's range that contains 1 claims
    that there is no difference, and the measurement agrees within SAME_SIZE.
    """
    if not ratios:
        return Claim(paper, NOTHING, ClaimVerdict.UNKNOWN, why)
    least, most = min(ratios), max(ratios)
    ends = [f"{end:,.0f}" if end >= 100 else f"{end:.2g}" for end in (least, most)]
    here = f"{' to '.join(dict.fromkeys(ends))} times"
    near = _is_near(least, most, low, high)
    if low <= 1 <= high:
        return Claim(paper, here, ClaimVerdict.AGREES if near else ClaimVerdict.DISAGREES, why)
    if not (least > 1 if low > 1 else most < 1):
        return Claim(paper, here, ClaimVerdict.DISAGREES, why)
    return Claim(paper, here, ClaimVerdict.AGREES if near else ClaimVerdict.OTHER_SIZE, why)


def _is_near(least: float, most: float, low: float, high: float) -> bool:
    """Whether two ranges of ratios nearly meet: within SAME_SIZE, and with at least half of the paper's effect."""
    if high < 1:
        return _is_near(_inverse(most), _inverse(least), _inverse(high), _inverse(low))
    effect = math.sqrt(low) if low > 1 else 0.0
    return most >= max(low / SAME_SIZE, effect) and least <= high * SAME_SIZE


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio else math.inf


def rises(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is more than something else, by whatever factor."""
    return claim(paper, ratios, 1 + 1e-9, math.inf, why)


def falls(paper: str, ratios: Sequence[float], why: str) -> Claim:
    """A claim that something is less than something else, by whatever factor."""
    return claim(paper, ratios, 0.0, 1 - 1e-9, why)


def checked(paper: str, here: str, why: str = "", *, holds: bool | None) -> Claim:
    """A claim that isn't a ratio; `holds` is None where nothing was measured."""
    verdict = {True: ClaimVerdict.AGREES, False: ClaimVerdict.DISAGREES, None: ClaimVerdict.UNKNOWN}[holds]
    return Claim(paper, here, verdict, why)
