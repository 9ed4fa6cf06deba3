"""Estimates the bytes that a row and a match take in Kafka, from the columns of records, uncompressed.

Each topic holds them until its role trims them before the recovery point; results stay as long as Kafka keeps them.
"""

from __future__ import annotations

from typing import NamedTuple

from spojoin.explain.footprint import (
    CODE_BYTES,
    KEY_BYTES,
    MUTABLE_RANK_BYTES,
    SEQ_BYTES,
    TIME_BYTES,
    SetupSizes,
    payload_bytes,
)
from spojoin.model import Query, Stream
from spojoin.protocol.topology import Topic
from spojoin.search_plan import SearchPlan

#: What Kafka adds to a record: batch headers and transaction markers, which records that come together share.
KAFKA_BYTES = 80
#: A record's prefix and the numbers in its header; and for each array, its entry in the directory and its padding.
RECORD_BYTES, ARRAY_BYTES = 60, 8
#: An Arrow table, and each of its columns.
ARROW_BYTES, ARROW_COLUMN_BYTES = 250, 150
#: Headers of a message of results.
RESULT_HEADER_BYTES = 300


class TopicBytes(NamedTuple):
    """What a topic takes for a row, including its share of the frame's own bytes, and for a match."""

    row: float
    match: float = 0


class _Estimate(NamedTuple):
    """What a topic takes for a row, for a match, and in addition for a frame."""

    row: float
    match: float = 0
    frame: float = 0


def topic_bytes(query: Query, topic: Topic, sizes: SetupSizes, frame_rows: float) -> TopicBytes | None:
    """A topic's bytes with `frame_rows` rows per frame; in small frames, the frame's own bytes are nearly all.

    Results are taken to be Arrow messages, the default. None for topics whose size doesn't depend on rows.
    """
    estimate = {
        Topic.FRAMES: _frames,
        Topic.RUNS: _runs,
        Topic.BATCHES: _batches,
        Topic.PARTIALS: _partials,
        Topic.MATCHES: _matches,
        Topic.RESULTS: _results,
    }.get(topic)
    if estimate is None:
        return None
    found = estimate(query, sizes, frame_rows)
    return TopicBytes(found.row + found.frame / frame_rows, found.match)


def _mean(query: Query, each: list[float]) -> float:
    """The mean over the streams, as if their rows came equally often."""
    return sum(each) / len(query.streams)


def _times(query: Query) -> int:
    return TIME_BYTES if query.needs_time else 0


def _frames(query: Query, sizes: SetupSizes, _: float) -> _Estimate:
    bound = 0 if query.window.has_slides_of(sizes.batch_tuples) else SEQ_BYTES
    own = MUTABLE_RANK_BYTES + bound + KEY_BYTES + _times(query)
    row = _mean(query, [own + CODE_BYTES * len(each.keys) + payload_bytes(each) for each in query.streams])
    arrays = sum(5 + len(each.keys) for each in query.streams)
    tables = sum(_table(each) for each in query.streams)
    head = KAFKA_BYTES + RECORD_BYTES * (1 + len(query.streams)) + ARRAY_BYTES * arrays + tables
    return _Estimate(row, frame=head)


def _table(stream: Stream) -> int:
    return ARROW_BYTES + ARROW_COLUMN_BYTES * len(stream.payload) if stream.payload else 0


def _carried(query: Query, stream: Stream) -> float:
    return SEQ_BYTES + KEY_BYTES + _times(query) + payload_bytes(stream)


def _sorted(columns: int) -> int:
    return columns * (CODE_BYTES + MUTABLE_RANK_BYTES)


def _runs(query: Query, _sizes: SetupSizes, _: float) -> _Estimate:
    return _Estimate(_mean(query, [_sorted(len(s.keys)) + _carried(query, s) for s in query.streams]))


def _batches(query: Query, _sizes: SetupSizes, _: float) -> _Estimate:
    permutation = MUTABLE_RANK_BYTES * (len(query.predicates) > 1)
    return _Estimate(_mean(query, [_sorted(len(s.keys)) + permutation + _carried(query, s) for s in query.streams]))


def _probes(query: Query) -> float:
    """How often a row searches; in a self join, rows search in both directions."""
    return len(query.directions) / len(query.streams)


def _partials(query: Query, sizes: SetupSizes, frame_rows: float) -> _Estimate:
    """For each predicate, the ranks of mutable tuples (half a batch and those being handed over) and of probes."""
    batch = min(sizes.batch_tuples, sizes.batch_frames * frame_rows)
    mutable = batch / 2 + sizes.handover_frames * frame_rows
    joiners, directions = len(query.predicates), len(query.directions)
    heads = joiners * (KAFKA_BYTES + RECORD_BYTES + 3 * ARRAY_BYTES * directions)
    ranks = joiners * directions * MUTABLE_RANK_BYTES * mutable
    return _Estimate(2 * joiners * _probes(query) * MUTABLE_RANK_BYTES, frame=ranks + heads)


def _matches(query: Query, sizes: SetupSizes, _: float) -> _Estimate:
    """The mutable part and each column of workers count every probe's matches, and list them if results need them."""
    parts, directions = 1 + sizes.columns, len(query.directions)
    lists = any(map(SearchPlan(query).lists_matches, query.directions))
    heads = parts * (KAFKA_BYTES + RECORD_BYTES + 3 * ARRAY_BYTES * directions)
    return _Estimate(parts * _probes(query) * SEQ_BYTES * (1 + lists), SEQ_BYTES * lists, heads)


def _results(query: Query, _sizes: SetupSizes, _: float) -> _Estimate:
    """A row's counts in each direction; or each match, with the names of both rows and the selected columns."""
    plan = SearchPlan(query)
    is_listed = plan.lists_pairs or bool(plan.choices)
    named = 2 * (SEQ_BYTES + KEY_BYTES)
    payload = sum(payload_bytes(each) for each in (query.streams[0], query.streams[-1]))
    columns = sum(len(each.payload) for each in (query.streams[0], query.streams[-1])) or named // SEQ_BYTES
    head = KAFKA_BYTES + RESULT_HEADER_BYTES + ARROW_BYTES + ARROW_COLUMN_BYTES * columns
    each = payload if plan.has_pair_payload else named
    return _Estimate(0, each, head) if is_listed else _Estimate(named, frame=head)
