"""Arbitrary records that satisfy every invariant, and equality over arrays."""

import dataclasses

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from spojoin.arrays import DTYPES, I64
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.headers import FORMS
from spojoin.wire.records import (
    STILL_HOT,
    Announcement,
    Barrier,
    Batch,
    Block,
    Closing,
    DeadLetter,
    DirectionRanks,
    Frame,
    HotKeys,
    InputEnd,
    Matches,
    Part,
    Partial,
    Positions,
    Presence,
    Result,
    Run,
    SortedColumn,
    SourcePosition,
    SourceState,
    SpreadKey,
    StreamSlice,
    Takeover,
    Unjoined,
    WorkerCount,
)

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
i64 = st.sampled_from([I64_MIN, I64_MAX, -1, 0, 1]) | st.integers(I64_MIN, I64_MAX)
natural = st.integers(0, I64_MAX)
small = st.integers(0, 3)


texts = st.text(max_size=9)
sources = st.dictionaries(st.tuples(small, small), st.builds(SourcePosition, natural, natural, i64), max_size=3)


def same(a, b):
    """Deep equality of records: arrays by dtype and bits, floats by bits, so that NaN equals itself."""
    return type(a) is type(b) and _plain(a) == _plain(b)


def _plain(value):
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, f.name)) for f in dataclasses.fields(value)]
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, pa.Array | pa.RecordBatch):
        return value.type if isinstance(value, pa.Array) else value.schema, value.to_pylist()
    return value.hex() if isinstance(value, float) else value


def ints(n, dtype=np.int64, values=None):
    info = np.iinfo(dtype)
    values = values if values is not None else st.integers(int(info.min), int(info.max))
    return st.lists(values, min_size=n, max_size=n).map(lambda v: np.array(v, dtype))


def optional(strategy):
    return st.none() | strategy


def keys(n):
    """Whole arrays and slices of larger ones, of both types."""
    pick = st.integers(0, 2)
    numbers = st.lists(i64, min_size=n, max_size=n).map(lambda v: pa.array(v, pa.int64()))
    words = st.lists(st.text(max_size=3), min_size=n + 3, max_size=n + 3).map(lambda v: pa.array(v, pa.string()))
    return numbers | st.builds(lambda a, skip: a.slice(skip, n), words, pick)


@st.composite
def payloads(draw, n):
    """Columns with NULLs, whole or slices of larger ones."""
    skip = draw(st.integers(0, 2))
    drawn = {
        "x": pa.array(draw(_cells(i64, n + 2)), pa.int64()),
        "room": pa.array(draw(_cells(st.text(max_size=3), n + 2)), pa.string()),
        "is open": pa.array(draw(_cells(st.booleans(), n + 2)), pa.bool_()),
    }
    names = draw(st.sets(st.sampled_from(sorted(drawn)), min_size=1))
    return pa.RecordBatch.from_pydict({name: drawn[name] for name in sorted(names)}).slice(skip, n)


def _cells(values, n):
    return st.lists(optional(values), min_size=n, max_size=n)


def values(kind, field, n):
    """Arbitrary values of a field of a record with n rows, as its type says."""
    found = _present_values(kind, field, n)
    return optional(found) if field.is_optional else found


def _present_values(kind, field, n):
    numbers = natural
    if field.type is int:
        header = getattr(pb, kind.__name__).DESCRIPTOR.fields_by_name[field.name]
        low = 0 if field.wire.absent is None else 1  # 0 stands for another number
        return st.integers(low, 2**32 - 1) if header.cpp_type == header.CPPTYPE_UINT32 else numbers
    plain = {
        bool: st.booleans(),
        str: texts,
        bytes: st.binary(max_size=9),
        dict[str, int]: st.dictionaries(st.sampled_from(["null", "nan", "late"]), numbers),
        tuple[int, ...]: st.lists(numbers, max_size=2).map(tuple),
        tuple[str, ...]: st.lists(texts, max_size=2).map(tuple),
        tuple[I64, ...]: st.lists(ints(n), max_size=3).map(tuple),
        SourceState: sources,
        pa.Array: keys(n),
        pa.RecordBatch: payloads(n),
    }
    return plain[field.type] if field.type in plain else ints(n, DTYPES[field.type].type)


FORM_OF = {form.kind: form for form in FORMS.values()} | {
    field.item.kind: field.item for form in FORMS.values() for field in form.fields if field.item is not None
}


@st.composite
def drawn(draw, kind, n=0, **known):
    """Records of a kind with n rows: each field is as known, or arbitrary as its type says."""
    missing = [field for field in FORM_OF[kind].fields if field.name not in known]
    return kind(**known, **{field.name: draw(values(kind, field, n)) for field in missing})


@st.composite
def closings(draw, count, streams):
    """Rows that close with a frame of `count` tuples: of no stream, the left stream, or both."""
    sides = draw(st.integers(0, streams))
    owners = draw(st.lists(st.integers(0, sides - 1), max_size=5)) if sides else []
    found = []
    for side in range(sides):
        places = [at for at, owner in enumerate(owners) if owner == side]
        found.append(draw(closing_rows(count, places, is_alone=sides == 1)))
    return tuple(found)


@st.composite
def closing_rows(draw, count, places, *, is_alone):
    """Rows of one stream that close at these positions among a frame's answers."""
    n = len(places)
    seqs = sorted(draw(st.sets(st.integers(0, 2**40), min_size=n, max_size=n)))
    positions = sorted(draw(st.sets(st.sampled_from(places)))) if places else []
    m = len(positions)
    return draw(
        drawn(
            Closing,
            m,
            seqs=np.array(seqs, np.int64),
            positions=np.array(positions, np.uint16),
            after=np.sort(draw(ints(m, np.uint32, st.integers(0, count)))),
            lower=draw(ints(1) | ints(m)),
            places=None if is_alone else np.array(places, np.uint16),
        )
    )


@st.composite
def slices(draw, positions):
    n = len(positions)
    first_index = draw(st.integers(5, I64_MAX))
    return draw(
        drawn(
            StreamSlice,
            n,
            first_index=first_index,
            positions=np.array(positions, np.uint16),
            lower=draw(ints(1) | ints(n)),
            batch_first=draw(st.integers(0, first_index)),
            group=draw(st.integers(-1, 9)),
        )
    )


@st.composite
def frames(draw):
    streams, is_shared = draw(st.sampled_from([(1, False), (2, False), (2, True)]))
    # The slices that contain a row, as bits: none, one, or both if they share an input.
    owners = draw(st.lists(st.sampled_from([0, 1, 2, 3] if is_shared else [0, 1, 2][: 1 + streams]), max_size=7))
    n = len(owners)
    places = [[i for i in range(n) if owners[i] >> s & 1] for s in range(streams)]
    alone = {}
    for i in (i for i in range(n) if not owners[i]):
        alone.setdefault(draw(st.integers(0, 0 if is_shared else streams - 1)), []).append(i)
    cuts = sorted(draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    runs = np.diff([0, *cuts, n]) if n else []
    closing = draw(closings(n, streams))
    answers = sum(len(each.seqs) for each in closing) if closing else n
    return draw(
        drawn(
            Frame,
            count=n,
            slices=tuple(draw(slices(p)) for p in places),
            produced_ms=draw(ints(len(runs))),
            produced_runs=np.array(runs, np.uint32),
            guidance=draw(ints(n, np.uint8) | ints(0, np.uint8)),
            silent=draw(ints(answers, np.uint8, st.integers(0, 1)) | ints(0, np.uint8)),
            unjoined=tuple(Unjoined(s, np.array(p, np.uint16), draw(keys(len(p)))) for s, p in sorted(alone.items())),
            is_shared=is_shared,
            closings=closing,
            spread=tuple(draw(st.lists(spread_keys(streams), max_size=3))),
        )
    )


@st.composite
def spread_keys(draw, streams):
    first = draw(st.integers(0, 2**40))
    return SpreadKey(draw(st.integers(0, streams - 1)), draw(i64), first, draw(st.integers(first + 1, STILL_HOT)))


@st.composite
def direction_ranks(draw):
    m = draw(small)
    return DirectionRanks(draw(ints(draw(small), np.uint16)), draw(ints(m, np.uint16)), draw(ints(m, np.uint16)))


@st.composite
def partials(draw):
    return draw(drawn(Partial, directions=tuple(draw(st.lists(direction_ranks(), max_size=2)))))


@st.composite
def sorted_columns(draw, n, slot):
    return SortedColumn(
        slot, np.sort(draw(ints(n))), draw(st.permutations(range(n)).map(lambda v: np.array(v, np.uint16)))
    )


@st.composite
def runs(draw):
    n, first = draw(small), draw(st.integers(0, 2**40))
    columns = tuple(draw(sorted_columns(n, slot)) for slot in range(draw(small)))
    return draw(drawn(Run, n, first=first, end=first + n, group=draw(st.integers(-1, 9)), columns=columns))


@st.composite
def batches(draw):
    n, first = draw(small), draw(st.integers(0, 2**40))
    slots = draw(st.integers(1, 3))
    pairs = draw(st.sets(st.tuples(st.integers(0, slots - 1), st.integers(0, slots - 1)), max_size=3))
    ranks = st.permutations(range(n)).map(lambda v: np.array(v, np.uint16))
    return draw(
        drawn(
            Batch,
            n,
            first=first,
            end=first + n,
            group=draw(st.integers(-1, 9)),
            columns=tuple(draw(sorted_columns(n, slot)) for slot in range(slots)),
            permutations={pair: draw(ranks) for pair in pairs},
        )
    )


@st.composite
def matches(draw):
    m = draw(small)
    if draw(st.booleans()):
        return Matches(draw(ints(m)))
    lengths = draw(st.lists(small, min_size=m, max_size=m))
    cut = draw(st.lists(small, min_size=m, max_size=m))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Matches(np.array(lengths, np.int64) + np.array(cut, np.int64), offsets, draw(ints(sum(lengths))))


@st.composite
def parts(draw):
    begin = draw(st.integers(0, 65536))
    directions = tuple(draw(st.lists(matches(), max_size=2)))
    return draw(drawn(Part, begin=begin, end=draw(st.integers(begin, 65536)), directions=directions))


@st.composite
def results(draw):
    begin, n, k = draw(st.integers(0, 9)), draw(small), draw(small)
    rows = pa.RecordBatch.from_arrays([pa.array(draw(ints(n))), draw(keys(n))], names=["seq", "key"])
    return Result(
        draw(natural),
        begin,
        begin + n,
        draw(st.booleans()),
        rows,
        draw(ints(k)),
        draw(ints(k, np.uint32)),
        draw(st.integers(1, 2**31)),
    )


@st.composite
def plans(draw):
    hot = draw(st.dictionaries(st.tuples(small, small), small, max_size=3))
    return HotKeys(draw(natural), draw(natural), {at: (draw(ints(n)), draw(ints(n))) for at, n in hot.items()})


@st.composite
def blocks(draw):
    n, first, slots = draw(small), draw(st.integers(0, 9)), draw(st.integers(0, 3))
    offsets = np.sort(first + np.array(draw(st.lists(small, min_size=n, max_size=n)), np.int64))
    offsets = offsets[:1] if draw(st.booleans()) else offsets
    return draw(
        drawn(
            Block,
            n,
            first_offset=first,
            next_offset=first + 4,
            offsets=offsets,
            codes=tuple(draw(ints(n)) for _ in range(slots)),
            refused=None,
        )
    )


records = st.one_of(
    frames(),
    partials(),
    runs(),
    batches(),
    parts(),
    results(),
    plans(),
    blocks(),
    st.builds(WorkerCount, i64, st.integers(1, 2**32 - 1)),
    *map(drawn, (Barrier, DeadLetter, Presence, Announcement, Takeover, InputEnd, Positions)),
)
