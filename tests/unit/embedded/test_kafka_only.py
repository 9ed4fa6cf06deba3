"""Options that only messages of Kafka have a meaning for are refused with a sentence where rows are at hand."""

from __future__ import annotations

import pytest

import spojoin
from spojoin.cli.send import send_files
from spojoin.embedded.run import run as run_files
from spojoin.embedded.run_files import RunFiles
from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query
from spojoin.runtime.settings import load_settings

TEXT = """
name: q
streams: {s: {schema: {n: long}, OPTION}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.n < r.n WINDOW AS (SLIDE INTERVAL '1' ON '10')
"""
SENTENCES = {
    "envelope: after": "'envelope: after' is for messages that others write into Kafka",
    "time: record": "'time: record' is the timestamp that Kafka keeps with each record",
}


@pytest.mark.parametrize("option", SENTENCES)
def test_a_join_of_rows_at_hand(option):
    with pytest.raises(ConfigurationError, match=SENTENCES[option]):
        spojoin.Join(TEXT.replace("OPTION", option))


@pytest.mark.parametrize("option", SENTENCES)
def test_a_run_over_files(option, tmp_path):
    (tmp_path / "s.csv").write_text("n\n1\n")
    with pytest.raises(ConfigurationError, match=SENTENCES[option]):
        run_files(
            parse_query(TEXT.replace("OPTION", option)), RunFiles({"s": tmp_path / "s.csv"}, tmp_path / "out.jsonl")
        )


def test_files_are_not_sent_into_an_envelope(tmp_path):
    query = parse_query(TEXT.replace("OPTION", "envelope: after"))
    with pytest.raises(ConfigurationError, match=SENTENCES["envelope: after"]):
        send_files(query, {"s": tmp_path / "s.csv"}, load_settings(query_file=tmp_path / "q.yaml"))


def test_a_declared_column_named_record_is_a_column():
    join = spojoin.Join(TEXT.replace("n: long", "n: long, record: timestamp").replace("OPTION", "time: record"))
    assert join.push({"n": [1, 2], "record": ["2020-01-01", "2020-01-01"]}).num_rows >= 0
    join.close()


def test_files_are_not_sent_into_a_table(tmp_path):
    query = parse_query(
        "name: q\nstreams: {s: {schema: {n: long}}}\ntables: {t: {topic: t, schema: {m: long}}}\n"
        "sql: SELECT l.n FROM s AS l JOIN t AS r ON l.n < r.m\n"
    )
    with pytest.raises(ConfigurationError, match="t is a table, and the keys of its messages count"):
        send_files(query, {"s": tmp_path / "s.csv", "t": tmp_path / "t.csv"}, load_settings(query_file=tmp_path / "q"))
