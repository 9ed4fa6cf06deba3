"""Which version of a table each row is answered about, as the checker learns it from a real router's log."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from loadgen.check import ordering, rows
from loadgen.check.ordering import NOBODY, Ordered, Place, StreamRows
from loadgen.check.table_log import LOG_MESSAGE, FrameHead, accepted, read_log
from loadgen.check.table_order import TableLog, ordered_by_log
from loadgen.check.table_versions import TOPIC_SCHEMA, FileVersions, TopicVersions
from loadgen.check.verdict import Verdict
from spojoin.errors import ConfigurationError
from spojoin.query.load import parse_query
from tests.support.long import first_of
from tests.support.routed_table import Keyed, RoutedTable

QUERY = parse_query("""
name: q
streams: {s: {schema: {a: long}}}
tables: {t: {topic: tiers, schema: {b: long}, refresh: 5 s}}
sql: SELECT l.a, r.b FROM s AS l LEFT JOIN t AS r ON l.a < r.b AND r.b > 0
""")


def parsed(messages: Sequence[Keyed], number: int) -> StreamRows:
    """As the checker reads messages; what Spark evaluates is evaluated here."""
    stream = QUERY.inputs[number]
    given = [{"partition": 0, "offset": each.offset, "value": each.value} for each in messages if each.value]
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
    batches = list(rows.parse([pa.RecordBatch.from_pylist(given, schema)], stream, list(stream.schema), False))
    table = pa.Table.from_batches(batches)
    if number == 1:
        values = table["k0"].to_pylist()
        table = table.append_column("f0", pa.array([value is not None and value > 0 for value in values]))
    return StreamRows.of(table, False)


def topic_table(messages: Sequence[Keyed], letters: dict[Place, str] | None = None) -> TopicVersions:
    given = [
        {"partition": 0, "offset": each.offset, "key": each.key, "crc": zlib.crc32(each.value or b"")}
        for each in messages
    ]
    return TopicVersions("tiers", pa.Table.from_pylist(given, TOPIC_SCHEMA), parsed(messages, 1), letters or {})


def heads_of(routed: RoutedTable) -> list[FrameHead]:
    batch = pa.RecordBatch.from_pylist(routed.encoded(), pa.schema([("offset", pa.int64()), ("value", pa.binary())]))
    assert tuple(batch.schema.names) == LOG_MESSAGE
    return accepted(row for found in read_log([batch]) for row in found.to_pylist())


def order(
    routed: RoutedTable, changes: Sequence[Keyed] | None = None, first: int = 0
) -> tuple[Ordered, list[list[int]], Verdict]:
    """The order by the log from its frame `first` on, and of each row the b of all rows that it may find."""
    heads = heads_of(routed)
    table = topic_table(routed.changes if changes is None else changes)
    answers = {head.frame_id: head.answers for head in heads}
    verdict = Verdict("q")
    (lefts,) = ordering.numbered(parse_query(LEFT_ALONE), [parsed(routed.rows, 0)])
    ordered, rights = ordered_by_log(QUERY, TableLog(heads[first:], table, answers), len(lefts), verdict)
    assert ordered.windows is not None
    values = rights.table["k0"].to_pylist()
    return ordered, [values[a:b] for a, b in zip(*(each.tolist() for each in ordered.windows), strict=True)], verdict


LEFT_ALONE = """
name: q
streams: {s: {schema: {a: long}}}
sql: SELECT * FROM s AS l JOIN s AS r ON l.a < r.a WINDOW AS (SLIDE INTERVAL '1' ON '9')
"""


def row(name: str, value: int) -> bytes:
    return json.dumps({name: value}).encode()


@pytest.mark.parametrize("seed", first_of(20, range(60)))
def test_each_row_has_the_version_that_was_loaded_last(seed: int) -> None:
    rng = Random(f"table order {seed}")
    routed, expected, state = RoutedTable(QUERY, rng.choice((1, 3, 8))), [], {}
    loaded: list[int] = []
    for step in range(rng.randrange(4, 20)):
        for _ in range(rng.choice((0, 0, 1, 5, 20))):
            key, value = rng.choice("abcdefgh"), rng.choice((None, *range(-2, 9)))
            routed.change(key.encode(), None if value is None else row("b", value))
            state.pop(key, None)
            if value is not None:
                state[key] = value
        if step == 0 or rng.random() < 0.5:
            routed.load()
            loaded = [value for value in state.values() if value > 0]
        if rng.random() < 0.2:
            zombie = routed.start()
            routed.take(zombie, [Keyed(len(routed.rows), None, row("a", -7))])
            routed.load()
            loaded = [value for value in state.values() if value > 0]
        values = [rng.randrange(9) for _ in range(rng.choice((0, 1, 3, 9)))]
        if values:
            routed.feed([row("a", value) for value in values])
        expected += [loaded] * len(values)
    routed.load()
    ordered, found, verdict = order(routed)
    assert (found, verdict.first_difference) == (expected, None)
    lefts = [seq for head in heads_of(routed) if head.answers for seq in range(head.first_seq, head.end)]
    assert [seq for seq, of in enumerate(ordered.stream.tolist()) if of == 0] == lefts


def loaded_twice() -> RoutedTable:
    routed = RoutedTable(QUERY)
    for key, value in (("x", 1), ("y", 2), ("z", 3), ("u", 4), ("v", 5)):
        routed.change(key.encode(), row("b", value))
    routed.load()
    routed.feed([row("a", 0)] * 6)
    routed.change(b"y", None)
    routed.change(b"x", row("b", 7))
    routed.load()
    routed.feed([row("a", 0)] * 3)
    return routed


def test_a_part_of_a_version_that_a_router_left_behind_is_nobodys() -> None:
    routed = loaded_twice()
    for number in range(9):
        routed.change(b"%d" % number, row("b", 10 + number))
    written = len(routed.log)
    routed.load()
    assert len(routed.log) > written + 2
    del routed.log[written + 2 :]
    routed.start()
    routed.load()
    routed.feed([row("a", 0)])
    ordered, found, verdict = order(routed)
    assert found[-1] == [3, 4, 5, 7, *range(10, 19)]
    assert (ordered.stream == NOBODY).sum() == 8
    assert verdict.first_difference is None


def test_a_log_that_begins_behind_rows_about_an_older_version_is_refused() -> None:
    routed = loaded_twice()
    begins = next(at for at, head in enumerate(heads_of(routed)) if head.named is not None and head.named.first > 0)
    with pytest.raises(ConfigurationError, match=r"begins at frame \d+, and no longer tells .* the 6 rows"):
        order(routed, first=begins)


def test_messages_that_compaction_took_away_are_missed_in_a_sentence() -> None:
    routed = loaded_twice()
    compacted = [each for each in routed.changes if each.offset not in (0, 1)]
    with pytest.raises(ConfigurationError, match=r"read to 0:5, can't be told any more.*min\.compaction\.lag\.ms"):
        order(routed, compacted)


def test_a_version_that_the_topic_never_had_is_a_difference() -> None:
    routed = loaded_twice()
    other = [each._replace(value=row("b", 6)) if each.offset == 1 else each for each in routed.changes]
    assert "isn't what the topic holds up to there" in str(order(routed, other)[2].first_difference)


def test_changes_that_no_version_has_are_a_difference() -> None:
    routed = loaded_twice()
    routed.change(b"w", row("b", 9))
    assert "was read to 0:7 for the log's last version, and has changed" in str(order(routed)[2].first_difference)


def test_a_file_that_is_no_longer_the_table_is_asked_for(tmp_path) -> None:
    routed = loaded_twice()
    (tmp_path / "tiers.csv").write_text("b\n1\n")
    table = FileVersions([[tmp_path / "tiers.csv"]], parsed(routed.changes, 1))
    log = TableLog(heads_of(routed), table, {})
    with pytest.raises(ConfigurationError, match=r"tiers\.csv isn't: name the file as it was then by --table-file"):
        ordered_by_log(QUERY, log, 9, Verdict("q"))
