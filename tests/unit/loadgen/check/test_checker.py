"""The checker must accept correct results and find each planted error in wrong ones."""

import numpy as np
import pyarrow as pa
import pytest

from loadgen.check import judging, ordering, rows
from loadgen.check.ordering import StreamRows
from loadgen.check.results import EarlyRecords, RecordChain, ResultRecord, accept
from loadgen.check.verdict import Verdict
from loadgen.window import window_of
from spojoin.query.load import parse_query

SELF = """
name: q
streams:
  s: {{schema: {{a: double, b: double}}, time: t, key: id}}
sql: |
  SELECT * FROM s AS l JOIN s AS r ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '5' ON '20')
order: {order}
output: {output}
"""
CROSS = """
name: q
streams:
  s: {{schema: {{a: double, b: double}}, time: t, key: id}}
  u: {{schema: {{a: double, b: double}}, time: t, key: id}}
sql: |
  SELECT * FROM s AS l JOIN u AS r ON l.a > r.a AND l.b < r.b
  WINDOW AS (SLIDE INTERVAL '5' ON '20')
order: {order}
output: {output}
"""


def source_rows(stream, n, partitions, seed):
    """Plain rows of a stream: dicts with place, time (s), key and values out of four distinct ones."""
    rng = np.random.default_rng(seed)
    return [
        {
            "partition": i % partitions,
            "offset": i // partitions,
            "time": int(i // 3),
            "id": f"{stream}{i}",
            "a": float(rng.integers(0, 4)),
            "b": float(rng.integers(0, 4)),
        }
        for i in range(n)
    ]


def as_stream_rows(query, number, plain):
    table = pa.table(
        {
            "partition": pa.array([r["partition"] for r in plain], pa.int32()),
            "offset": pa.array([r["offset"] for r in plain], pa.int64()),
            "row": pa.array([0] * len(plain), pa.int64()),
            "reasons": pa.array([r.get("reasons") for r in plain], pa.string()),
            "time_us": pa.array([r["time"] * 1_000_000 for r in plain], pa.int64()),
            "key": pa.array([r["id"] for r in plain], pa.string()),
            "k0": pa.array([r["a"] for r in plain], pa.float64()),
            "k1": pa.array([r["b"] for r in plain], pa.float64()),
        },
        schema=rows.parsed_schema(query.streams[number]),
    )
    return StreamRows.of(table, query.needs_time)


def joined(query, order):
    """(probe, as_left seqs, as_right seqs) of tuples in total order, each (stream, row), by the definition."""
    for t, (stream, row) in enumerate(order):
        target = 0 if query.is_self else 1 - stream
        earlier = [u for u in range(t) if order[u][0] == target]
        members = earlier[window_of(len(earlier), 20, 5)]
        left = [u for u in members if row["a"] > order[u][1]["a"] and row["b"] < order[u][1]["b"]]
        right = [u for u in members if row["a"] < order[u][1]["a"] and row["b"] > order[u][1]["b"]]
        yield t, left if query.is_self or stream == 0 else [], right if query.is_self or stream == 1 else []


class Case:
    """A query, its inputs, and the correct results as a list of rows that a test may damage."""

    def __init__(self, text, order, output, partitions=2, n=60):
        self.query = parse_query(text.format(order=order, output=output))
        self.sources = [source_rows(s.name, n, partitions, k) for k, s in enumerate(self.query.streams)]
        everything = [(k, row) for k, source in enumerate(self.sources) for row in source]
        if order == "event_time":
            self.order = sorted(everything, key=lambda e: (e[1]["time"], e[0], e[1]["partition"], e[1]["offset"]))
        else:
            # any interleaving that keeps each partition's order
            self.order = sorted(everything, key=lambda e: (e[1]["offset"], -e[1]["partition"], e[0]))
        self.rows = list(self._rows(output))

    def _rows(self, output):
        from pyroaring import BitMap64

        for seq, left, right in joined(self.query, self.order):
            stream, row = self.order[seq]
            if output == "count":
                counts = {"as_left": len(left), "as_right": len(right)} if self.query.is_self else {}
                name = self.query.streams[stream].name
                yield {"seq": seq, "stream": name, "key": row["id"], "matches": len(left) + len(right), **counts}
            elif output == "bitmap":
                yield {"seq": seq, "as_left": BitMap64(left).serialize(), "as_right": BitMap64(right).serialize()}
            else:
                for pair in sorted([(seq, u) for u in left] + [(u, seq) for u in right]):
                    keys = [self.order[s][1]["id"] for s in pair]
                    yield {
                        "probe_seq": seq,
                        "left_seq": pair[0],
                        "right_seq": pair[1],
                        "left_key": keys[0],
                        "right_key": keys[1],
                    }

    def verdict(self, sample=None, seed=0):
        streams = [as_stream_rows(self.query, k, plain) for k, plain in enumerate(self.sources)]
        return judging.judge(
            self.query, streams, pa.Table.from_pylist(self.rows), Verdict("q"), sample=judging.ProbeSample(sample, seed)
        )


CASES = [
    (SELF, "event_time", "count"),
    (CROSS, "event_time", "count"),
    (SELF, "arrival", "count"),
    (CROSS, "arrival", "count"),
    (SELF, "event_time", "pairs"),
    (CROSS, "event_time", "pairs"),
    (SELF, "event_time", "bitmap"),
    (CROSS, "event_time", "bitmap"),
]


@pytest.mark.parametrize(("text", "order", "output"), CASES)
def test_correct_results_are_exact(text, order, output):
    case = Case(text, order, output)
    verdict = case.verdict()
    assert verdict.is_exact, verdict
    assert verdict.tuples == verdict.probes_checked == len(case.order)
    assert verdict.matches == sum(len(left) + len(right) for _, left, right in joined(case.query, case.order)) > 100
    assert verdict.completeness == 1


@pytest.mark.parametrize(("text", "order", "output"), CASES)
@pytest.mark.parametrize("at", [0, 7, 30, -1])
def test_a_missing_row_is_found(text, order, output, at):
    case = Case(text, order, output)
    del case.rows[at]
    verdict = case.verdict()
    assert not verdict.is_exact
    assert verdict.completeness < 1
    assert verdict.first_difference


@pytest.mark.parametrize(("text", "order", "output"), CASES)
@pytest.mark.parametrize("at", [0, 30])
def test_a_doubled_row_is_found(text, order, output, at):
    case = Case(text, order, output)
    case.rows.insert(at, case.rows[at])
    verdict = case.verdict()
    assert verdict.duplicates == 1
    assert not verdict.is_exact
    assert verdict.completeness == 1
    assert "again" in verdict.first_difference or "more than once" in verdict.first_difference


@pytest.mark.parametrize(("text", "order", "output"), CASES)
def test_swapped_rows_are_found(text, order, output):
    case = Case(text, order, output)
    case.rows[20], case.rows[21] = case.rows[21], case.rows[20]
    verdict = case.verdict()
    assert verdict.misordered > 0
    assert not verdict.is_exact


@pytest.mark.parametrize(("text", "order"), [(t, o) for t, o, output in CASES if output == "count"])
@pytest.mark.parametrize("step", [1, -1])
def test_a_wrong_count_is_found(text, order, step):
    case = Case(text, order, "count")
    at = next(i for i, row in enumerate(case.rows) if i > 30 and row["matches"] > 0 and row.get("as_left", 1) > 0)
    wrong = case.rows[at] | {"matches": case.rows[at]["matches"] + step}
    if case.query.is_self:
        wrong["as_left"] += step
    case.rows[at] = wrong
    verdict = case.verdict()
    assert not verdict.is_exact
    assert verdict.false_positives == max(step, 0)
    assert verdict.rows_right == verdict.rows_expected - 1
    assert f"probe {at}:" in verdict.first_difference


@pytest.mark.parametrize(("text", "order"), [(SELF, "event_time"), (CROSS, "event_time")])
def test_an_extra_pair_is_found(text, order):
    case = Case(text, order, "pairs")
    have = {(r["left_seq"], r["right_seq"]) for r in case.rows}
    probe = 50
    stream = case.order[probe][0]
    others = [u for u in range(probe) if case.query.is_self or case.order[u][0] != stream]
    pairs = [(probe, u) if stream == 0 else (u, probe) for u in others]
    left, right = next(p for p in pairs if p not in have)
    keys = [case.order[s][1]["id"] for s in (left, right)]
    row = {"probe_seq": probe, "left_seq": left, "right_seq": right, "left_key": keys[0], "right_key": keys[1]}
    case.rows = sorted([*case.rows, row], key=lambda r: (r["probe_seq"], r["left_seq"], r["right_seq"]))
    verdict = case.verdict()
    assert verdict.false_positives == 1
    assert verdict.completeness == 1
    assert f"({left}, {right}) is wrong" in verdict.first_difference


@pytest.mark.parametrize(("text", "order", "output"), CASES)
def test_a_row_of_no_tuple_is_found(text, order, output):
    case = Case(text, order, output)
    name = "probe_seq" if output == "pairs" else "seq"
    row = dict(case.rows[-1])
    row[name] = len(case.order)
    if output == "pairs":
        row["left_seq"] = len(case.order)
    case.rows.append(row)
    verdict = case.verdict()
    assert verdict.false_positives > 0
    assert not verdict.is_exact


@pytest.mark.parametrize("text", [SELF, CROSS])
def test_an_order_that_breaks_a_partition_is_found(text):
    case = Case(text, "arrival", "count", partitions=1)
    a, b = case.rows[10], case.rows[11] if text is SELF else case.rows[12]
    a["key"], b["key"] = b["key"], a["key"]
    verdict = case.verdict()
    assert verdict.misordered > 0
    assert not verdict.is_exact


def test_a_wrong_key_is_found():
    case = Case(SELF, "event_time", "pairs")
    case.rows[40]["right_key"] = "nobody"
    verdict = case.verdict()
    assert verdict.misordered == 1
    assert "nobody" in verdict.first_difference


@pytest.mark.parametrize("text", [SELF, CROSS])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_keeps_the_earliest_partners(text, limit):
    case = Case(text + f"limit: {limit}\n", "event_time", "pairs")
    kept = {}
    for row in sorted(case.rows, key=lambda r: (r["probe_seq"], min(r["left_seq"], r["right_seq"]))):
        kept.setdefault(row["probe_seq"], []).append(row)
    cut = [row for found in kept.values() for row in found[:limit]]
    case.rows = sorted(cut, key=lambda r: (r["probe_seq"], r["left_seq"], r["right_seq"]))
    assert case.verdict().is_exact
    del case.rows[3]
    assert not case.verdict().is_exact


# --- the wire ---------------------------------------------------------------------------------------------------------


def message(frame, begin, end, last, seqs):
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"seq": pa.array(seqs, pa.int64())})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    headers = {"spojoin-frame": frame, "spojoin-begin": begin, "spojoin-end": end, "spojoin-last": int(last)}
    return ResultRecord({k: str(v).encode() for k, v in headers.items()}, sink.getvalue().to_pybytes())


def test_resent_records_are_dropped():
    first, second, third = message(0, 0, 2, False, [0, 1]), message(0, 2, 3, True, [2]), message(1, 0, 1, True, [3])
    accepted = accept([first, second, first, second, third, third])
    assert accepted.rows["seq"].to_pylist() == [0, 1, 2, 3]
    assert accepted.resent == 3
    assert accepted.gap is None


def test_a_gap_in_the_records_is_reported():
    accepted = accept([message(0, 0, 2, False, [0, 1]), message(1, 0, 1, True, [3])])
    assert accepted.rows["seq"].to_pylist() == [0, 1]
    assert "frame 0 from position 2" in accepted.gap


def of_two_sinks(frame, begin, end, last, seqs):
    plain = message(frame, begin, end, last, seqs)
    return plain._replace(headers={**plain.headers, "spojoin-sinks": b"2"})


def followed(messages):
    """What a chain has of records that come so, before and after they end."""
    chain = RecordChain()
    early = EarlyRecords(chain, chain.take)
    for each in messages:
        early.take(each)
    so_far = chain.tuples
    early.settle()
    return so_far, chain.accepted()


def test_a_record_of_another_partition_that_comes_early_waits_and_a_resent_one_is_dropped():
    first, second = of_two_sinks(0, 0, 1, False, [0]), of_two_sinks(0, 1, 2, True, [1])
    third, fourth = of_two_sinks(1, 0, 1, True, [2]), of_two_sinks(2, 0, 1, True, [3])
    so_far, accepted = followed([third, first, third, second, first, fourth])
    assert (so_far, accepted.rows["seq"].to_pylist()) == (4, [0, 1, 2, 3])
    assert (accepted.resent, accepted.gap) == (1, None)


def test_a_gap_between_partitions_is_reported_once_all_have_ended():
    so_far, accepted = followed([of_two_sinks(0, 0, 1, True, [0]), of_two_sinks(2, 0, 1, True, [2])])
    assert (so_far, accepted.rows["seq"].to_pylist()) == (1, [0])
    assert "frame 1 from position 0" in accepted.gap


# --- refused rows -----------------------------------------------------------------------------------------------------


def refused_case():
    query = parse_query(SELF.format(order="event_time", output="count"))
    plain = source_rows("s", 6, 1, 0)
    plain[2]["reasons"] = "null"
    plain[4]["reasons"] = "null nan"
    return as_stream_rows(query, 0, plain)


@pytest.mark.parametrize(
    ("dead", "wrong"),
    [
        ({(0, 2, 0): "null", (0, 4, 0): "nan"}, 0),
        ({(0, 2, 0): "null"}, 1),
        ({(0, 2, 0): "nan", (0, 4, 0): "nan"}, 1),
        ({(0, 2, 0): "null", (0, 4, 0): "nan", (0, 5, 0): "null"}, 1),
    ],
)
def test_dead_letters_are_compared(dead, wrong):
    verdict = Verdict("q")
    judging.compare_rejects("s", refused_case(), dead, verdict)
    assert verdict.rejects_wrong == wrong
    assert verdict.is_exact == (wrong == 0)


def test_late_rows_are_those_behind_their_own_partition():
    query = parse_query(SELF.format(order="event_time", output="count"))
    plain = source_rows("s", 8, 2, 0)
    for row, time in zip(plain, [5, 0, 3, 1, 4, 1, 6, 9], strict=True):
        row["time"] = time
    found = as_stream_rows(query, 0, plain)  # partition 0: 5 3 4 6, partition 1: 0 1 1 9
    assert ordering.late_rows(found, 0).tolist() == [False, True, True, False, False, False, False, False]
    assert ordering.late_rows(found, 1_000_000).tolist() == [False, True] + [False] * 6
    assert not ordering.late_rows(found, 2_000_000).any()
