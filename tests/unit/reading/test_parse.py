import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.model import Column, ColumnType, Domain, KeyColumn, Stream, TimeUnit, TypeName
from spojoin.reading.csv_lines import CsvLines
from spojoin.reading.formats import ARROW, JSON
from spojoin.reading.json_lines import JsonLines
from spojoin.reading.parse import parse_messages
from spojoin.reading.parsing import positions_as_keys
from spojoin.wire.results import CONTENT_TYPE
from tests.support.messages import InputMessage

MISSING = object()


def key_column(name, domain=Domain.INTEGER, scale=0):
    return KeyColumn(Column(name), domain, scale, name)


STREAM = Stream(
    name="s",
    schema={
        "d": ColumnType(TypeName.DOUBLE),
        "unused": ColumnType(TypeName.LONG),
        "n": ColumnType(TypeName.LONG),
        "m": ColumnType(TypeName.DECIMAL, 18, 4),
        "day": ColumnType(TypeName.DATE),
        "at": ColumnType(TypeName.TIMESTAMP),
    },
    time="t",
    key="k",
    keys=(
        key_column("d", Domain.FLOAT),
        key_column("n"),
        key_column("m", scale=4),
        key_column("day"),
        key_column("at"),
    ),
)
ONE = Stream("one", {"n": ColumnType(TypeName.LONG)}, None, None, (key_column("n"),))


def fold(value):
    """The float order code, by its definition and not by the product's code."""
    bits = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF


class Cell(NamedTuple):
    """A value as a JSON literal and a CSV cell (None: not expressible), and its code or the reason for refusal."""

    literal: str | None
    text: str | None
    outcome: object


def said(text, outcome):
    return Cell(text, text, outcome)


def quoted(text, outcome):
    return Cell(json.dumps(text), text, outcome)


#: A join column without a value: its row has a number and joins nothing.
VOID = None
#: NaN is above all other doubles.
NAN = 0x7FF8_0000_0000_0000
NULL = Cell("null", "", "null")
NO_VALUE, ABSENT = Cell("null", "", VOID), Cell(None, None, VOID)
GOOD = {
    "d": [
        *(said(t, fold(float(t))) for t in ("1.5", "1", "-0.0", "0.1", "-7e-3", "Infinity", "-Infinity", "1e308")),
        Cell('"2.5"', "2.5", fold(2.5)),
        said("12345678901234567890", fold(12345678901234567890.0)),
        *(NO_VALUE, ABSENT, said("NaN", NAN)),
    ],
    "n": [said(str(n), n) for n in (0, 1, 2**53 + 1, 2**63 - 1, -(2**63))]
    + [Cell('"5"', "5", 5), Cell('"7.0"', "7.0", 7), said("8.00", 8), said("2e3", 2000), NO_VALUE, ABSENT],
    "m": [said(t, int(Decimal(t) * 10_000)) for t in ("0.1", "-0.0003", "90071992547409.9301", "7", "2.50", "1e2")]
    + [NO_VALUE, ABSENT],
    "day": [quoted("2013-01-01", 15706), quoted("1969-12-31", -1), NO_VALUE, ABSENT],
    "at": [
        quoted("2013-01-01T05:00:00Z", 1357016400 * 10**6),
        said("1357016400001", 1357016400001 * 1000),
        NO_VALUE,
        ABSENT,
    ],
    "t": [quoted("1970-01-01T00:00:01.5Z", 1_500_000), said("2", 2_000), quoted("1970-01-01 00:00:00", 0)],
    "k": [
        said("5", "5"),
        quoted("a\u00e4", "a\u00e4"),
        said(str(2**53 + 1), str(2**53 + 1)),
        said("99999999999999999999", "9" * 20),
    ],
}
BAD = {
    "d": [
        *(Cell('{"d": 1}', None, "type"), Cell("[1]", None, "type")),
        *(quoted("x", "type"), said("true", "type")),
        *(said("1e400", "overflow"), said("1.7976931348623159e308", "overflow")),
    ],
    "n": [said("1.5", "type"), said(str(2**63), "overflow"), quoted("x", "type"), said("NaN", "type")],
    "m": [said("0.00001", "type"), said("1e14", "overflow"), quoted("x", "type")],
    "day": [quoted("2013-02-30", "type"), said("15706", "type")],
    "at": [quoted("yesterday", "type"), said("1357016400000000", "unit")],
    "t": [
        Cell("null", "", "time"),
        Cell(None, None, "time"),
        quoted("yesterday", "time"),
        said("99999999999999999", "time"),
        said("1357016400", "unit"),
    ],
    "k": [NULL, Cell(None, None, "null"), Cell('""', "", "null"), Cell("[1]", None, "type")],
}


class Row(NamedTuple):
    cells: dict[str, Cell]

    def reason(self, needs_time):
        names = [n for n in self.cells if n != "t" or needs_time]
        return next((self.cells[n].outcome for n in names if self.cells[n] in BAD[n]), None)

    def as_json(self, separator=", "):
        fields = [f'"{n}": {c.literal}' for n, c in self.cells.items() if c.literal is not None]
        return "{" + separator.join(['"unused": "?"', *fields]) + "}"

    def as_csv(self):
        c = self.cells
        return ",".join([c["d"].text, "?", *(c[n].text for n in ("n", "m", "day", "at", "t", "k"))])

    @property
    def has_csv(self):
        return all(c.text is not None for c in self.cells.values())


@st.composite
def rows(draw):
    cells = {name: draw(st.sampled_from(choices)) for name, choices in GOOD.items()}
    if draw(st.integers(0, 2)) == 0:
        name = draw(st.sampled_from(sorted(BAD)))
        cells[name] = draw(st.sampled_from(BAD[name]))
    return Row(cells)


class Sent(NamedTuple):
    """A message's value and headers, and the expected outcome: rows, or one dead letter about the whole."""

    value: bytes
    rows: Sequence[Row] = ()
    letter: str | None = None
    headers: tuple = ()


def arrow_bytes(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def in_text_columns(some):
    columns = {n: pa.array([r.cells[n].text for r in some], pa.string()) for n in GOOD}
    return arrow_bytes(pa.RecordBatch.from_pydict(columns))


@st.composite
def sent(draw):
    some = draw(st.lists(rows(), min_size=1, max_size=3))
    written = [r for r in some if r.has_csv]
    arrow_rows = [r for r in written if r.reason(True) is None]
    choices = [
        Sent("\n".join(r.as_json() for r in some).encode(), some),
        Sent("\r\n\n".join(r.as_json() for r in some).encode() + b"\n", some),
        Sent(some[0].as_json(separator=",\n  ").encode(), some[:1]),
        Sent(
            b" " + some[0].as_json().encode(), some[:1], None, (("Content-Type", b"application/json; charset=utf-8"),)
        ),
        *[
            Sent(v, [], "malformed")
            for v in (b"{nope", b"{}{}", b'{"d":1} {"d":2}', b" \n ", b"{\xff}", b"a,b", b'"', b"[1]")
        ],
        Sent(b'{"d":1,"n":1,"n":2}', [], "malformed"),
        Sent(b"{", [], "malformed", (("content-type", b"application/json"),)),
        Sent(some[0].as_json().encode(), [], "malformed", (("content-type", b"application/avro"),)),
        Sent(b"\xff\xff\xff\xffnot arrow", [], "malformed"),
        Sent(b"", [], "malformed"),
    ]
    if written:
        text = "\n".join(r.as_csv() for r in written).encode()
        choices += [Sent(text, written), Sent(text, written, None, (("content-type", b"text/csv"), ("other", None)))]
    if arrow_rows:
        choices.append(Sent(in_text_columns(arrow_rows), arrow_rows))
    return draw(st.sampled_from(choices))


def naive(messages, needs_time):
    """Rows and dead letters, found by walking over what was sent, one by one."""
    taken, letters = [], []
    for offset, message in enumerate(messages):
        if message.letter is not None:
            letters.append((offset, 0, message.letter))
        for number, row in enumerate(message.rows):
            if reason := row.reason(needs_time):
                letters.append((offset, number, reason))
            else:
                codes = tuple(row.cells[n].outcome for n in ("d", "n", "m", "day", "at"))
                time = row.cells["t"].outcome if needs_time else None
                taken.append((offset, number, codes, time, row.cells["k"].outcome, 1000 + offset))
    return taken, letters


def flat(rows, taken=()):
    """Rows as the twin has them; where it knows of no value, the code may be any, and the row joins nothing."""
    times = [None] * len(rows) if rows.times_us is None else rows.times_us.tolist()
    codes = list(zip(*(c.tolist() for c in rows.codes), strict=True))
    for at, wanted in enumerate(row[2] for row in taken[: len(codes)]):
        codes[at] = tuple(VOID if want is VOID else code for code, want in zip(codes[at], wanted, strict=True))
    keys = [str(k) for k in rows.keys.to_pylist()]
    return list(
        zip(rows.offsets.tolist(), rows.rows.tolist(), codes, times, keys, rows.produced_ms.tolist(), strict=True)
    )


def joining(rows):
    """Which rows join: they are members of their stream in any case, as it has no filter."""
    assert rows.members is None or rows.members.tolist() == [2] * len(rows)
    return [True] * len(rows) if rows.joins is None else (rows.joins == 2).tolist()


def given_to(stream, values, needs_time=False, named=None):
    """Rows of plain values, offsets counted from 0; named: the format that the messages' headers name."""
    headers = () if named is None else ((CONTENT_TYPE, named.content_types[0].encode()),)
    return parse_messages(stream, needs_time, 1, 4, [InputMessage(i, 0, v, headers) for i, v in enumerate(values)])


@given(st.lists(sent(), min_size=1, max_size=6), st.booleans())
def test_against_the_naive_twin(messages, needs_time):
    rows = parse_messages(
        STREAM, needs_time, 1, 4, [InputMessage(i, 1000 + i, m.value, m.headers) for i, m in enumerate(messages)]
    )
    taken, letters = naive(messages, needs_time)
    assert flat(rows, taken) == taken
    assert joining(rows) == [VOID not in row[2] for row in taken]
    assert [(d.offset, d.row, d.reason) for d in rows.dead] == letters
    assert all((d.stream, d.partition) == (1, 4) and d.detail for d in rows.dead)
    assert rows.next_offset == len(messages)
    assert all(c.dtype == np.int64 for c in rows.codes)


@pytest.mark.parametrize("cell", [NO_VALUE, ABSENT])
@pytest.mark.parametrize("name", ["d", "n", "m", "day", "at"])
def test_a_row_without_a_value_keeps_its_place_and_joins_nothing(name, cell):
    good = Row({n: choices[0] for n, choices in GOOD.items()})
    some = ([good] * 150 + [Row({**good.cells, name: cell})]) * 2
    rows = given_to(STREAM, [r.as_json().encode() for r in some], True)
    assert joining(rows) == ([True] * 150 + [False]) * 2
    assert not rows.dead


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_cell_never_disturbs_its_neighbours(name):
    """Enough good lines around each bad one to exercise both halving and the second pass."""
    good = Row({n: choices[0] for n, choices in GOOD.items()})
    some = []
    for cell in BAD[name]:
        some += [good] * 150 + [Row({**good.cells, name: cell})]
    rows = given_to(STREAM, [r.as_json().encode() for r in some], True)
    taken, letters = naive([Sent(b"", [r]) for r in some], True)
    assert [(o, n, c, t, k) for o, n, c, t, k, _ in flat(rows, taken)] == [row[:5] for row in taken]
    assert [(d.offset, d.row, d.reason) for d in rows.dead] == letters


def test_a_dead_letter_holds_its_line():
    rows = given_to(ONE, [b'{"n": 1}\n{"n": "x"}', b"{nope"])
    assert [(d.offset, d.row, d.value) for d in rows.dead] == [(0, 1, b'{"n": "x"}'), (1, 0, b"{nope")]
    assert "'x'" in rows.dead[0].detail
    assert "n" in rows.dead[0].detail


def test_default_keys_are_positions():
    rows = given_to(ONE, [b'{"n": 1}', b'{"n": 1}\n{"n": "x"}\n{"n": 3}', b"7"])
    assert rows.keys.to_pylist() == ["4:0", "4:1:0", "4:1:2", "4:2"]
    assert given_to(ONE, [b'{"n": 1}', b"7"]).keys.to_pylist() == ["4:0", "4:1"]
    assert given_to(ONE, [b"{"]).keys.type == pa.string()


NUMBERS = st.integers(0, 63).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))


@given(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=20))
def test_default_keys_are_decimal_numbers_with_colons_between_them(partition, places):
    offsets, rows = (np.array([place[part] for place in places], np.int64) for part in (0, 1))
    is_one_of_several = np.array([place[2] for place in places], bool)
    keys = positions_as_keys(partition, offsets, rows, is_one_of_several)
    keys.validate(full=True)
    assert keys.type == pa.string()
    assert keys.to_pylist() == [
        f"{partition}:{at}:{row}" if has_row else f"{partition}:{at}" for at, row, has_row in places
    ]


def test_integer_keys_stay_integers():
    values = [b'{"n": 1, "k": %d}' % k for k in (2**53 + 1, -1)]
    stream = Stream("s", ONE.schema, None, "k", ONE.keys)
    assert given_to(stream, values).keys.equals(pa.array([2**53 + 1, -1]))
    assert given_to(stream, [*values, b'{"n": 1, "k": "x"}']).keys.equals(pa.array([str(2**53 + 1), "-1", "x"]))


def test_typed_arrow_batches():
    batch = pa.RecordBatch.from_pydict(
        {
            "k": pa.array(["a", "b", "c"]).dictionary_encode(),
            "d": pa.array([1.5, float("nan"), -0.0]),
            "n": pa.array([2**53 + 1, 1, 2], pa.int64()),
            "m": pa.array([Decimal("0.1"), Decimal(1), Decimal("90071992547409.9301")], pa.decimal128(30, 6)),
            "day": pa.array([0, 1, 2], pa.date32()),
            "at": pa.array([1, 2, 3], pa.timestamp("ms")),
            "t": pa.array([1, 2, 3], pa.int64()),
        }
    )
    rows = given_to(STREAM, [arrow_bytes(batch)], True)
    assert flat(rows) == [
        (0, 0, (fold(1.5), 2**53 + 1, 1000, 0, 1000), 1000, "a", 0),
        (0, 1, (NAN, 1, 10_000, 1, 2000), 2000, "b", 0),
        (0, 2, (fold(0.0), 2, 900719925474099301, 2, 3000), 3000, "c", 0),
    ]
    assert joining(rows) == [True] * 3
    assert not rows.dead


def test_arrow_batches_of_one_message_are_numbered_on():
    batch = pa.RecordBatch.from_pydict({"n": ["1", "x"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    rows = given_to(ONE, [sink.getvalue().to_pybytes()])
    assert rows.rows.tolist() == [0, 2]
    assert [d.row for d in rows.dead] == [1, 3]


def test_arrow_messages_that_lack_or_repeat_a_column():
    other = arrow_bytes(pa.RecordBatch.from_pydict({"q": [1]}))
    twice = arrow_bytes(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"]))
    empty = arrow_bytes(pa.RecordBatch.from_pydict({"n": pa.array([], pa.int64())}))
    rows = given_to(ONE, [other, twice, empty])
    assert [(d.offset, d.reason) for d in rows.dead] == [(0, "missing-field"), (1, "malformed")]
    assert rows.next_offset == 3


def arrow_file_bytes(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "content_type", [None, b"application/vnd.apache.arrow.stream", b"application/vnd.apache.arrow.file"]
)
def test_an_arrow_ipc_file_is_read_like_a_stream(content_type):
    value = arrow_file_bytes(pa.RecordBatch.from_pydict({"n": ["7", "x"]}))
    headers = ((("content-type", content_type),) if content_type else ()) + (("other", None),)
    rows = parse_messages(ONE, False, 1, 4, [InputMessage(5, 0, value, headers)])
    assert (rows.codes[0].tolist(), rows.rows.tolist()) == ([7, 7], [0, 2])
    assert [(d.row, d.reason) for d in rows.dead] == [(1, "type"), (3, "type")]


def test_a_truncated_arrow_ipc_file_is_reported():
    value = arrow_file_bytes(pa.RecordBatch.from_pydict({"n": [7]}))
    (letter,) = given_to(ONE, [value[:-9]]).dead
    assert (letter.reason, letter.value) == ("malformed", value[:-9])
    assert letter.detail.startswith("no whole Arrow IPC file: ")


def test_a_csv_line_may_begin_like_an_arrow_file():
    stream = Stream("s", ONE.schema, None, "k", ONE.keys)
    assert given_to(stream, [b"ARROW1,a"]).dead[0].reason == "type"


@pytest.mark.parametrize("to_bytes", [arrow_bytes, arrow_file_bytes])
def test_truncated_or_corrupt_arrow_bytes_never_crash(to_bytes):
    value = to_bytes(pa.RecordBatch.from_pydict({"n": [1, 2, 3], "s": ["a", "bb", "c"]}))
    for size in range(1, len(value)):
        given_to(ONE, [value[:size]], named=ARROW)
    for at in range(len(value)):
        flipped = bytearray(value)
        flipped[at] ^= 0x80
        given_to(ONE, [bytes(flipped)], named=ARROW)


def test_lines_are_never_joined():
    """Two pieces that form one object together, next to a line with two objects: the row counts would agree."""
    rows = given_to(ONE, [b'{"x":', b'{"n": 1}}', b'{"n": 2}{"n": 3}', b'{"n": 4}'], named=JSON)
    assert rows.offsets.tolist() == [3]
    assert [d.offset for d in rows.dead] == [0, 1, 2]
    two = Stream("s", {"n": ColumnType(TypeName.LONG)}, None, "k", ONE.keys)
    rows = given_to(two, [b'1,x"y', b'2,"a', b'3,b"', b"4,z\r5,w", b"6,q"])
    assert list(zip(rows.codes[0].tolist(), rows.keys.to_pylist(), strict=True)) == [
        (1, 'x"y'),
        (3, 'b"'),
        (4, "z"),
        (5, "w"),
        (6, "q"),
    ]
    assert [(d.offset, d.value) for d in rows.dead] == [(1, b'2,"a')]
    assert "quote open" in rows.dead[0].detail


def test_bytes_other_than_utf8_are_malformed_anywhere_in_an_object():
    keyed = Stream("s", ONE.schema, None, "k", ONE.keys)
    values = [b'{"n": 1, "k": "a", "z": "\xff"}', b'{"n": 1, "k": "\xff"}', b'{"n": 1, "k": "\\ud800"}', b"1,\xff"]
    for value in values:
        rows = given_to(keyed, [value])
        assert [d.reason for d in rows.dead] == ["malformed"]
        assert not len(rows)


def test_text_other_than_utf8_is_malformed_in_a_cell_that_nobody_reads():
    stream = Stream("s", {**ONE.schema, "z": ColumnType(TypeName.STRING)}, None, None, ONE.keys)
    found = CsvLines(stream, False).read([b"1,a", b"2,\xff", b"3,c"])
    assert [(fault.id, fault.reason) for fault in found.faults] == [(1, "malformed")]
    assert "isn't UTF-8" in found.faults[0].detail
    assert sorted(id_ for ids, _ in found.taken for id_ in ids.tolist()) == [0, 2]


def test_fractions_of_seconds_are_read_together(monkeypatch):
    def never(*_):
        raise AssertionError("read one by one")

    monkeypatch.setattr(JsonLines, "read_one_by_one", never)
    kind = ColumnType(TypeName.TIMESTAMP, unit=TimeUnit.SECONDS)
    stream = Stream("s", {"at": kind}, "at", None, (key_column("at"),))
    values = [b'{"at": 1357016400.123456}', b'{"at": 1357016401}', b'{"at": 0.1}']
    rows = given_to(stream, values, True)
    assert rows.codes[0].tolist() == [1_357_016_400_123_456, 1_357_016_401_000_000, 100_000]
    assert rows.times_us.tolist() == rows.codes[0].tolist()


def test_a_number_in_doubt_is_a_dead_letter_with_its_sentence():
    stream = Stream("s", {"at": ColumnType(TypeName.TIMESTAMP)}, None, None, (key_column("at"),))
    rows = given_to(stream, [b'{"at": 1357016400}', b'{"at": "1357016400"}', b"1357016400"])
    assert [letter.reason for letter in rows.dead] == ["unit"] * 3
    assert all("--schema 'at=timestamp(s)'" in letter.detail for letter in rows.dead)


def test_csv_spellings_of_null():
    rows = given_to(ONE, [b"NA", b"null", b"1", b"nan"])
    assert joining(rows) == [False, False, True]
    assert rows.codes[0][2] == 1
    assert [d.reason for d in rows.dead] == ["type"]


def test_heartbeats():
    messages = [
        InputMessage(0, 0, b'{"n": 1}'),
        InputMessage(1, 0, b"", (("spojoin-heartbeat", b"2000"),)),
        InputMessage(2, 0, None, (("spojoin-heartbeat", b"1500"),)),
        InputMessage(3, 0, None, (("spojoin-heartbeat", b"soon"),)),
        InputMessage(4, 0, None),
    ]
    rows = parse_messages(ONE, False, 0, 0, messages)
    assert rows.heartbeat_us == 2_000_000
    assert [(d.offset, d.reason) for d in rows.dead] == [(3, "malformed"), (4, "malformed")]
    assert (len(rows), rows.next_offset) == (1, 5)
    assert parse_messages(ONE, False, 0, 0, messages[:1]).heartbeat_us is None


def test_no_messages_have_no_next_offset():
    with pytest.raises(ValueError, match="at least one"):
        parse_messages(ONE, False, 0, 0, [])


def test_deep_nesting_is_survived():
    deep = b'{"n": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    rows = given_to(ONE, [deep, b'{"n": "2"}'])
    assert rows.offsets.tolist()[-1] == 1
    assert len(rows) + len(rows.dead) == 2
