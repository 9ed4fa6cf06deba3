import base64
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spojoin.errors import WireError
from spojoin.wire.codec import decode, encode
from spojoin.wire.columns import concat_keys
from spojoin.wire.records import Result
from spojoin.wire.results import (
    MATCHES,
    ResultProgress,
    matches_of,
    pack_produced,
    progress,
    result_from_message,
    result_messages_json,
    result_messages_rows,
    result_to_message,
    unpack_produced,
)
from tests.support import samples


def result(rows, begin=3, end=5, is_last=False):
    return Result(7, begin, end, is_last, rows, np.array([1000, 1002]), np.array([1, 4], np.uint32))


COUNTS = pa.RecordBatch.from_pydict(
    {"seq": [10, 11], "stream": ["trips", "trips"], "key": [2**53 + 1, 5], "matches": [0, 3]}
)
PAIRS = pa.RecordBatch.from_pydict(
    {
        "probe_seq": [10, 10, 12],
        "left_seq": [1, 10, 12],
        "right_seq": [10, 2, 3],
        "left_key": ["a", "x", "y"],
        "right_key": ["x", "b", "c"],
    }
)
BITMAPS = pa.RecordBatch.from_pydict({"seq": [10, 11], "as_left": [b"\x00\xff", b""], "as_right": [b"q", b"r"]})
EMPTY = PAIRS.slice(0, 0)


@given(samples.results())
def test_frames_form_round_trip(record):
    message = result_to_message(record)
    assert samples.same(result_from_message(message.headers, message.value), record)


@given(samples.results())
def test_value_is_a_plain_arrow_stream(record):
    value = result_to_message(record).value
    assert pa.ipc.open_stream(io.BytesIO(value)).read_all().to_pylist() == record.rows.to_pylist()


def test_rows_are_views_of_the_value():
    message = result_to_message(result(COUNTS))
    start = np.frombuffer(message.value, np.uint8).__array_interface__["data"][0]
    rows = result_from_message(message.headers, message.value).rows
    assert rows.column(0).buffers()[1].address in range(start, start + len(message.value))


@given(
    st.lists(st.tuples(samples.i64, st.integers(0, 2**32 - 1)), max_size=5)
    | st.lists(st.tuples(st.integers(1_700_000_000_000, 1_700_000_000_099), st.integers(1, 9)), max_size=5)
)
def test_produced_times_round_trip(runs):
    times = np.array([t for t, _ in runs], np.int64)
    lengths = np.array([n for _, n in runs], np.uint32)
    unpacked = unpack_produced(pack_produced(times, lengths))
    assert samples.same(unpacked, (times, lengths))


def test_produced_times_are_compact():
    times = 1_700_000_000_000 + np.arange(1000)
    assert len(pack_produced(times, np.full(1000, 4, np.uint32))) < 2100


def test_produced_times_truncated_at_every_length_or_flipped():
    data = pack_produced(np.array([5, 6, 1000]), np.array([1, 2, 3], np.uint32))
    for size in range(1, len(data)):
        with pytest.raises(WireError):
            unpack_produced(data[:size])
    with pytest.raises(WireError):
        unpack_produced(bytes(4) + data[4:])


@given(samples.results(), st.data())
def test_malformed_messages_are_refused(record, data):
    message = result_to_message(record)
    name = data.draw(st.sampled_from(["spojoin-frame", "spojoin-begin", "spojoin-end", "spojoin-last"]))
    bad = data.draw(st.sampled_from([None, b"", b"x", b"-1", b"1.0", b"9" * 25, "²".encode()]))
    headers = {k: v for k, v in {**message.headers, name: bad}.items() if v is not None}
    with pytest.raises(WireError, match=name):
        result_from_message(headers, message.value)


def test_values_other_than_a_stream_of_one_batch_are_refused():
    headers, value, _ = result_to_message(result(COUNTS))
    table = pa.Table.from_batches([COUNTS, COUNTS])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for bad in (b"", b"x", value[:50], value[: len(value) // 2], sink.getvalue().to_pybytes()):
        with pytest.raises(WireError):
            result_from_message(headers, bad)


def test_counts_as_json():
    values = [json.loads(m.value) for m in result_messages_json(result(COUNTS))]
    assert values == [
        {"seq": 10, "stream": "trips", "key": 2**53 + 1, "matches": 0},
        {"seq": 11, "stream": "trips", "key": 5, "matches": 3},
    ]


def test_pairs_as_json_are_grouped_by_probe():
    values = [json.loads(m.value) for m in result_messages_json(result(PAIRS))]
    assert values == [
        {
            "probe_seq": 10,
            "pairs": [
                {"left_seq": 1, "right_seq": 10, "left_key": "a", "right_key": "x"},
                {"left_seq": 10, "right_seq": 2, "left_key": "x", "right_key": "b"},
            ],
        },
        {"probe_seq": 12, "pairs": [{"left_seq": 12, "right_seq": 3, "left_key": "y", "right_key": "c"}]},
    ]


def test_bitmaps_as_json_are_base64():
    values = [json.loads(m.value) for m in result_messages_json(result(BITMAPS))]
    assert [base64.b64decode(v["as_left"]) for v in values] == [b"\x00\xff", b""]
    assert [v["seq"] for v in values] == [10, 11]


@pytest.mark.parametrize(
    ("rows", "seqs"), [(COUNTS, [10, 11]), (PAIRS, [10, 12]), (BITMAPS, [10, 11]), (EMPTY, [None])]
)
def test_progress_of_json_messages(rows, seqs):
    messages = result_messages_json(result(rows, is_last=True))
    found = [progress(m.headers) for m in messages]
    assert found == [
        *(ResultProgress(7, 3, False, seq) for seq in seqs[:-1]),
        ResultProgress(7, 5, True, seqs[-1], matches=matches_of(result(rows))),
    ]


def test_messages_carry_the_number_of_matches_written_so_far():
    """Where a result takes several messages, only the last one raises the number."""
    made = replace(result(BITMAPS, is_last=True), matches=6)
    assert [progress(m.headers).matches for m in result_messages_json(made, matches_before=100)] == [100, 106]
    assert progress(result_to_message(result(COUNTS), matches_before=100).headers).matches == 103
    assert progress(result_to_message(result(PAIRS), matches_before=100).headers).matches == 103
    older = {name: value for name, value in result_to_message(result(COUNTS)).headers.items() if name != MATCHES}
    assert progress(older).matches == 0


def test_a_result_without_rows_still_carries_the_result_position():
    (message,) = result_messages_json(result(EMPTY))
    assert message.value == b""
    assert progress(message.headers) == ResultProgress(7, 5, False, None)


@given(samples.results())
def test_progress_of_frames_form(record):
    expected = ResultProgress(record.frame_id, record.end, record.is_last, None, record.generation)
    assert progress(result_to_message(record).headers) == expected


def test_keys_of_two_types_meet_as_strings():
    numbers, words, nothing = pa.array([1, 2]), pa.array(["a"]), pa.array([], pa.string())
    assert concat_keys([numbers, nothing, numbers]).equals(pa.array([1, 2, 1, 2]))
    assert concat_keys([numbers, words]).equals(pa.array(["1", "2", "a"]))
    assert len(concat_keys([])) == len(concat_keys([nothing])) == 0


def test_results_from_before_generations_belong_to_the_first():
    message = result_to_message(result(COUNTS))
    assert message.headers.pop("spojoin-generation") == b"1"
    assert progress(message.headers).generation == 1
    assert result_from_message(message.headers, message.value).generation == 1


# -- a message a row


def test_rows_as_messages_say_where_they_stand():
    messages = result_messages_rows(result(PAIRS, is_last=True), [b"a", b"b", b"c"], b"x/y", matches_before=5)
    assert [m.value for m in messages] == [b"a", b"b", b"c"]
    assert [progress(m.headers).place for m in messages] == [(10, 0), (10, 2**63 - 1), (12, 2**63 - 1)]
    assert [progress(m.headers).position for m in messages] == [3, 3, 5]
    assert [progress(m.headers).is_last for m in messages] == [False, False, True]
    assert progress(messages[-1].headers).matches == 8
    assert {m.headers["content-type"] for m in messages} == {b"x/y"}


def test_no_rows_are_one_message_without_a_value():
    [message] = result_messages_rows(result(EMPTY, is_last=True), [], b"x/y")
    assert message.value == b""
    assert progress(message.headers) == ResultProgress(7, 5, True, None)


@given(st.lists(st.integers(0, 3), max_size=6).map(sorted))
def test_places_ascend_and_end_each_probe(probes):
    rows = pa.RecordBatch.from_pydict({"probe_seq": pa.array(probes, pa.int64())})
    messages = result_messages_rows(result(rows), [b"v"] * len(probes), b"x/y")
    places = [progress(m.headers).place for m in messages] if probes else []
    assert places == sorted(set(places))
    ends = [at for at in range(len(probes)) if probes[at + 1 : at + 2] != [probes[at]]]
    assert [at for at, place in enumerate(places) if place[1] == 2**63 - 1] == ends


#: A user's columns may have any names and begin with anything.
SELECTED = pa.RecordBatch.from_pydict({"note": ["x", "y", "z"], "probe_seq": [5, 5, 5], "matches": [100, 100, 100]})


def selected(**changes):
    made = replace(result(SELECTED, is_last=True), probes=np.array([10, 10, 12]), matches=3)
    return replace(made, **changes)


def test_rows_of_a_select_list_are_placed_by_the_rows_that_answered():
    values = [b"a", b"b", b"c"]
    messages = result_messages_rows(selected(), values, b"x/y", 5, [b"k", None, b"l"])
    assert [progress(m.headers).place for m in messages] == [(10, 0), (10, 2**63 - 1), (12, 2**63 - 1)]
    assert [m.key for m in messages] == [b"k", None, b"l"]
    assert [m.value for m in messages] == values
    assert progress(messages[-1].headers).matches == 8
    assert not any("traceparent" in m.headers for m in messages)


def test_rows_by_key_all_have_their_numbers():
    made = selected(sinks=2, numbers=np.array([1, 4, 0]))
    found = [progress(m.headers) for m in result_messages_rows(made, [b"v"] * 3, b"x/y")]
    assert [at.place for at in found] == [(10, 1), (10, 4), (12, 0)]
    assert all(at.by_key and at.sinks == 2 for at in found)
    assert found[-1].following == (made.frame_id + 1, 0)
    assert decode(encode(replace(made, matches=0))).numbers.tolist() == [1, 4, 0]


def test_a_row_has_the_trace_of_its_probe():
    messages = result_messages_rows(selected(traces=pa.array(["t", "t", None])), [b"v"] * 3, b"x/y")
    assert [m.headers.get("traceparent") for m in messages] == [b"t", b"t", None]


def test_columns_of_a_select_list_are_never_counted():
    assert matches_of(selected()) == 3
    cut = selected(rows=SELECTED.select(["probe_seq", "note"]), matches=7)
    assert matches_of(cut) == 7  # more than the limit lists
    assert matches_of(selected(rows=SELECTED.slice(0, 0), probes=np.empty(0, np.int64), matches=0)) == 0
    assert progress(result_to_message(selected(), matches_before=1).headers).matches == 4


@pytest.mark.parametrize("traces", [None, pa.array(["t", None, "é"])])
def test_probes_and_traces_travel(traces):
    sent = selected(traces=traces, matches=0)
    found = decode(encode(sent))
    assert found.probes.tolist() == [10, 10, 12]
    assert (found.traces and found.traces.to_pylist()) == (traces and traces.to_pylist())
    assert found.rows.equals(SELECTED)


@pytest.mark.parametrize(
    "changes", [{"probes": np.array([1, 2])}, {"probes": np.array([3, 2, 4])}, {"traces": pa.array(["t"])}]
)
def test_probes_that_do_not_fit_are_refused(changes):
    with pytest.raises(WireError, match=r"probes|traces"):
        encode(selected(matches=0, **changes))
