"""Predicates that Hypothesis draws for an index over `batches.SLOTS` key columns."""

from __future__ import annotations

from hypothesis import strategies as st

from spojoin.model import Domain, Op, RolePredicate
from tests.support.batches import SLOTS

_SLOT = st.integers(0, SLOTS - 1)
#: One to four predicates of a direction, over any columns.
PREDICATES = st.lists(
    st.builds(RolePredicate, st.sampled_from(Op), _SLOT, _SLOT, st.just(Domain.INTEGER), st.integers(0, 2)),
    min_size=1,
    max_size=4,
)
