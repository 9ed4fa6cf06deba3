"""Mutated messages: each is refused by WireError, or is a record with one canonical form that its readers can read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spojoin.errors import WireError
from spojoin.wire.codec import decode, encode
from spojoin.wire.headers import FORMS
from spojoin.wire.records import DeadLetter, Result
from tests.support.frames import make_frame, make_slice
from tests.support.wire_fuzz import corpus, fault, fuzz, fuzzed, sealed, taken_apart

FRAMES, CHUNK = 40_000, 20_000


@pytest.fixture(scope="module")
def valid():
    return corpus()


def test_the_corpus_has_every_kind_of_record(valid):
    assert {type(decode(message)) for message in valid} == set(FORMS)


@pytest.mark.parametrize("start", range(0, FRAMES, CHUNK))
def test_no_frame_is_neither_refused_nor_a_record(start, valid):
    _, broken = fuzz(range(start, start + CHUNK), valid)
    assert not broken, f"frame {broken[0].number}: {broken[0].what}"


def test_many_frames_are_refused_and_many_are_records(valid):
    def is_taken(number):
        try:
            return bool(decode(fuzzed(number, valid)))
        except WireError:
            return False

    taken = sum(map(is_taken, range(2_000)))
    assert 400 < taken < 1_600


def test_a_frame_is_drawn_from_its_number_alone(valid):
    assert fuzzed(77, valid) == fuzzed(77, corpus())


def test_every_valid_message_is_without_fault(valid):
    assert [what for message in valid if (what := fault(message)) is not None] == []


def with_bytes(message, old, new):
    """The message with bytes of its body replaced, under valid checksums."""
    parts = taken_apart(message)
    assert old in parts.body
    return sealed(parts._replace(body=parts.body.replace(old, new)))


def result(rows):
    none = np.empty(0, np.int64)
    return Result(0, 0, 0, True, rows, none, none.astype(np.uint32))


TEXTS = encode(result(pa.record_batch({"name": pa.array(["first", "second"])})))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.array([0, 5, 11], np.int32).tobytes(), np.array([0, 5, 1 << 30], np.int32).tobytes()),
        (b"firstsecond", b"firstse\xffond"),
        (b"name", b"n\xffme"),
    ],
    ids=["offsets lead out of the texts", "a text is no UTF-8", "a name is no UTF-8"],
)
def test_rows_that_arrow_takes_but_no_reader_can_read_are_refused(old, new):
    assert decode(TEXTS).rows.num_rows == 2
    with pytest.raises(WireError, match="no Arrow IPC stream"):
        decode(with_bytes(TEXTS, old, new))


def test_keys_that_are_no_utf8_are_refused():
    piece = make_slice([np.arange(2)], 0, keys=pa.array(["first", "second"]))
    message = encode(make_frame(slices=[piece]))
    with pytest.raises(WireError, match="UTF-8"):
        decode(with_bytes(message, b"firstsecond", b"firstse\xffond"))


def test_what_is_neither_refused_nor_a_record_is_found(monkeypatch):
    message = encode(DeadLetter(0, 0, 0, 0, "late", "", b""))
    assert fault(message) is None

    def broken(_):
        raise IndexError("planted")

    monkeypatch.setattr("tests.support.wire_fuzz.decode", broken)
    assert "planted" in fault(message)
