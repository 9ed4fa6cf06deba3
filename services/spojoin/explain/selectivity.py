"""The fraction of a sample's pairs that satisfy each predicate, and all predicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spojoin.columns.extract import extract
from spojoin.columns.stream_columns import arrow_schema, assigned_slots
from spojoin.errors import ConfigurationError
from spojoin.kernels.codes import unfold_doubles
from spojoin.model import OPERATORS, Domain, Op, Predicate, Query, Stream
from spojoin.protocol.key_columns import hot_share, key_predicate
from spojoin.suggest import unknown

ROWS_MAX = 2_000  # 4 million pairs: a selectivity of 0.1 % comes out within about 2 % of itself
_SEED = 20_250_325

Codes = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Fractions of pairs that match, 0 to 1: for each predicate alone, in order, and for all; and the rows sampled.

    passing: the fraction of rows that pass the filter, for the left and the right side
    hot_probes: the fraction of searches for a hot key, which several columns by key would all be asked for
    """

    each: tuple[float, ...]
    whole: float
    rows: tuple[int, ...]
    passing: tuple[float, ...] = (1.0, 1.0)
    hot_probes: float = 0.0


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Rows of a stream that pass its filter.

    rows: int64 (n,), their places in the sample; codes: by slot, int64 (n,); joins: bool (n,)
    values: the values of assigned slots; passing: the fraction of all rows that pass
    """

    rows: NDArray[np.int64]
    codes: Codes
    values: Mapping[int, pa.Array]
    joins: NDArray[np.bool_]
    passing: float


def measure(query: Query, samples: Mapping[str, pa.Table], columns: int = 1) -> Selectivity:
    """Selectivities over up to ROWS_MAX random rows of each stream's sample; refused rows don't count.

    They are fractions of the pairs of rows that pass the filters; residual conditions aren't included. A row with a
    NULL in an index condition matches nothing. Raises ConfigurationError if a stream has no sample, or if none of its
    rows can be used.
    """
    for name in samples:
        known = [stream.name for stream in query.inputs]
        if name not in known:
            raise ConfigurationError(unknown("stream of the samples", name, known))
    sides = [_sampled(stream, samples) for stream in query.streams]
    left, right = sides[0], sides[-1]
    counted = left.rows[:, None] != right.rows[None, :] if query.is_of_one_input else np.ones((1, 1), np.bool_)
    counted = np.broadcast_to(counted, (len(left.rows), len(right.rows)))
    joining = counted & left.joins[:, None] & right.joins[None, :]
    held = [_holds(p, left, right) & joining for p in query.predicates]
    pairs = int(np.count_nonzero(counted))
    return Selectivity(
        tuple(_fraction(mask, pairs) for mask in held),
        _fraction(np.logical_and.reduce(held), pairs),
        tuple(len(side.rows) for side in sides),
        (left.passing, right.passing),
        _hot_probes(query, left, right, columns),
    )


def _hot_probes(query: Query, left: _Sampled, right: _Sampled, columns: int) -> float:
    number = key_predicate(query)
    if number is None or columns == 1:
        return 0.0
    sides = _compared(query.predicates[number], left, right)
    flags = [_are_hot(sides[1 - each.as_left], sides[each.as_left], columns) for each in query.directions]
    return float(np.concatenate(flags).mean())


def _are_hot(probes: NDArray[np.int64], stored: NDArray[np.int64], columns: int) -> NDArray[np.bool_]:
    """Which probes have a key that is hot among the stored tuples."""
    keys, counts = np.unique(stored, return_counts=True)
    return np.isin(probes, keys[counts >= hot_share(columns) * len(stored)])


def _holds(predicate: Predicate, left: _Sampled, right: _Sampled) -> NDArray[np.bool_]:
    """Where a predicate holds, (left rows, right rows)."""
    one, other = _compared(predicate, left, right)
    return holds(predicate, one[:, None], other[None, :])


def _compared(predicate: Predicate, left: _Sampled, right: _Sampled) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The codes that a predicate compares, (left rows,) and (right rows,)."""
    one, other = left.codes[predicate.left_slot], right.codes[predicate.right_slot]
    if predicate.domain is Domain.ASSIGNED:
        values = pa.concat_arrays([left.values[predicate.left_slot], right.values[predicate.right_slot]])
        numbers = np.asarray(values.dictionary_encode().indices.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        one, other = numbers[: len(one)], numbers[len(one) :]
    return one, other


def holds(predicate: Predicate, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where `left op right` holds, codes broadcast against each other."""
    if predicate.op.is_band:
        return _within(predicate, left, right)
    return np.asarray(OPERATORS[predicate.op].compare(left, right))


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


def _sampled(stream: Stream, samples: Mapping[str, pa.Table]) -> _Sampled:
    if stream.name not in samples:
        raise ConfigurationError(f"no sample of stream '{stream.name}': expected one for each stream of the query")
    table = samples[stream.name]
    keyless = replace(stream, key=None)
    table = table.select([name for name in arrow_schema(keyless, needs_time=False).names if name in table.column_names])
    chosen = np.sort(np.random.default_rng(_SEED).permutation(table.num_rows)[: 2 * ROWS_MAX])
    batches = table.take(pa.array(chosen)).combine_chunks().to_batches()
    found = extract(keyless, batches[0], False) if batches else None
    if found is None or len(found.kept) < 2:
        raise ConfigurationError(
            f"the sample of stream '{stream.name}' has fewer than two usable rows: give a larger one"
        )
    passes = np.ones(len(found.kept), np.bool_) if found.members is None else found.members > 0
    taken = np.flatnonzero(passes)[:ROWS_MAX]
    if len(taken) < 2:
        raise ConfigurationError(
            f"the sample of stream '{stream.name}' has fewer than two rows that pass its filter: give a larger one"
        )
    values = {each.slot: _taken(found.payload, each.column, taken) for each in assigned_slots(keyless)}
    joins = np.ones(len(taken), np.bool_) if found.joins is None else found.joins[taken] > 0
    codes = tuple(column[taken] for column in found.codes)
    return _Sampled(chosen[found.kept[taken]], codes, values, joins, float(passes.mean()))


def _taken(payload: pa.RecordBatch | None, name: str, rows: NDArray[np.int64]) -> pa.Array:
    assert payload is not None, "values of assigned codes are payload"
    return payload.column(name).take(pa.array(rows))


def _fraction(mask: NDArray[np.bool_], pairs: int) -> float:
    return float(np.count_nonzero(mask)) / pairs
