"""What a message gives never depends on the messages that are read with it, however they are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TypeName
from spojoin.reading import formats
from spojoin.reading.arrow_rows import SMALL_BYTES_MAX, ArrowMessages, read_arrow
from spojoin.reading.formats import ARROW, JSON, InputFormat
from spojoin.reading.json_lines import JsonLines
from spojoin.reading.parse import parse_messages
from spojoin.reading.readout import Ids, Readout
from spojoin.wire.records import Rows
from spojoin.wire.results import CONTENT_TYPE
from tests.support.messages import InputMessage

KEYS = (
    KeyColumn(Column("n"), Domain.INTEGER, 0, "n"),
    KeyColumn(Column("d"), Domain.FLOAT, 0, "d"),
    KeyColumn(Column("m"), Domain.INTEGER, 2, "m"),
)
SCHEMA = {"n": ColumnType(TypeName.LONG), "d": ColumnType(TypeName.DOUBLE), "m": ColumnType(TypeName.DECIMAL, 18, 2)}
PLAIN = Stream("s", SCHEMA, "t", None, KEYS)
KEYED = Stream("s", SCHEMA, "t", "k", KEYS)

#: Arrow's CSV reader complains aloud of a line that isn't UTF-8, which is read again all the same.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GOOD = b'{"n": 1, "d": 1.5, "m": 2.25, "t": 7, "k": "a"}'
#: As many as are halved before they are read one by one.
MANY = JsonLines.few + 6

WRITTEN = """1|-0|9223372036854775807|9223372036854775808|1e3|1.0|1.5|0.1|1e999|1.7976931348623159e308|NaN
-Infinity|null|true|""|"1"|" 7 "|"x"|"\\u0031"|"\\ud800"|"2020-01-01T00:00:00Z"|{}|[]|[1]|{"n": 1}|"}\\n{"|"},{"|01
+1|.5|1,|nul|'1'"""
literals = st.sampled_from(WRITTEN.replace("\n", "|").split("|"))
names = st.sampled_from(["n", "d", "m", "t", "k", "other", "\\u006e", "}", "{"])
objects = st.lists(st.tuples(names, literals), max_size=6).map(
    lambda fields: ("{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}").encode()
)
#: Pieces that a parser of several messages at once could take for the end of one and the beginning of another.
PIECES = rb"""{ } [ ] , " \ : 1 // /* */ {"n":1 "n":2} {"x":" "} },{ }{ {"n":1},{"n":2} {"n":1}{"n":2} {"x":"\ """
pieces = st.sampled_from([*PIECES.split(), b" ", b"\n", b"\r", b"\x0b", b"\x00", b"\xff", b"\xef\xbb\xbf", b"}\n{"])
values = st.one_of(
    st.just(GOOD),
    objects,
    st.lists(st.one_of(objects, pieces, st.just(GOOD)), max_size=4).map(b"".join),
    st.tuples(objects, st.integers(0, 60)).map(lambda cut: cut[0][: cut[1]]),
    st.lists(objects, min_size=2, max_size=3).map(b"\n".join),
    st.none(),
)
TYPES = (b"application/json", b"application/JSON; charset=utf-8", b"text/csv", b"x", None)
headers = st.sampled_from([(), (("spojoin-heartbeat", b"5"),), *(((CONTENT_TYPE, name),) for name in TYPES)])

ENVELOPED = replace(PLAIN, envelope="after")


def arrow_rows(count: int) -> pa.RecordBatch:
    numbers = list(range(count))
    return pa.RecordBatch.from_pydict({"n": numbers, "d": numbers, "m": numbers, "t": numbers, "k": numbers})


def ipc(*batches: pa.RecordBatch, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


#: Types of the columns n, d, m, t and k, of which some are refused, and values that fit none or all.
TYPES_OF_COLUMNS = (
    (pa.int64(), pa.float64(), pa.int64(), pa.int64(), pa.string()),
    (pa.string(), pa.string(), pa.string(), pa.string(), pa.int64()),
    (pa.int64(), pa.float64(), pa.int64(), pa.int64(), pa.dictionary(pa.int8(), pa.string())),
    (pa.float64(), pa.bool_(), pa.int64(), pa.int64(), pa.string()),
)
CELLS = st.one_of(st.none(), st.sampled_from([0, 1, 7, -1, 9_000_000_000_000_000_000]))


def typed(cells: list[int | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(cells, pa.int64()).cast(pa.string()).dictionary_encode().cast(kind)
    return pa.array(cells, pa.int64()).cast(kind, safe=False)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A message of some batches, empty ones too; its rows stand in an envelope, or don't."""
    types = draw(st.sampled_from(TYPES_OF_COLUMNS))
    names = ["n", "d", "m", "t", "k"][: draw(st.sampled_from([5, 5, 5, 4]))]
    batches = []
    for count in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        arrays = [
            typed(draw(st.lists(CELLS, min_size=count, max_size=count)), kind)
            for kind, _ in zip(types, names, strict=False)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, names=names))
    if draw(st.booleans()):
        batches = [pa.RecordBatch.from_arrays([each.to_struct_array()], names=["after"]) for each in batches]
    return ipc(*batches, codec=draw(st.sampled_from([None, None, "zstd"])))


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A message that was cut, or of which a byte is another, or with more behind its end."""
    value = draw(streams())
    at = draw(st.integers(0, len(value) - 1))
    return draw(st.sampled_from([value[:at], value[:at] + bytes([value[at] ^ 0x15]) + value[at + 1 :], value + b"end"]))


def flat(stream: Stream, rows: Rows) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """All that is said of each row and of each dead letter; a key by its text, a code where the row joins."""
    assert rows.times_us is not None
    joins = [2] * len(rows) if rows.joins is None else rows.joins.tolist()
    columns = zip(*(codes.tolist() for codes in rows.codes), strict=True)
    codes = [each if bits else None for each, bits in zip(columns, joins, strict=True)]
    places = rows.offsets.tolist(), rows.rows.tolist()
    keys = rows.keys.cast("string").to_pylist()
    taken = list(zip(*places, codes, joins, rows.times_us.tolist(), keys, rows.produced_ms.tolist(), strict=True))
    return taken, [(d.stream, d.partition, d.offset, d.row, d.reason, d.detail, d.value) for d in rows.dead]


def together_and_alone(stream: Stream, messages: list[InputMessage]) -> None:
    taken, letters = flat(stream, parse_messages(stream, True, 1, 4, messages))
    alone = [flat(stream, parse_messages(stream, True, 1, 4, [message])) for message in messages]
    assert taken == [row for rows, _ in alone for row in rows]
    assert letters == [letter for _, dead in alone for letter in dead]


def sent(values: list[bytes | None], named: InputFormat | None = None) -> list[InputMessage]:
    """Messages of these values; named: the format that their headers name."""
    headers = () if named is None else ((CONTENT_TYPE, str(named.content_types[0]).encode()),)
    return [InputMessage(at, 1_000 + at, value, headers) for at, value in enumerate(values)]


@given(
    st.sampled_from([PLAIN, KEYED]),
    st.lists(values, min_size=1, max_size=8),
    st.sampled_from([None, JSON]),
)
@example(PLAIN, [b'{"n": 1},{"n": 2}', b""], JSON)
@example(PLAIN, [b'{"n": 1', b'"d": 2}'], JSON)
@example(PLAIN, [b'{"x": "', b'"}', GOOD], JSON)
@example(PLAIN, [b"{}", b'{"n": 1}\n{"n": 2}', b"{}\n"], None)
def test_messages_of_a_named_format_or_none(
    stream: Stream, some: list[bytes | None], named: InputFormat | None
) -> None:
    together_and_alone(stream, sent(some, named))


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=3), st.lists(st.integers(0, MANY), min_size=3, max_size=3))
def test_among_many_good_ones(some: list[bytes | None], places: list[int]) -> None:
    whole: list[bytes | None] = [GOOD] * MANY
    for place, value in zip(places, some, strict=False):
        whole.insert(place, value)
    together_and_alone(PLAIN, sent(whole))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(values, objects.map(lambda row: b'{"after": %s}' % row)), min_size=1, max_size=3))
def test_among_many_good_ones_in_envelopes(some: list[bytes | None]) -> None:
    whole = [b'{"after": %s}' % GOOD] * MANY
    together_and_alone(replace(PLAIN, envelope="after"), sent([*whole[:9], *some, *whole[9:]]))


@given(st.lists(st.tuples(values, headers), min_size=1, max_size=6))
def test_messages_with_headers(some: list[tuple[bytes | None, Any]]) -> None:
    messages = [InputMessage(at, at, value, found) for at, (value, found) in enumerate(some)]
    together_and_alone(PLAIN, messages)


@pytest.mark.parametrize(
    "bad",
    [
        [b"{nope}"],
        [b'{"n": "x"}'],
        [b'{"d": "1.5"}'],
        [b'{"n": 1.5}'],
        [b'{"n": true}'],
        [b"{1}", b"{2}"],
        [b"{\xff}", b'{"t": "2020-01-01"}', b'{"m": []}'],
    ],
)
def test_only_lines_at_fault_are_read_one_by_one(bad: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    read = spy(monkeypatch)
    readout = JsonLines(PLAIN, needs_time=True).read([GOOD, *bad, *[GOOD] * MANY])
    assert sorted(read) == sorted(bad)
    assert sum(len(ids) for ids, _ in readout.taken) + len(readout.faults) == 1 + len(bad) + MANY


def test_an_odd_line_ahead_puts_no_doubt_on_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read = spy(monkeypatch)
    times = [b'{"n": 1, "t": "2020-01-01"}'] * (8 * MANY)
    readout = JsonLines(PLAIN, needs_time=True).read([GOOD, *times])
    assert len(read) <= JsonLines.few
    assert sum(len(ids) for ids, _ in readout.taken) == 1 + 8 * MANY


def spy(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that are read one by one from now on."""
    read: list[bytes] = []
    one_by_one = JsonLines.read_one_by_one

    def spied(reader: JsonLines, ids: Ids, lines: Sequence[bytes], readout: Readout) -> None:
        read.extend(lines)
        one_by_one(reader, ids, lines, readout)

    monkeypatch.setattr(JsonLines, "read_one_by_one", spied)
    return read


@pytest.mark.parametrize(
    "value",
    [b'{"n": 1}', b' {"n": 1}', b'{"n": 1}\n', b'{"n": 1}\n{"n": 2}', b"{", b"}", b"{}", b" ", b"", b'{"n":\n1}'],
)
def test_lines_of_all_messages_are_those_of_each(value: bytes) -> None:
    reader = JsonLines(PLAIN, needs_time=True)
    for some in ([value], [GOOD, value], [value, GOOD, value]):
        lines, counts = reader.split_all(some)
        assert [reader.split(each) for each in some] == _parted(list(lines), counts.tolist())


@given(st.sampled_from([PLAIN, KEYED, ENVELOPED]), st.lists(st.one_of(streams(), broken()), min_size=1, max_size=8))
def test_arrow_messages(stream: Stream, some: list[bytes]) -> None:
    together_and_alone(stream, sent(list(some), ARROW))


def test_small_arrow_messages_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def spied(stream: Stream, needs_time: bool, number: int, messages: ArrowMessages, headers_of: Any) -> Any:
        read.append(len(messages.values))
        return read_arrow(stream, needs_time, number, messages, headers_of)

    monkeypatch.setattr(formats, "read_arrow", spied)
    small, other = ipc(arrow_rows(2)), ipc(arrow_rows(2).select(["n", "d", "m", "t"]))
    large = ipc(arrow_rows(SMALL_BYTES_MAX // 8))
    rows = parse_messages(PLAIN, True, 0, 0, sent([small, other, *[small] * MANY, large], ARROW))
    assert sorted(read) == [1, 1, 1 + MANY]
    assert len(rows) == 2 * (2 + MANY) + SMALL_BYTES_MAX // 8


def test_no_more_arrow_messages_are_read_together_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    value = ipc(arrow_rows(2))
    monkeypatch.setattr("spojoin.reading.arrow_rows.TOGETHER_BYTES_MAX", 3 * len(value))
    together_and_alone(PLAIN, sent([value] * 8, ARROW))


def _parted(lines: list[bytes], counts: list[int]) -> list[list[bytes]]:
    return [[lines.pop(0) for _ in range(count)] for count in counts]
