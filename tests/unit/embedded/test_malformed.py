"""A line that is no row takes no part in a join, whatever columns the statement reads, and wherever it stands."""

import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spojoin
from spojoin.cli.send import Sent
from spojoin.embedded import file_reader
from spojoin.embedded.inputs import open_inputs
from spojoin.embedded.sql import Results
from spojoin.query.load import parse_query

CSV_LINES = {
    "": b"%d,%d,x",
    "short": b"%d,%d",
    "long": b"%d,%d,x,y",
    "comment": b"# %d of %d",
    "page": b"<html>%d %d",
    "Latin-1": b"%d,%d,M\xfcller",
    "no byte of UTF-8": b"\xff%d,%d,x",
}
JSON_LINES = {
    "": b'{"id": %d, "v": %d, "note": "x"}',
    "cut": b'{"id": %d, "v": %d, "note": "x',
    "two": b'{"id": %d, "v": %d}{"id": 1, "v": 1}',
    "twice": b'{"id": %d, "v": %d, "v": 1}',
    "array": b"[%d, %d]",
    "null": b"null,%d,%d",
    "Latin-1": b'{"id": %d, "v": %d, "note": "M\xfcller"}',
    "comment": b"// %d of %d",
    "half a character": b'{"id": %d, "v": %d, "note": "\\ud800"}',
}
LINES = {".csv": CSV_LINES, ".jsonl": JSON_LINES}
HEADS = {".csv": b"id,v,note\n", ".jsonl": b""}

drawn = st.sampled_from(list(LINES)).flatmap(
    lambda suffix: st.tuples(
        st.just(suffix), st.lists(st.tuples(st.sampled_from(["", "", *LINES[suffix]]), st.integers(0, 4)), min_size=1)
    )
)


def written(folder: Path, suffix: str, kinds: list[tuple[str, int]]) -> tuple[Path, list[tuple[int, int]]]:
    """A file of a line of each kind, and the rows that are whole."""
    path = folder / f"t{suffix}"
    first = LINES[suffix][""] % (0, 2)
    lines = [first, *(LINES[suffix][kind] % (at, value) for at, (kind, value) in enumerate(kinds, 1))]
    path.write_bytes(HEADS[suffix] + b"\n".join(lines))
    return path, [(0, 2), *((at, value) for at, (kind, value) in enumerate(kinds, 1) if not kind)]


def quietly(results: Results) -> list[dict[str, int]]:
    """The rows, without the warning of refused ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return results.to_arrow().to_pylist()


@settings(max_examples=80, deadline=None)
@given(drawn=drawn, block=st.integers(120, 400))
def test_rows_are_those_of_the_whole_lines_alone(tmp_path_factory, drawn, block):
    path, rows = written(tmp_path_factory.mktemp("drawn"), *drawn)
    table = [(0, 1), (1, 3)]
    results = spojoin.sql(
        f"SELECT l.id, r.v FROM '{path}' AS l LEFT JOIN TABLE(t) AS r ON l.v > r.v",
        t=pa.table({"v": [v for _, v in table]}),
        max_rejects="100%",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "BLOCK_BYTES", block)
        found = [(row["id"], row["v"]) for row in quietly(results)]
    pairs = [(id_, [r for _, r in table if v > r] or [None]) for id_, v in rows]
    assert sorted(found, key=str) == sorted([(id_, r) for id_, joined in pairs for r in joined], key=str)
    left_out = 1 + len(drawn[1]) - len(rows)
    assert dict(results.rejected) == ({"malformed": left_out} if left_out else {})


@settings(max_examples=40, deadline=None)
@given(drawn=drawn)
def test_malformed_lines_take_no_place_in_a_window(tmp_path_factory, drawn):
    path, rows = written(tmp_path_factory.mktemp("drawn"), *drawn)
    found = quietly(
        spojoin.sql(
            f"SELECT l.id, r.id AS other FROM '{path}' AS l JOIN '{path}' AS r ON l.v > r.v "
            "WINDOW AS (SLIDE INTERVAL '1' ON '2')",
            max_rejects="100%",
        )
    )
    near = [pair for at, b in enumerate(rows) for a in rows[max(at - 2, 0) : at] for pair in ((a, b), (b, a))]
    assert sorted((row["id"], row["other"]) for row in found) == sorted((a[0], b[0]) for a, b in near if a[1] > b[1])


@pytest.mark.parametrize("suffix", list(LINES))
def test_a_malformed_line_of_a_table_is_refused_as_well(tmp_path, suffix):
    path, _ = written(tmp_path, suffix, [("", 1), ("comment", 1)])
    results = spojoin.sql(f"SELECT l.v, r.id FROM a AS l JOIN TABLE('{path}') AS r ON l.v > r.v", a={"v": [2]})
    with pytest.warns(UserWarning, match=r"1 of 4 rows refused: 1 malformed \(first: t, position 2: the line is no "):
        assert results.to_arrow().to_pylist() == [{"v": 2, "id": 1}]


@pytest.mark.parametrize("suffix", list(LINES))
def test_what_is_sent_are_the_whole_lines(tmp_path, suffix):
    kinds = list(LINES[suffix])[1:]
    path, rows = written(tmp_path, suffix, [(kind, 1) for kind in [*kinds, ""]])
    query = parse_query(
        """
        name: q
        streams: {t: {schema: {id: long, v: long, note: string}}}
        sql: SELECT * FROM t AS l JOIN t AS r ON l.v > r.v WINDOW AS (SLIDE INTERVAL '1' ON '10')
        """
    )
    (file,), sent, found = open_inputs(query, {"t": path}), Sent({}), []
    while (batch := file.read()) is not None:
        found += sent.leave_out(file, batch).to_pylist()
    assert [int(row["v"]) for row in found] == [v for _, v in rows]
    assert sent.malformed == len(kinds)
    assert sent.first.startswith("t, position 1: the line is no ")
