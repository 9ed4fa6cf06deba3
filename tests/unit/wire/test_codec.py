import contextlib
import dataclasses
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spojoin.errors import WireError
from spojoin.wire._generated import spojoin_pb2 as pb
from spojoin.wire.codec import Peek, decode, encode, peek
from spojoin.wire.columns import ColumnWriter
from spojoin.wire.headers import FORMS
from spojoin.wire.records import (
    Barrier,
    Closing,
    DirectionRanks,
    Frame,
    Matches,
    Part,
    Partial,
    Record,
    Result,
    Unjoined,
    WorkerCount,
)
from tests.support import samples
from tests.support.frames import make_frame, make_slice

SIZE_PREFIX = 24
slow_drawing = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def frame(n=3, **changes):
    keys = pa.array([f"0:{i}" for i in range(n)])
    part = make_slice([np.arange(n), np.arange(n) * 10], 7, keys=keys, batch_id=1, batch_first=4)
    named = {"epoch": 5, "frame_id": 6, "first_seq": 7, "workers": 2, "previous_link": 8, "rejected": {"null": 1}}
    return make_frame(**{"slices": [part], "produced_ms": np.array([1_000]), **named, **changes})


def seal(version, header, body, magic=b"SPJ1"):
    """A message with valid checksums around any content, built from the documented format alone."""
    head = struct.pack("<IIII", version, len(header), len(body), zlib.crc32(body)) + header
    head += bytes(-len(head) % 8)
    return magic + struct.pack("<I", zlib.crc32(head)) + head + body


def reseal(message, change):
    """The message with `change` applied to its envelope and the checksums recomputed."""
    _, _, version, header_size, body_size, _ = struct.unpack_from("<4sIIIII", message)
    envelope = pb.Envelope.FromString(message[SIZE_PREFIX : SIZE_PREFIX + header_size])
    change(envelope)
    return seal(version, envelope.SerializeToString(), message[len(message) - body_size :])


@slow_drawing
@given(samples.records)
def test_round_trip(record):
    assert samples.same(decode(encode(record)), record)


@slow_drawing
@given(samples.records)
def test_peek_agrees_with_the_record(record):
    expected = Peek(type(record), getattr(record, "epoch", None), getattr(record, "frame_id", None))
    assert peek(encode(record)) == expected


@given(samples.frames(), st.integers(0, 9))
def test_messages_may_start_at_any_address(record, shift):
    message = encode(record)
    moved = memoryview(bytes(shift) + message)[shift:]
    result = decode(moved)
    assert samples.same(result, record)
    assert all(codes.flags.aligned for part in result.slices for codes in part.codes)


def test_every_record_type_round_trips():
    assert set(FORMS) == set(Record.__args__)
    assert {form.field for form in FORMS.values()} == {
        field.name for field in pb.Envelope.DESCRIPTOR.oneofs_by_name["record"].fields
    }


def addresses(array):
    return array.__array_interface__["data"][0]


def test_columns_are_views_of_the_message():
    message = encode(frame(1000))
    start = addresses(np.frombuffer(message, np.uint8))
    span = range(start, start + len(message))
    part = decode(message).slices[0]
    for column in (part.positions, *part.codes):
        assert addresses(column) in span
        assert not column.flags.writeable
    _, offsets, strings = part.keys.buffers()
    assert offsets.address in span
    assert strings.address in span


def test_result_rows_are_views_of_the_message():
    rows = pa.RecordBatch.from_pydict({"seq": list(range(500))})
    message = encode(Result(1, 0, 500, True, rows, np.zeros(0, np.int64), np.zeros(0, np.uint32)))
    start = addresses(np.frombuffer(message, np.uint8))
    assert decode(message).rows.column(0).buffers()[1].address in range(start, start + len(message))


@pytest.mark.parametrize("record", [frame(), Barrier(1, "a"), WorkerCount(3, 2)], ids=["frame", "barrier", "count"])
def test_truncated_at_every_length(record):
    message = encode(record)
    for size in range(len(message)):
        for read in (decode, peek):
            with pytest.raises(WireError):
                read(message[:size])
    with pytest.raises(WireError):
        decode(message + b"\0")


def test_every_single_bit_matters():
    message = encode(frame())
    for bit in range(len(message) * 8):
        altered = bytearray(message)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            decode(memoryview(altered))


def test_peek_never_misreads_a_flipped_bit():
    message = encode(frame())
    right = peek(message)
    refused = 0
    for bit in range(len(message) * 8):
        altered = bytearray(message)
        altered[bit // 8] ^= 1 << bit % 8
        try:
            assert peek(altered) == right
        except WireError:
            refused += 1
    assert refused >= SIZE_PREFIX * 8 - 32  # at least all of the prefix except the body's own checksum


@given(st.binary(max_size=99))
def test_noise_is_refused(noise):
    for data in (noise, b"SPJ1" + noise, seal(1, noise, b""), seal(1, noise, noise)):
        with pytest.raises(WireError):
            decode(data)


@given(st.data())
def test_a_false_header_under_a_valid_checksum_is_refused_or_harmless(data):
    """Whatever one directory entry claims, the outcome is an error, never a crash or other data."""
    record = frame()
    column = data.draw(st.integers(0, 8))
    name = data.draw(st.sampled_from(["dtype", "count", "offset"]))
    value = data.draw(st.integers(0, 6) if name == "dtype" else st.integers(0, 99) | st.integers(0, 2**64 - 1))

    def lie(envelope):
        setattr(envelope.columns[column], name, value)

    with contextlib.suppress(WireError):
        assert samples.same(decode(reseal(encode(record), lie)), record)


LIES = {
    "no record": lambda e: e.ClearField("frame"),
    "no columns": lambda e: e.ClearField("columns"),
    "a column too many": lambda e: e.columns.add(dtype=pb.U8, offset=e.columns[-1].offset),
    "more codes than there are": lambda e: setattr(e.frame.slices[0], "code_columns", 2**32 - 1),
    "fewer codes than there are": lambda e: setattr(e.frame.slices[0], "code_columns", 1),
    "count": lambda e: setattr(e.frame, "count", 4),
    "huge count": lambda e: setattr(e.frame, "count", 2**32 - 1),
    "slice without columns": lambda e: e.frame.slices.add(),
    "no slice": lambda e: e.frame.ClearField("slices"),
    "batch that starts later": lambda e: setattr(e.frame.slices[0], "batch_first", 8),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_contradictions_are_refused(lie):
    with pytest.raises(WireError):
        decode(reseal(encode(frame()), lie))


@pytest.mark.parametrize("column", range(9))
def test_columns_are_where_they_were_written(column):
    message = encode(frame())
    refused = 0
    for offset in range(0, 200, 4):

        def lie(envelope, offset=offset):
            envelope.columns[column].offset = offset

        try:
            assert samples.same(decode(reseal(message, lie)), frame())
        except WireError:
            refused += 1
    assert refused == 49


def test_bytes_after_the_columns_are_refused():
    header = pb.Envelope(barrier=pb.Barrier(epoch=1, router_id="a")).SerializeToString()
    with pytest.raises(WireError, match="columns end at byte 0"):
        decode(seal(1, header, bytes(8)))


def test_resealing_alone_changes_nothing():
    assert samples.same(decode(reseal(encode(frame()), lambda e: None)), frame())


def test_versions_and_magic():
    header = pb.Envelope(barrier=pb.Barrier(epoch=1, router_id="a")).SerializeToString()
    assert decode(seal(1, header, b"")) == Barrier(1, "a")
    with pytest.raises(WireError, match=r"version 2, expected 1"):
        decode(seal(2, header, b""))
    with pytest.raises(WireError, match="no spojoin record"):
        decode(seal(1, header, b"", magic=b"SPJ2"))


def test_oversized_on_both_sides():
    message = encode(frame(100))
    assert encode(frame(100), size_bytes_max=len(message)) == message
    for refuse in (
        lambda: encode(frame(100), size_bytes_max=len(message) - 1),
        lambda: decode(message, size_bytes_max=len(message) - 1),
        lambda: peek(message, size_bytes_max=len(message) - 1),
    ):
        with pytest.raises(WireError, match=f"limit of {len(message) - 1}"):
            refuse()


def test_oversized_claims():
    message = bytearray(encode(frame()))
    for at in (12, 16):
        claim = bytearray(message)
        claim[at : at + 4] = b"\xff" * 4
        with pytest.raises(WireError, match="claims"):
            decode(memoryview(claim))


def slice_with(**changes):
    return (dataclasses.replace(frame().slices[0], **changes),)


def of(**changes):
    """Two left rows alone that close with a frame of three tuples."""
    return (closing(**changes),)


def both(left, right):
    """As many rows of either side that close with it, at these positions."""
    return closing(places=left, positions=left), closing(places=right, positions=right)


def closing(**changes):
    """Two rows of a side that close with a frame of three tuples."""
    found = Closing(
        first=5,
        seqs=np.array([3, 4]),
        positions=np.array([0, 1], np.uint16),
        after=np.array([1, 3], np.uint32),
        codes=(np.array([7, 8]),),
        lower=np.array([2]),
        own=None,
        reached=2,
    )
    return dataclasses.replace(found, **changes)


def two_sided(closings):
    """A frame of one input's two streams with these rows that close."""
    return frame(count=3, is_shared=True, slices=slice_with() * 2, closings=closings)


u16 = lambda *v: np.array(v, np.uint16)  # noqa: E731
none = np.zeros(0, np.int64)

UNFIT = {
    "dtype": frame(slices=slice_with(codes=(np.zeros(3, np.int32), np.zeros(3, np.int64)))),
    "two dimensions": frame(slices=slice_with(lower=np.zeros((1, 1), np.int64))),
    "codes too short": frame(slices=slice_with(codes=(np.zeros(3, np.int64), np.zeros(2, np.int64)))),
    "lower of another length": frame(slices=slice_with(lower=np.zeros(2, np.int64))),
    "times of another length": frame(slices=slice_with(times_us=np.zeros(2, np.int64))),
    "keys of another length": frame(slices=slice_with(keys=pa.array([1]))),
    "no keys": frame(slices=slice_with(keys=None)),
    "null key": frame(slices=slice_with(keys=pa.array([1, None, 2]))),
    "double keys": frame(slices=slice_with(keys=pa.array([1.0, 2.0, 3.0]))),
    "positions with a gap": frame(slices=slice_with(positions=u16(0, 1, 3))),
    "positions that repeat": frame(slices=slice_with(positions=u16(0, 1, 1))),
    "positions out of order": frame(slices=slice_with(positions=u16(0, 2, 1))),
    "slices that overlap": frame(count=6, slices=slice_with() * 2, produced_runs=np.array([6], np.uint32)),
    "slices that overlap by less": frame(
        count=4, slices=(*slice_with(), *slice_with(positions=u16(1, 2, 3))), produced_runs=np.array([4], np.uint32)
    ),
    "a position in no slice": frame(
        count=4, is_shared=True, slices=slice_with() * 2, produced_runs=np.array([4], np.uint32)
    ),
    "an unjoined row in a slice, too": frame(unjoined=(Unjoined(0, u16(1), pa.array([1])),)),
    "unjoined rows with fewer keys": frame(
        count=4, unjoined=(Unjoined(0, u16(3), pa.array([], pa.int64())),), produced_runs=np.array([4], np.uint32)
    ),
    "payload of another length": frame(slices=slice_with(payload=pa.record_batch({"x": [1, 2]}))),
    "places of another length": frame(slices=slice_with(places=np.zeros(2, np.int64))),
    "own of another length": frame(slices=slice_with(own=np.zeros(2, np.int64))),
    "more rows that search than close": frame(closings=of(positions=u16(0, 2))),
    "rows that close out of order": frame(closings=of(seqs=np.array([4, 3]))),
    "rows that close behind the frame": frame(closings=of(after=np.array([1, 4], np.uint32))),
    "rows that close backwards": frame(closings=of(after=np.array([3, 1], np.uint32))),
    "bounds of fewer rows": frame(closings=of(lower=np.zeros(0, np.int64))),
    "marks of tuples, not of answers": frame(closings=of(), silent=np.zeros(3, np.uint8)),
    "positions of the rows of one side": frame(closings=of(places=u16(0, 1))),
    "rows of two sides at one position": two_sided(both(u16(0, 2), u16(1, 2))),
    "rows of two sides with a gap": two_sided(both(u16(0, 2), u16(1, 4))),
    "rows of two sides without positions": two_sided((closing(), closing())),
    "rows of two sides in a frame of one stream": frame(closings=both(u16(0, 2), u16(1, 3))),
    "a row that searches at no position of its side": two_sided(
        (closing(places=u16(0, 2)), closing(places=u16(1, 3), positions=u16(1, 3)))
    ),
    "fewer positions than rows": two_sided((closing(places=u16(0)), closing(places=u16(1, 2), positions=u16(1, 2)))),
    "runs that miss a tuple": frame(produced_runs=np.array([2], np.uint32)),
    "runs without times": frame(produced_ms=none),
    "epoch too large": frame(epoch=2**63),
    "epoch of another type": frame(epoch="1"),
    "negative link": frame(link=-1),
    "ranks": Partial(1, 1, 0, (DirectionRanks(u16(1), u16(1, 2), u16(1)),)),
    "offsets without partners": Part(1, 1, 0, 0, 1, (Matches(np.ones(1, np.int64), np.array([0, 1])),)),
    "offsets that fall": Part(
        1, 1, 0, 0, 2, (Matches(np.ones(2, np.int64), np.array([0, 2, 1]), np.zeros(1, np.int64)),)
    ),
    "offsets that end early": Part(
        1, 1, 0, 0, 1, (Matches(np.ones(1, np.int64), np.array([0, 0]), np.zeros(1, np.int64)),)
    ),
    "more partners than the count": Part(
        1, 1, 0, 0, 1, (Matches(np.zeros(1, np.int64), np.array([0, 1]), np.zeros(1, np.int64)),)
    ),
    "range that ends before it begins": Part(1, 1, 0, 2, 1, ()),
    "worker count of 0": WorkerCount(1, 0),
    "no record": object(),
}


@pytest.mark.parametrize("record", UNFIT.values(), ids=UNFIT.keys())
def test_records_that_no_reader_could_use_are_not_encoded(record):
    with pytest.raises(WireError):
        encode(record)


def test_frames_without_guidance_omit_its_fields():
    envelope = pb.Envelope()
    FORMS[Frame].write(frame(), envelope.frame, ColumnWriter(envelope.columns))
    last = [column.dtype for column in envelope.columns][-2:]
    assert last == [pb.I64, pb.U32], "produced_ms and produced_runs are the last"


def test_frames_from_before_guidance_always_have_an_empty_column():
    def add_empty_column(envelope):
        envelope.columns.add(dtype=pb.U8, count=0, offset=len(body_of(encode(frame()))))

    assert decode(reseal(encode(frame()), add_empty_column)).guidance.tolist() == []
    guided = frame(guidance=np.array([1, 0, 1, 7], np.uint8))
    assert decode(encode(guided)).guidance.tolist() == [1, 0, 1, 7]


def body_of(message):
    return message[len(message) - struct.unpack_from("<4sIIIII", message)[4] :]


def test_records_from_before_generations_lack_their_fields():
    def older(envelope):
        for name in ("fingerprint", "has_silent", "unjoined", "unjoined_columns", "is_shared", "closing_columns"):
            envelope.frame.ClearField(name)
        for part in envelope.frame.slices:
            for name in ("has_payload", "has_places", "has_own", "passed", "void"):
                part.ClearField(name)

    assert samples.same(decode(reseal(encode(frame(fingerprint=9)), older)), frame())

    def older_barrier(envelope):
        for name in ("fingerprint", "closes", "first_indexes", "first_seq"):
            envelope.barrier.ClearField(name)

    assert decode(reseal(encode(Barrier(4, "r", 9, closes=True, first_indexes=(3,))), older_barrier)) == Barrier(4, "r")


def test_rows_of_both_sides_may_close_with_a_frame():
    found = two_sided(both(u16(0, 2), u16(1, 3)))
    assert found.answers == 4
    assert samples.same(decode(encode(found)), found)


def test_a_row_may_stand_in_both_slices_of_one_input_and_in_none():
    shared = frame(
        count=5,
        is_shared=True,
        slices=(*slice_with(positions=u16(0, 1, 3)), *slice_with(positions=u16(1, 2, 3))),
        unjoined=(Unjoined(0, u16(4), pa.array(["0:9"])),),
        produced_runs=np.array([5], np.uint32),
    )
    assert samples.same(decode(encode(shared)), shared)


@pytest.mark.parametrize("silent", [[1], [0, 1], [1] * 4])
def test_a_frame_marks_all_its_tuples_or_none(silent):
    with pytest.raises(WireError, match="silent"):
        encode(frame(silent=np.array(silent, np.uint8)))


def test_an_unknown_version_suggests_a_remedy():
    with pytest.raises(WireError, match=r"version 2, expected 1.*run the version of spojoin that wrote it"):
        decode(seal(2, b"", b""))
