"""The fraction of a sample's pairs that satisfy each predicate, and all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.errors import ConfigurationError
from spojoin.kernels.codes import unfold_doubles
from spojoin.model import Domain, Op, Predicate, Query, Stream
from spojoin.query.extract import extract
from spojoin.query.schema import arrow_schema
from spojoin.suggest import unknown

ROWS_MAX = 2_000  # 4 million pairs: a selectivity of 0.1 % comes out within about 2 % of itself
_SEED = 20_250_325

_COMPARE: dict[Op, np.ufunc] = {
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
}

Codes = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Fractions of pairs that match, 0 to 1: for each predicate alone, in order, and for all; and the rows sampled."""

    each: tuple[float, ...]
    whole: float
    rows: tuple[int, ...]


def measure(query: Query, samples: Mapping[str, pa.Table]) -> Selectivity:
    """Selectivities over up to ROWS_MAX random rows of each stream's sample; refused rows don't count.

    Raises ConfigurationError where a stream has no sample, or none of its rows can be used.
    """
    for name in samples:
        known = [stream.name for stream in query.streams]
        if name not in known:
            raise ConfigurationError(unknown("stream of the samples", name, known))
    sides = [_sampled(stream, samples) for stream in query.streams]
    left, right = sides[0], sides[-1]
    counted = ~np.eye(len(left[0]), dtype=np.bool_) if query.is_self else np.True_
    held = [holds(p, left[p.left_slot][:, None], right[p.right_slot][None, :]) & counted for p in query.predicates]
    pairs = len(left[0]) * len(right[0]) - (len(left[0]) if query.is_self else 0)
    each = tuple(_fraction(mask, pairs) for mask in held)
    return Selectivity(each, _fraction(np.logical_and.reduce(held), pairs), tuple(len(side[0]) for side in sides))


def holds(predicate: Predicate, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where `left op right` holds, codes broadcast against each other."""
    if predicate.op in _COMPARE:
        return np.asarray(_COMPARE[predicate.op](left, right))
    return _within(predicate, left, right)


def _within(predicate: Predicate, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    distance = _double_distance(left, right) if predicate.domain is Domain.FLOAT else _integer_distance(left, right)
    width = predicate.width if predicate.domain is Domain.FLOAT else np.uint64(predicate.width)
    return np.asarray(distance < width if predicate.op is Op.BAND_LT else distance <= width)


def _double_distance(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return np.abs(unfold_doubles(left) - unfold_doubles(right))


def _integer_distance(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.uint64]:
    """|left - right| as uint64, in which no difference of two int64 overflows."""
    larger, smaller = np.maximum(left, right), np.minimum(left, right)
    return larger.view(np.uint64) - smaller.view(np.uint64)


def _sampled(stream: Stream, samples: Mapping[str, pa.Table]) -> Codes:
    if stream.name not in samples:
        raise ConfigurationError(f"no sample of stream '{stream.name}': expected one for each stream of the query")
    table = samples[stream.name]
    keyless = replace(stream, key=None)
    table = table.select([name for name in arrow_schema(keyless, needs_time=False).names if name in table.column_names])
    chosen = np.sort(np.random.default_rng(_SEED).permutation(table.num_rows)[: 2 * ROWS_MAX])
    batches = table.take(pa.array(chosen)).combine_chunks().to_batches()
    found = extract(keyless, batches[0], False).codes if batches else ()
    if not found or len(found[0]) < 2:
        raise ConfigurationError(
            f"the sample of stream '{stream.name}' has fewer than two usable rows: give a larger one"
        )
    return tuple(codes[:ROWS_MAX] for codes in found)


def _fraction(mask: NDArray[np.bool_], pairs: int) -> float:
    return float(np.count_nonzero(mask)) / pairs
