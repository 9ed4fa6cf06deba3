"""Headers of records in a statement's filter, key expression, select list and trace, in every format."""

import io

import pyarrow as pa
import pytest

from spojoin.model import TRACE
from spojoin.query.load import parse_query
from spojoin.reading.parse import parse_messages
from tests.support.messages import InputMessage

QUERY = """
name: q
streams: {s: {schema: {n: long}}}
sql: |
  SELECT l.headers['tenant'] AS tenant FROM s AS l JOIN s AS r
  ON l.n < r.n AND length(l.headers['region']) = length(r.headers['region'])
  WHERE l.headers['kind'] = 'a' AND r.headers['kind'] = 'a'
  WINDOW AS (SLIDE INTERVAL '1' ON '10')
trace: true
"""
KINDS = ["a", "b", "a", None, "a"]


def headers(at):
    said = {"kind": KINDS[at], "region": "x" * at, "tenant": f"t{at}", "traceparent": f"p{at}" if at else None}
    return [(name, value.encode()) for name, value in said.items() if value is not None]


def arrow(number):
    out = io.BytesIO()
    batch = pa.RecordBatch.from_pydict({"n": [number]})
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()


@pytest.mark.parametrize("write", [lambda n: b'{"n": %d}' % n, lambda n: b"%d" % n, arrow])
def test_headers_of_each_message(write):
    query = parse_query(QUERY)
    (stream,) = query.inputs
    messages = [InputMessage(at, 0, write(at), headers(at)) for at in range(len(KINDS))]
    rows = parse_messages(stream, False, 0, 0, messages)
    assert rows.dead == []
    taken = [at for at, kind in enumerate(KINDS) if kind == "a"]
    assert [at for at, member in enumerate(rows.members.tolist()) if member] == taken
    assert rows.codes[1][taken].tolist() == taken
    payload = rows.payload.to_pydict()
    assert payload[TRACE] == [None, "p1", "p2", "p3", "p4"]
    assert [dict(each)["tenant"] for each in payload["headers"]] == [f"t{at}" for at in range(len(KINDS))]


def test_a_statement_without_headers_never_reads_them():
    plain = parse_query(QUERY.replace("trace: true", "").replace("l.headers['tenant'] AS tenant", "l.n").replace(
        " AND length(l.headers['region']) = length(r.headers['region'])", "").replace(
        "WHERE l.headers['kind'] = 'a' AND r.headers['kind'] = 'a'", ""))  # fmt: skip
    (stream,) = plain.inputs
    assert parse_messages(stream, False, 0, 0, [InputMessage(0, 0, b"1", headers(0))]).payload.schema.names == ["n"]
