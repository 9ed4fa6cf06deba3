"""Planted bugs in statements' features: filters, residual conditions, texts, NULL, payload; each must be found."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from loadgen.simulate.mutants import Mutant, Patches, planted
from spojoin.arrays import I64, U8
from spojoin.columns import extract
from spojoin.columns.codes import CodeColumn
from spojoin.columns.extract import Extractor, SideValues
from spojoin.columns.stream_columns import is_assigned
from spojoin.roles.router.queue import Origins, has_stream_bit
from spojoin.roles.router.slicing import FrameRows, Slicer
from spojoin.roles.router.stream_book import StreamBook
from spojoin.roles.router.value_numbers import ValueNumbers
from spojoin.roles.sink.closed_rows import Residual
from spojoin.roles.sink.history import HeldRows, History
from spojoin.roles.sink.pairs import PairProgram, SeqPairs
from spojoin.search_plan import SearchPlan
from spojoin.wire.records import Matches

STATEMENT_MUTANTS: dict[str, Mutant] = {}
Bits = tuple[U8 | None, U8 | None]
_mutant = partial(planted, STATEMENT_MUTANTS)


# --- rows -------------------------------------------------------------------------------------------------------------


@_mutant("filter-after-numbering", "a row that fails its side's filter takes a number and a place, and joins nothing")
def _filter_after_numbering() -> Patches:
    flags = Extractor._flags

    def numbered(self: Extractor, made: list[CodeColumn], evaluation: SideValues) -> Bits:
        members, joins = flags(self, made, evaluation)
        everywhere = sum(1 << member.stream for member in self._fed)
        return None if members is None else np.full_like(members, everywhere), joins

    return [patch.object(Extractor, "_flags", numbered)]


@_mutant("null-is-true-in-a-filter", "a row whose filter is NULL passes it")
def _null_is_true_in_a_filter() -> Patches:
    def is_true(values: pa.Array) -> np.ndarray:
        return np.asarray(values.fill_null(True).to_numpy(zero_copy_only=False), np.bool_)

    return [patch.object(extract, "_is_true", is_true)]


@_mutant("null-equals-null", "a row with a NULL joins by a value that all NULLs share")
def _null_equals_null() -> Patches:
    flags = Extractor._flags

    def joining(self: Extractor, made: list[CodeColumn], evaluation: SideValues) -> Bits:
        members, joins = flags(self, made, evaluation)
        has_texts = any(is_assigned(key) for key in self._stream.keys)  # NULL among texts has no number to share
        return members, joins if has_texts else members

    return [patch.object(Extractor, "_flags", joining)]


@_mutant("void-rows-without-a-place", "a row with a NULL takes no place in windows by count")
def _void_rows_without_a_place() -> Patches:
    take = Slicer.take_rows

    def counting_indexes(self: Slicer, origins: Origins) -> FrameRows:
        taken = take(self, origins)
        joining = [has_stream_bit(origins.joins, stream) for stream in range(len(self._books))]
        taken.places = [b.count + np.cumsum(own) - own for b, own in zip(self._books, joining, strict=True)]
        return taken

    return [
        patch.object(Slicer, "take_rows", counting_indexes),
        patch.object(StreamBook, "next_place", property(lambda self: self.count)),
    ]


# --- texts ------------------------------------------------------------------------------------------------------------


@_mutant("hash-for-a-name", "a text's number is a short hash of it, so that two texts may share one")
def _hash_for_a_name() -> Patches:
    def hashed(_: ValueNumbers, values: pa.Array, _stream: int, _first: int) -> I64:
        return np.array([zlib.crc32(str(value).encode()) % 3 for value in values.to_pylist()], np.int64)

    return [patch.object(ValueNumbers, "_numbers_of", hashed)]


@_mutant("names-forgotten", "a router that starts again doesn't learn from the log what texts are called")
def _names_forgotten() -> Patches:
    def nothing(_: ValueNumbers, _stream: int, _codes: object, _payload: object, _first: int) -> None:
        return

    return [patch.object(ValueNumbers, "learn_numbers", nothing)]


# --- pairs ------------------------------------------------------------------------------------------------------------


@_mutant(
    "payload-of-another-row", "a sink that starts again takes the payload of a batch's last row for all of its rows"
)
def _payload_of_another_row() -> Patches:
    restore = History.restore_batch

    def of_last_row(self: History, first: int, held: HeldRows) -> None:
        if held.payload is not None:
            held = replace(held, payload=held.payload.take(pa.array(np.full(len(held.seqs), len(held.seqs) - 1))))
        restore(self, first, held)

    return [patch.object(History, "restore_batch", of_last_row)]


@_mutant("residual-in-one-direction", "residual conditions filter a probe's partners on its right only")
def _residual_in_one_direction() -> Patches:
    true_matches = Residual.true_matches

    def left_only(
        self: Residual, matches: Matches, probes: I64, *, as_left: bool, histories: Sequence[History]
    ) -> Matches:
        return true_matches(self, matches, probes, as_left=True, histories=histories) if as_left else matches

    return [patch.object(Residual, "true_matches", left_only)]


@_mutant("null-is-true-of-a-pair", "a pair whose residual condition is NULL stays")
def _null_is_true_of_a_pair() -> Patches:
    run = PairProgram.run

    def filled(self: PairProgram, pairs: SeqPairs) -> list[pa.Array]:
        return [each.fill_null(True) if pa.types.is_boolean(each.type) else each for each in run(self, pairs)]

    return [patch.object(PairProgram, "run", filled)]


@_mutant("limit-before-residual", "parts cut partners at the limit before residual conditions filter them")
def _limit_before_residual() -> Patches:
    return [patch.object(SearchPlan, "part_limit", property(lambda self: self.query.results.limit))]


@_mutant("probe-for-partner", "results of a self join show the probe's columns on both sides")
def _probe_for_partner() -> Patches:
    seqs = SeqPairs._seqs

    def of_probe(self: SeqPairs, side: int) -> I64:
        return np.maximum(self.left, self.right) if len(self.histories) == 1 else seqs(self, side)

    return [patch.object(SeqPairs, "_seqs", of_probe)]
