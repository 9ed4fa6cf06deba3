"""Stores of payload columns against plain lists: all types, NULLs, and rows that windows no longer reach."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import BadData
from spojoin.roles.sink import column_store as stores
from spojoin.roles.sink.column_store import GROWTH, column_store
from spojoin.roles.sink.history import HeldRows, History
from tests.support.long import first_of

VALUES = {
    pa.int32(): [0, 1, -(2**31), 2**31 - 1],
    pa.int64(): [0, -1, 2**63 - 1, -(2**63)],
    pa.float32(): [0.0, -0.0, 1.5, float("inf")],
    pa.float64(): [0.0, -0.0, 0.1, float("-inf")],
    pa.bool_(): [True, False],
    pa.date32(): [date(1, 1, 1), date(2026, 2, 28)],
    pa.timestamp("us"): [datetime(1970, 1, 1), datetime(2026, 2, 28, 1, 2, 3, 4)],
    pa.decimal128(38, 3): [Decimal("0.001"), Decimal("-1" + "0" * 34 + ".000"), Decimal("99999999999999999999.999")],
    pa.string(): ["", "a", "äöü", "exactly8", "nine char", "s" * 100, "x" * 17],
    pa.binary(): [b"", b"\0", b"12345678", b"\xff" * 33],
    pa.map_(pa.string(), pa.string()): [[], [("k", "v")], [("k", "v"), ("l", "")]],
}


def drawn(random: Random, kind: pa.DataType, rows: int, nulls: float) -> list[object]:
    return [None if random.random() < nulls else random.choice(VALUES[kind]) for _ in range(rows)]


def piece(random: Random, values: list[object], kind: pa.DataType) -> pa.Array:
    """The values as an array that may begin anywhere in its buffers."""
    before = random.randrange(12)
    whole = pa.array([*drawn(random, kind, before, 0.3), *values, *drawn(random, kind, 3, 0.3)], kind)
    return whole.slice(before, len(values))


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_any_values_are_taken_by_place(kind: pa.DataType, seed: int) -> None:
    random = Random(seed)
    first = random.choice([0, 7, 10**12])
    store, held, begin = column_store(kind, first), [], first
    nulls_from = random.choice([0, 400, 10**9])
    for _ in range(60):
        nulls = 0.4 if len(held) + begin - first >= nulls_from else 0.0
        values = drawn(random, kind, random.choice([0, 1, 5, 90]), nulls)
        store.append_values(piece(random, values, kind))
        held += values
        if random.random() < 0.5:
            gone = random.randrange(max(1, len(held)))
            store.drop_below(begin + gone)
            held, begin = held[gone:], begin + gone
        places = [random.randrange(len(held)) for _ in range(random.choice([0, 1, 8, 31]) if held else 0)]
        offset = random.choice([0, 5, 10**9])
        found = store.values_at(np.array(places, np.int64) + offset, offset)
        found.validate(full=True)
        assert found.type == kind
        assert repr(found.to_pylist()) == repr([held[place] for place in places])


@pytest.mark.parametrize("kind", [pa.float64(), pa.string()], ids=str)
def test_buffers_have_little_spare_room(kind: pa.DataType) -> None:
    store, window = column_store(kind, 0), 20_000
    values = pa.array(["0123456789abcdef"] * 200, pa.string()) if kind == pa.string() else pa.array([0.5] * 200)
    for end in range(200, 5 * window, 200):
        store.append_values(values)
        store.drop_below(end - window)
    assert store.nbytes <= (24 if kind == pa.string() else 8) * (window + 400) * GROWTH


def test_more_text_than_a_column_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_TEXT_BYTES_MAX", 9)
    store = column_store(pa.string(), 0)
    store.append_values(pa.array(["12345"]))
    assert len(store.values_at(np.zeros(1, np.int64))) == 1
    with pytest.raises(BadData, match="2 results have 10 bytes of text"):
        store.values_at(np.zeros(2, np.int64))


@pytest.mark.parametrize("seed", first_of(15, range(40)))
def test_a_history_restored_from_batches_in_any_order_is_the_whole(seed: int) -> None:
    """Batches of some rows come in any order, some twice; the log's tail begins within or behind them."""
    random = Random(seed)
    seqs = np.cumsum([random.choice([1, 1, 3]) for _ in range(90)]) if seed % 2 else np.arange(90) + 11
    kinds = [pa.int64(), pa.string(), pa.bool_()]
    columns = [drawn(random, kind, 90, 0.3) for kind in kinds]

    def held(begin: int, end: int) -> HeldRows:
        arrays = [pa.array(column[begin:end], kind) for column, kind in zip(columns, kinds, strict=True)]
        return HeldRows(
            seqs[begin:end].astype(np.int64),
            pa.array(range(begin, end), pa.int64()),
            pa.RecordBatch.from_arrays(arrays, names=["x", "y", "z"]),
        )

    bounds = [0, *sorted(random.sample(range(1, 60), 4)), 60]
    batches = list(pairwise(bounds)) * 2
    random.shuffle(batches)
    tail = random.choice([30, 60])
    history = History(has_keys=True)
    frames = [*range(tail, 90, 10)]
    early = random.choice([0, len(frames)])
    for begin in frames[:early]:
        history.append_rows(begin, held(begin, begin + 10))
    for begin, end in batches:
        history.restore_batch(begin, held(begin, end))
        history.covers(0)  # what adjoins is held from now on, whatever lacks before it
    for begin in frames[early:]:
        history.append_rows(begin, held(begin, begin + 10))
    reached = random.randrange(tail)
    history.drop_below(reached)
    assert history.covers(reached)
    history.drop_below(reached)
    asked = [random.randrange(reached, 90) for _ in range(50)]
    found = [gather() for gather in history.gathers(["z", "x", "y"], seqs[asked].astype(np.int64))]
    assert [array.to_pylist() for array in found] == [[columns[k][row] for row in asked] for k in (2, 0, 1)]
    assert history.keys(seqs[asked].astype(np.int64)).to_pylist() == asked
