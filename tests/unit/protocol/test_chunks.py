"""Chunks are as few as their partners allow, whoever evaluates a frame."""

import numpy as np
import pytest

from spojoin.protocol.frame_evaluation import CHUNK_GROWTH, CHUNK_PARTNERS, CHUNK_PROBES_FIRST, FEW_OF, Chunks
from spojoin.wire.records import Matches


def chunks(count, per_probe, most=None):
    """The chunks of a frame, each of whose probes lists so many partners."""
    cut = Chunks(count, lists_pairs=True)
    if most is not None:
        cut.expect_matches(most)
    found = []
    for begin, end in cut:
        found.append((begin, end))
        n = end - begin
        counts = np.full(n, per_probe)
        cut.learn_from((Matches(counts, np.arange(n + 1) * per_probe, np.broadcast_to(np.int64(0), n * per_probe)),))
    return found


def test_a_frame_of_few_partners_is_one_chunk():
    assert chunks(8_192, 3, most=3 * 8_192) == chunks(8_192, 3, most=CHUNK_PARTNERS // FEW_OF) == [(0, 8_192)]


@pytest.mark.parametrize("most", [None, CHUNK_PARTNERS // FEW_OF + 1])
def test_elsewhere_chunks_grow_as_their_matches_allow(most):
    first, grown = CHUNK_PROBES_FIRST, CHUNK_PROBES_FIRST * CHUNK_GROWTH
    assert chunks(8_192, 1, most)[:2] == [(0, first), (first, first + grown)]
    fit = CHUNK_PARTNERS // 4_096
    assert {end - begin for begin, end in chunks(8_192, 4_096, most)[1:-1]} == {fit}


def test_counts_are_never_cut():
    assert list(Chunks(8_192, lists_pairs=False)) == [(0, 8_192)]
