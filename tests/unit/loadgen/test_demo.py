import json
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from loadgen.demo import page
from loadgen.demo.follower import Follower, OutputMark, OutputTrace
from loadgen.demo.jobs import JOBS, answered, answers_due, chosen_jobs, numbered, rows_until_full
from loadgen.demo.play import QueryOutcome
from spojoin.errors import ConfigurationError
from spojoin.model import EmitOn, Order, Output
from spojoin.ports.interfaces import LogPartition
from spojoin.ports.memory import MemoryLog
from spojoin.protocol.topology import input_topic
from spojoin.query.load import parse_query
from spojoin.wire.records import Result
from spojoin.wire.results import result_to_message

CROSS = """
name: cross
streams:
  x: {{schema: {{a: int}}, time: ts}}
  y: {{schema: {{a: int}}, time: ts}}
sql: SELECT * FROM x AS l JOIN y AS r ON l.a < r.a WINDOW AS ({window})
order: event_time
"""


def test_each_job_is_a_valid_query_over_flights():
    def flights(by_time, origin):
        assert by_time == (query.order.by is Order.EVENT_TIME)
        names = [
            "flight_id",
            "carrier",
            "origin",
            "dest",
            "dep_delay",
            "arr_delay",
            "air_time",
            "distance",
            "time_hour",
        ]
        return pa.table({name: pa.nulls(1) for name in names})

    for job in JOBS:
        query = job.query()
        assert query.name == job.name
        assert query.results.output is Output.ROWS
        tables = job.tables(flights)
        assert set(tables) == {stream.name for stream in query.inputs}
        assert all(len(set(table.column_names)) == table.num_columns for table in tables.values())
    assert {job.query().is_self for job in JOBS} == {True, False}
    assert any(job.query().window.needs_time for job in JOBS)
    assert any(job.query().residuals for job in JOBS)
    assert any(job.query().shares_input for job in JOBS)
    assert any(stream.filter for job in JOBS for stream in job.query().streams)
    assert any(job.query().answers.emit is EmitOn.CLOSE for job in JOBS)


FILTERED = """
name: filtered
streams:
  x: {schema: {a: int, town: string}}
sql: |
  SELECT l.a FROM x AS l JOIN x AS r ON l.a < r.a WHERE l.a <> 2 AND r.town = 'Ulm'
  WINDOW AS (SLIDE INTERVAL '1' ON '2')
"""


def test_rows_that_pass_a_filter_are_numbered_and_fill_windows():
    query = parse_query(FILTERED)
    tables = {"x": pa.table({"a": [2, 2, None, 2, 1, 2, 3], "town": ["Ulm", None, "Ulm", "Aal", "Aal", "Ulm", "Ulm"]})}
    found = numbered(tables, query)["x"].to_pylist()
    assert [(row["a"], row["town"]) for row in found] == [(2, "Ulm"), (None, "Ulm"), (1, "Aal"), (2, "Ulm"), (3, "Ulm")]
    assert rows_until_full(tables, query) == 5


CLOSING = """
name: closing
streams:
  x: {schema: {a: int, at: timestamp}, time: at}
  y: {schema: {a: int, at: timestamp}, time: at}
sql: |
  SELECT l.a FROM x AS l ANTI JOIN y AS r
  ON l.a < r.a AND r.at BETWEEN l.at - INTERVAL '1 min' AND l.at + INTERVAL '3 min'
  WHERE l.a > 0
  EMIT ON CLOSE
"""


def test_left_rows_alone_are_answered_once_event_time_has_passed_their_partners():
    query = parse_query(CLOSING)
    x = pa.table({"a": [1, 0, 1, 1, 1], "at": [0, 60_000, 60_000, 120_000, 600_000]})
    tables = {"x": x, "y": pa.table({"a": [1], "at": [5]})}
    assert answered(tables, query) == 4
    due = [answers_due(tables, query, 4, minutes * 60_000) for minutes in (0, 3, 4, 5, 100)]
    assert due == [0, 0, 1, 2, 4]
    arrival = parse_query(CLOSING.replace("CLOSE", "ARRIVAL"))
    assert answers_due(tables, arrival, 3, 0) == 3


def result(frame, begin, end, is_last, produced_ms, runs):
    rows = pa.record_batch({"seq": range(begin, end), "matches": [2] * (end - begin)})
    arrays = np.array(produced_ms, np.int64), np.array(runs, np.uint32)
    return result_to_message(Result(frame, begin, end, is_last, rows, *arrays))


def test_a_follower_counts_tuples_matches_latencies_and_refused_rows():
    query = parse_query(CROSS.format(window="SLIDE INTERVAL '1' ON '2'"))
    log = MemoryLog()
    log.create_topics({"cross.results": 1, "in.x.dlq": 1, "in.y.dlq": 1})
    writer = log.writer()
    first = result(0, 0, 3, False, [100, 200], [2, 3])
    for message, at_ms in ((first, 300), (first, 301), (result(0, 3, 5, True, [100, 200], [2, 3]), 400)):
        writer.append(LogPartition("cross.results", 0), message.value, tuple(message.headers.items()), at_ms)
    writer.append(LogPartition("in.y.dlq", 0), b"", (), 1)
    writer.flush(1.0)
    follower = Follower(log, query, [input_topic(stream.name) for stream in query.inputs])
    for source in ("cross.results", "in.x.dlq", "in.y.dlq"):
        follower._reader.open(LogPartition(source, 0), 0)
    follower._take(follower._reader.poll(100, 0.0))
    assert follower.trace.marks == [OutputMark(300, 3, 6, 0), OutputMark(400, 5, 10, 0)]
    assert follower.trace.latency_ms().tolist() == [200, 200, 100, 200, 200]
    assert follower.trace.latency_ms(3).tolist() == [200, 200]
    assert follower.trace.refused == 1


def trace_of(marks):
    trace = OutputTrace()
    trace.marks = [OutputMark(ms, tuples, 0, 0) for ms, tuples in marks]
    trace.latencies_ms = [np.arange(1.0, 101.0)]
    return trace


def outcome(is_exact):
    verdict = SimpleNamespace(
        as_json=lambda: {
            "tuples": 100,
            "rejected": {"null": 2},
            "matches": 5,
            "completeness": 1.0,
            "false_positives": 0,
            "duplicates": 0,
            "misordered": 0,
            "rejects_wrong": 0,
            "probes_checked": 100,
            "is_exact": is_exact,
            "first_difference": None if is_exact else "probe 3: <wrong>",
        }
    )
    return QueryOutcome(JOBS[0], JOBS[0].query(), verdict, trace_of([(0, 0), (1000, 60), (2000, 100)]), {}, 0, 60, 2.0)


def page_text(folder, *outcomes, said=()):
    report = {"machine": {"cores": 2, "system": "x", "python": "3"}, "seconds": 1.0}
    report["queries"] = [each.report() for each in outcomes]
    json.dumps(report)
    proof = page.proved(report["queries"]), page.is_proved(report["queries"])
    page.write_page(folder / "report.html", report, [proof, *said], outcomes)
    return (folder / "report.html").read_text()


def test_a_page_needs_nothing_from_outside(tmp_path):
    text = page_text(tmp_path, outcome(is_exact=True), outcome(is_exact=False))
    assert "probe 3: &lt;wrong&gt;" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
    assert '"displayModeBar": false' in text, "plotly's buttons would cover a title"


def test_a_pages_first_sentence_states_what_was_proved(tmp_path):
    text = page_text(tmp_path, outcome(is_exact=True), outcome(is_exact=True))
    (first,) = re.findall(r"</h1><p class='right'>(.*?)</p>", text)
    assert first.startswith("Proved: completeness 1, no false positive and no duplicate in 2 joins")
    assert "all 200 rows, 10 matches" in first
    text = page_text(tmp_path, outcome(is_exact=True), outcome(is_exact=False))
    (first,) = re.findall(r"</h1><p class='wrong'>(.*?)</p>", text)
    assert first == f"Not proved: {JOBS[0].path.stem} of 2 joins are not what PySpark recomputed."
    assert "Not proved" in page.proved([])


def test_one_query_in_both_packings_is_played_unless_others_are_asked_for():
    usual = chosen_jobs()
    assert len(usual) == len({job.packing for job in usual}) == 2
    assert len({job.file for job in usual}) == 1
    assert chosen_jobs(is_all=True) == list(JOBS)
    assert [job.name for job in chosen_jobs(["unbeaten-flights"])] == ["unbeaten-flights"]
    with pytest.raises(ConfigurationError, match="--only what: there is no such query; expected one of farther"):
        chosen_jobs(["what"])
