"""A node: some consecutive batches of a worker as one immutable index, with the structures that its directions need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spojoin.arrays import I64, U64, Unsigned
from spojoin.index.work import Work
from spojoin.kernels import (
    bitmaps,
    boxes,
    choosing,
    counting,
    least,
    listing,
    permutation,
    running_sums,
    sum_matrix,
    summing,
    wavelet,
)
from spojoin.kernels.chosen import ValueOrder, order_of
from spojoin.kernels.composite import Grouping, grouped, nest, refined
from spojoin.kernels.ranks import SortedKeys, sorted_keys
from spojoin.kernels.ratings import Ratings, all_ratings, no_ratings
from spojoin.wire.records import Batch
from spojoin.wire.sums import Sums, joined, no_sums

#: An order of a node's tuples: by the column of a slot, or by several columns, each one ordering equal codes before it.
Place = int | tuple[int, ...]
#: What identifies an entry of sums or of a choice: a key or a choice, the conditions' orders, and the matrix's orders.
_Entry = tuple[int, tuple[Place, ...], tuple[Place, Place] | None]

#: The level of a node that was split because windows leave it gradually; it is never merged again.
LEAVING = -1
#: The group of a node that holds several groups.
SEVERAL = -2


class NodeColumn:
    """A key column of n tuples: its codes, and the arrival offset of each, unsigned (n,).

    The codes are only prepared for searching on their first search, since many nodes are merged before that.

    codes: int64 (n,), ascending
    """

    __slots__ = ("_codes", "_keys", "order")

    def __init__(self, codes: I64, order: Unsigned) -> None:
        self._codes: I64 | None = codes
        self._keys: SortedKeys | None = None
        self.order = order

    @property
    def is_prepared(self) -> bool:
        """Whether the codes are prepared for searching."""
        return self._codes is None

    @property
    def keys(self) -> SortedKeys:
        """The codes, prepared for searching; the plain codes are then dropped. Threads may call this at once."""
        codes = self._codes
        if codes is not None:
            self._keys = sorted_keys(codes)
            self._codes = None
        assert self._keys is not None, "keys are there before codes are dropped"
        return self._keys

    @property
    def pair(self) -> tuple[I64, Unsigned]:
        """The ascending codes, and their arrival offsets."""
        codes = self._codes
        return (self.keys.codes if codes is None else codes), self.order

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        codes = self._codes
        return (self.keys.nbytes if codes is None else codes.nbytes) + self.order.nbytes


@dataclass(frozen=True, slots=True)
class CompositeColumn:
    """The last column of a composite order: its codes in that order, int64 (n,), and each one's offset, unsigned."""

    codes: I64
    order: Unsigned

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.codes.nbytes + self.order.nbytes


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


@dataclass(slots=True, eq=False)
class Node:
    """n >= 1 tuples in arrival order: an *offset* counts them from 0, an *index* counts the stream's tuples.

    Pieces map these: piece k holds the offsets from `piece_offsets[k]` on and the indexes from `piece_firsts[k]` on.
    columns: by slot
    seqs: int64 (n,) by offset; None if they equal the indexes or aren't needed
    level: the number of merges that made it, or LEAVING
    group: the group of its batches, or SEVERAL
    work: counts the cost of its structures
    weights: of its tuples, by offset, if partners are summed; otherwise without rows
    ratings: of its tuples, by offset, if partners are chosen; otherwise without rows
    group_ends: the offsets at which one group ends and another begins, ascending
    size: the number of tuples; first, end: the smallest index, and one more than the largest
    """

    piece_firsts: I64
    piece_offsets: I64
    columns: dict[int, NodeColumn]
    seqs: I64 | None
    group: int
    level: int
    _permutations: dict[tuple[int, int], Unsigned] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    weights: Sums = field(default_factory=lambda: no_sums(0))
    ratings: Ratings = field(default_factory=lambda: no_ratings(0))
    group_ends: tuple[int, ...] = ()
    size: int = field(init=False)
    first: int = field(init=False)
    end: int = field(init=False)
    _composites: dict[tuple[int, ...], CompositeColumn] = field(default_factory=dict, init=False)
    _ranks: dict[Place, Unsigned] = field(default_factory=dict, init=False)
    _wavelets: dict[tuple[Place, Place], wavelet.Wavelet] = field(default_factory=dict, init=False)
    _prefixes: dict[Place, U64] = field(default_factory=dict, init=False)
    _boxes: dict[tuple[int, int, int], boxes.Boxes] = field(default_factory=dict, init=False)
    #: by key and order, the running sums of weights; by key and matrix, the matrix's sums of weights
    _running: dict[tuple[int, Place], running_sums.RunningSums] = field(default_factory=dict, init=False)
    _sum_matrices: dict[tuple[int, Place, Place], sum_matrix.SumMatrix] = field(default_factory=dict, init=False)
    #: by key or choice, orders and matrix, what `sum_entry` and `choice_entry` return
    _sum_entries: dict[_Entry, list[int]] = field(default_factory=dict, init=False)
    _choice_entries: dict[_Entry, list[int]] = field(default_factory=dict, init=False)
    #: by choice, its order; by choice and order or matrix, its tuples' ranks, and the structure that finds the first
    _orders: dict[int, ValueOrder] = field(default_factory=dict, init=False)
    _order_ranks: dict[tuple[int, Place], NDArray[np.uint32]] = field(default_factory=dict, init=False)
    _least: dict[tuple[int, Place, Place | None], least.LeastMatrix] = field(default_factory=dict, init=False)
    #: for listing, by two orders, the ranks of one in the other, and the greatest or least of these
    _lines: dict[tuple[Place, Place], NDArray[np.uint32]] = field(default_factory=dict, init=False)
    _trees: dict[tuple[Place, Place, bool], NDArray[np.uint32]] = field(default_factory=dict, init=False)
    #: by its arguments, what `listing_entry` returns
    _listing_entries: dict[tuple[int, Place, Place | None, bool | None], list[int]] = field(
        default_factory=dict, init=False
    )
    #: the numbers of prepared columns and of structures of each kind when bytes were last counted, and those bytes
    _weighed: tuple[tuple[int, ...], int] = field(default=((), 0), init=False)
    _directories: dict[tuple[tuple[Place, ...], tuple[tuple[Place, Place], ...]], I64] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self.size = int(self.piece_offsets[-1])
        self.first = int(self.piece_firsts[0])
        self.end = int(self.piece_firsts[-1] + self.piece_offsets[-1] - self.piece_offsets[-2])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; counted again only if arrays were added."""
        prepared = sum(column.is_prepared for column in self.columns.values())
        numbers = prepared, *(len(each) for each in self._structures)
        if numbers != self._weighed[0]:
            self._weighed = numbers, self._weight()
        return self._weighed[1]

    @property
    def _structures(self) -> tuple[Mapping[Any, _Sized], ...]:
        return (
            self._permutations,
            self._composites,
            self._ranks,
            self._wavelets,
            self._prefixes,
            self._boxes,
            self._running,
            self._sum_matrices,
            self._orders,
            self._order_ranks,
            self._least,
            self._lines,
            self._trees,
        )

    def _weight(self) -> int:
        arrays: list[_Sized] = [self.piece_firsts, self.piece_offsets, self.weights, self.ratings]
        arrays.extend(self.columns.values())
        for structures in self._structures:
            arrays.extend(structures.values())
        return sum(a.nbytes for a in arrays) + (0 if self.seqs is None else self.seqs.nbytes)

    def offsets_below(self, indexes: I64) -> I64:
        """How many tuples have a smaller index, for each of `indexes` int64 (m,)."""
        piece = np.maximum(np.searchsorted(self.piece_firsts, indexes, "right") - 1, 0)
        begin = self.piece_offsets[piece]
        inside = np.clip(indexes - self.piece_firsts[piece], 0, self.piece_offsets[piece + 1] - begin)
        return np.asarray(begin + inside, np.int64)

    def partners(self, offsets: I64) -> I64:
        """The seqs of the tuples at `offsets` int64 (k,), or their indexes if no seqs are kept."""
        if self.seqs is not None:
            return self.seqs[offsets]
        if len(self.piece_firsts) == 1:
            return offsets + self.first
        piece = np.searchsorted(self.piece_offsets, offsets, "right") - 1
        return np.asarray(offsets - self.piece_offsets[piece] + self.piece_firsts[piece], np.int64)

    @property
    def all_seqs(self) -> I64:
        """The seqs of all tuples by offset, int64 (n,)."""
        return self.partners(np.arange(self.size, dtype=np.int64))

    def keys(self, slot: int) -> SortedKeys:
        """The codes of a column, prepared for searching."""
        column = self.columns[slot]
        if not column.is_prepared:
            began_s = self.work.timer()
            _ = column.keys
            self.work.built(began_s)
        return column.keys

    def composite(self, slots: tuple[int, ...]) -> CompositeColumn:
        """The last of two or more columns, sorted among tuples with equal codes in the others."""
        if slots not in self._composites:
            began_s = self.work.timer()
            column = nest(self._grouping(slots[:-1]), *self.columns[slots[-1]].pair)
            self._composites[slots] = CompositeColumn(*column)
            self.work.built(began_s)
        return self._composites[slots]

    def order(self, place: Place) -> Unsigned:
        """The arrival offsets in an order."""
        return self.columns[place].order if isinstance(place, int) else self.composite(place).order

    def ranks(self, place: Place) -> Unsigned:
        """Each tuple's rank in an order, by offset."""
        if place not in self._ranks:
            began_s = self.work.timer()
            self._ranks[place] = permutation.positions(self.order(place))
            self.work.built(began_s)
        return self._ranks[place]

    def wavelet(self, place_a: Place, place_b: Place) -> wavelet.Wavelet:
        """The wavelet matrix of the permutation from one order's ranks to another's."""
        key = place_a, place_b
        if key not in self._wavelets:
            began_s = self.work.timer()
            self._wavelets[key] = wavelet.build(self._permutation(place_a, place_b))
            self.work.built(began_s)
        return self._wavelets[key]

    def boxes(self, slots: tuple[int, int, int]) -> tuple[boxes.Boxes, tuple[int, int, int]]:
        """The boxes of three columns, and the columns as x, y, z: in the order of `slots`, or of an earlier call."""
        for known, held in self._boxes.items():
            if set(known) == set(slots):
                return held, known
        began_s = self.work.timer()
        x, y, z = (self.columns[slot].order for slot in slots)
        self._boxes[slots] = boxes.build(permutation.permutation(x, y), permutation.permutation(x, z))
        self.work.built(began_s)
        return self._boxes[slots], slots

    def directory(self, searched: tuple[Place, ...], rectangles: tuple[tuple[Place, Place], ...]) -> I64:
        """The addresses of the searched orders and of the rectangles' matrices, for `counting.counts`: int64 (w,)."""
        key = searched, rectangles
        if key not in self._directories:
            found = [self.size]
            for place in searched:
                found += self._entry(place)
            for pair in rectangles:
                found += counting.matrix_entry(self.wavelet(*pair))
            self._directories[key] = np.array(found)
        return self._directories[key]

    def has_directory(self, searched: tuple[Place, ...], rectangles: tuple[tuple[Place, Place], ...]) -> bool:
        """Whether `directory` was called before, so that all its structures are built."""
        return (searched, rectangles) in self._directories

    def sum_entry(self, key: int, orders: Sequence[Place], pair: tuple[Place, Place] | None) -> list[int]:
        """The addresses, for `summing.sums`, of the structures that sum one key's weights."""
        named = key, tuple(orders), pair
        if named not in self._sum_entries:
            at = int(np.searchsorted(self.weights.keys, key))
            if at == len(self.weights.keys) or self.weights.keys[at] != key:
                return [0] * summing.ENTRY
            weights = self.weights.rows[at]
            matrix = None if pair is None else self._sum_matrix(key, *pair, weights)
            running = [self._running_sums(key, place, weights) for place in orders]
            self._sum_entries[named] = summing.row_entry(running, matrix)
        return self._sum_entries[named]

    def _running_sums(self, key: int, place: Place, weights: I64) -> running_sums.RunningSums:
        if (key, place) not in self._running:
            began_s = self.work.timer()
            self._running[key, place] = running_sums.running(self.order(place), weights)
            self.work.built(began_s)
        return self._running[key, place]

    def _sum_matrix(self, key: int, place_a: Place, place_b: Place, weights: I64) -> sum_matrix.SumMatrix:
        if (key, place_a, place_b) not in self._sum_matrices:
            matrix, began_s = self.wavelet(place_a, place_b), self.work.timer()
            ranks = permutation.permutation(self.order(place_a), self.order(place_b))
            built = sum_matrix.build(ranks, weights[self.order(place_a)], matrix)
            self._sum_matrices[key, place_a, place_b] = built
            self.work.built(began_s)
        return self._sum_matrices[key, place_a, place_b]

    def choice_order(self, number: int, *, is_latest: bool) -> ValueOrder:
        """The tuples in the order of a choice."""
        if number not in self._orders:
            began_s = self.work.timer()
            codes, kinds = self.ratings.of(number)
            self._orders[number] = order_of(codes, kinds, self.all_seqs, is_latest=is_latest)
            self.work.built(began_s)
        return self._orders[number]

    def choice_entry(
        self, number: int, orders: Sequence[Place], pair: tuple[Place, Place] | None, *, is_latest: bool
    ) -> list[int]:
        """The addresses, for `choosing.chosen`, of the structures that find the first tuples of an order."""
        named = number, tuple(orders), pair
        if named not in self._choice_entries:
            order = self.choice_order(number, is_latest=is_latest)
            ranks = [self._ranks_of(number, order, place) for place in orders]
            matrix = self._least_matrix(number, order, orders[0], pair)
            mapped = None if pair is None else self._mapped(*pair)
            self._choice_entries[named] = choosing.order_entry(order, ranks, matrix, mapped)
        return self._choice_entries[named]

    def _ranks_of(self, number: int, order: ValueOrder, place: Place) -> NDArray[np.uint32]:
        """The ranks of a choice's tuples in another order."""
        if (number, place) not in self._order_ranks:
            ranks = permutation.positions(self.order(place))  # not kept in `ranks`, which is for scans
            self._order_ranks[number, place] = ranks[order.places].astype(np.uint32)
        return self._order_ranks[number, place]

    def _mapped(self, place_a: Place, place_b: Place) -> NDArray[np.uint32]:
        """For each rank in one order, the same tuple's rank in another."""
        return self._lines_of(place_a, place_b)[: self.size]

    def _least_matrix(
        self, number: int, order: ValueOrder, place: Place, pair: tuple[Place, Place] | None
    ) -> least.LeastMatrix:
        key = number, place, None if pair is None else pair[1]
        if key not in self._least:
            began_s = self.work.timer()
            ranked = order.ranks(self.size)[self.order(place)]
            self._least[key] = least.build(ranked, None if pair is None else self._mapped(*pair))
            self.work.built(began_s)
        return self._least[key]

    def listing_entry(self, read: int, place: Place, other: Place | None, is_greatest: bool | None) -> list[int]:
        """What `listing.partners` needs for a direction whose condition `read` is an interval in `place`.

        other: the order of its other condition, if it has one
        is_greatest: True if that condition has only a begin, False if only an end, None if both
        """
        named = read, place, other, is_greatest
        if named not in self._listing_entries:
            began_s = self.work.timer()
            ranks = None if other is None else self._lines_of(place, other)
            over = None if other is None or is_greatest is None else self._tree(place, other, is_greatest)
            self._listing_entries[named] = listing.entry(
                read, self.order(place), ranks, over, has_begin=bool(is_greatest)
            )
            self.work.built(began_s)
        return self._listing_entries[named]

    @property
    def listing_head(self) -> list[int]:
        """What `listing.partners` needs to know about the node itself."""
        return listing.head(self.size, self.seqs, self.piece_firsts, self.piece_offsets)

    def _lines_of(self, place: Place, other: Place) -> NDArray[np.uint32]:
        """The ranks of `_mapped`, padded to whole lines, as `listing` reads them."""
        if (place, other) not in self._lines:
            self._lines[place, other] = listing.padded(self._permutation(place, other))
        return self._lines[place, other]

    def _tree(self, place: Place, other: Place, is_greatest: bool) -> NDArray[np.uint32]:
        key = place, other, is_greatest
        if key not in self._trees:
            self._trees[key] = listing.tree(self._lines[place, other], self.size, is_greatest=is_greatest)
        return self._trees[key]

    def _entry(self, place: Place) -> list[int]:
        if isinstance(place, int):
            return counting.sorted_entry(self.keys(place))
        return counting.nested_entry(self.composite(place).codes)

    def prefixes(self, place: Place) -> U64:
        """The prefix bitmaps of an order."""
        if place not in self._prefixes:
            began_s = self.work.timer()
            self._prefixes[place] = bitmaps.build(self.order(place))
            self.work.built(began_s)
        return self._prefixes[place]

    def split(self, at: int, level: int) -> tuple[Node, Node]:
        """The tuples below offset `at`, 0 < at < n, and the rest, as two nodes of `level`."""
        began_s = self.work.timer()
        columns = {slot: _split_column(column, at) for slot, column in self.columns.items()}
        (firsts_a, offsets_a), (firsts_b, offsets_b) = _cut_pieces(self.piece_firsts, self.piece_offsets, at)
        seqs_a, seqs_b = (None, None) if self.seqs is None else (self.seqs[:at].copy(), self.seqs[at:].copy())
        below, above = ({s: halves[side] for s, halves in columns.items()} for side in (0, 1))
        self.work.merged(began_s)
        return (
            self._half(firsts_a, offsets_a, below, seqs_a, slice(at), level),
            self._half(firsts_b, offsets_b, above, seqs_b, slice(at, None), level),
        )

    def _half(
        self,
        firsts: I64,
        offsets: I64,
        columns: dict[int, NodeColumn],
        seqs: I64 | None,
        part: slice,
        level: int,
    ) -> Node:
        return Node(
            firsts,
            offsets,
            columns,
            seqs,
            self.group,
            level,
            work=self.work,
            weights=self.weights[part].copy(),
            ratings=self.ratings[part].copy(),
            group_ends=_ends_within(self.group_ends, part.start or 0, int(offsets[-1])),
        )

    def _permutation(self, place_a: Place, place_b: Place) -> Unsigned:
        if isinstance(place_a, int) and isinstance(place_b, int):
            shipped = self._permutations.pop((place_a, place_b), None)
            if shipped is not None:
                return shipped
        return permutation.permutation(self.order(place_a), self.order(place_b))

    def _grouping(self, slots: tuple[int, ...]) -> Grouping:
        if len(slots) == 1:
            return grouped(*self.columns[slots[0]].pair)
        column = self.composite(slots)
        return refined(self._grouping(slots[:-1]).starts, column.codes, column.order)


def from_batch(
    batch: Batch,
    slots: Sequence[int],
    *,
    with_seqs: bool,
    with_permutations: bool,
    work: Work | None = None,
    weights: Sums | None = None,
) -> Node:
    """A node of one batch with the columns of `slots`, copied so that the message can be freed."""
    size = batch.end - batch.first
    dtype = permutation.rank_type(size)
    return Node(
        piece_firsts=np.array([batch.first]),
        piece_offsets=np.array([0, size]),
        columns={
            c.slot: NodeColumn(np.array(c.codes), np.array(c.order, dtype)) for c in batch.columns if c.slot in slots
        },
        seqs=np.array(batch.seqs) if with_seqs and not _are_indexes(batch) else None,
        group=batch.group,
        level=0,
        _permutations={k: np.array(v) for k, v in batch.permutations.items() if with_permutations and k[0] < k[1]},
        work=Work() if work is None else work,
        weights=no_sums(size) if weights is None else weights,
    )


def _are_indexes(batch: Batch) -> bool:
    """Whether the tuples' seqs, which ascend, equal their indexes."""
    return bool(batch.seqs[0] == batch.first and batch.seqs[-1] == batch.end - 1)


def merged(nodes: Sequence[Node], level: int) -> Node:
    """One node from neighbours, given in index order."""
    if len(nodes) == 1:
        nodes[0].level = level
        return nodes[0]
    half = len(nodes) // 2
    return _merged_pair(merged(nodes[:half], level), merged(nodes[half:], level), level)


def _merged_pair(a: Node, b: Node, level: int) -> Node:
    began_s = a.work.timer()
    columns = {slot: _merge_columns(column, b.columns[slot]) for slot, column in a.columns.items()}
    firsts, offsets = _join_pieces(a, b)
    seqs = None if a.seqs is None and b.seqs is None else np.concatenate((a.all_seqs, b.all_seqs))
    a.work.merged(began_s)
    is_one = a.group == b.group != SEVERAL
    return Node(
        firsts,
        offsets,
        columns,
        seqs,
        a.group if is_one else SEVERAL,
        level,
        work=a.work,
        weights=joined([a.weights, b.weights]),
        ratings=all_ratings([a.ratings, b.ratings]),
        group_ends=() if is_one else (*a.group_ends, a.size, *(a.size + end for end in b.group_ends)),
    )


def _ends_within(ends: Sequence[int], begin: int, size: int) -> tuple[int, ...]:
    """The offsets at which groups end within the `size` tuples from `begin` on, counted from `begin`."""
    return tuple(end - begin for end in ends if 0 < end - begin < size)


def _merge_columns(a: NodeColumn, b: NodeColumn) -> NodeColumn:
    return NodeColumn(*permutation.merge_sorted(a.pair, b.pair))


def _split_column(column: NodeColumn, at: int) -> tuple[NodeColumn, NodeColumn]:
    below, above = permutation.split_sorted(column.pair, at)
    return NodeColumn(*below), NodeColumn(*above)


def _join_pieces(a: Node, b: Node) -> tuple[I64, I64]:
    follows_on = int(a.end == b.first)
    firsts = np.concatenate((a.piece_firsts, b.piece_firsts[follows_on:]))
    offsets = np.concatenate((a.piece_offsets[: len(a.piece_offsets) - follows_on], b.piece_offsets[1:] + a.size))
    return firsts, offsets


def _cut_pieces(firsts: I64, offsets: I64, at: int) -> tuple[tuple[I64, I64], tuple[I64, I64]]:
    piece = int(np.searchsorted(offsets, at, "left")) - 1
    below = firsts[: piece + 1].copy(), np.append(offsets[: piece + 1], at)
    cut = int(offsets[piece + 1] != at)
    begins = firsts[piece + 1 - cut :].copy()
    if cut:
        begins[0] += at - offsets[piece]
    return below, (begins, np.append(0, offsets[piece + 1 if cut else piece + 2 :] - at))
