# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""Search steps as vector instructions of LANES lanes.

The compiler vectorises none of these loops. Every step of a descent waits for a load whose place the step before
found, and the probes' states might alias the structure that they descend: here a gather serves LANES probes at once,
and waits of neighbouring groups overlap. A search in a sorted column ends at an element that it can't foresee:
here LANES elements are compared at once, without a branch. The steps are written as LLVM vectors, which LLVM
lowers to whatever the machine has (AVX-512, AVX2, or scalar instructions).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: int64 lanes of a 512-bit register.
LANES = 8
#: Bytes of a cache line.
LINE = 64
#: Numbers of 16 bits in a 512-bit register.
SHORTS = 32
#: Numbers of 32 bits that are compared at once, in four cache lines: a bit of a word for each.
HALVES = 64

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_POINTERS = ir.VectorType(_WORD.as_pointer(), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)
_MASK_BITS = ir.IntType(LANES)
_BYTE = ir.IntType(8)
_SHORT = ir.IntType(16)
_HALF = ir.IntType(32)
_INDEX = ir.IntType(32)


def _declared(module: Any, signature: Any, name: str) -> Any:
    declare: Any = cgutils.get_or_insert_function
    return declare(module, signature, name)


def _held(builder: Any, value: Any) -> Any:
    """A variable of a loop."""
    allocate: Any = cgutils.alloca_once_value
    return allocate(builder, value)


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """A scalar in all lanes of a vector type."""
    nothing = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(nothing, scalar, _INDEX(0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(_INDEX, vector.count), [0] * vector.count))


class _Emitter:
    """Writes vector code over one-dimensional contiguous arrays of 64-bit integers."""

    def __init__(self, context: Any, builder: Any) -> None:
        self._context = context
        self.builder = builder

    def data(self, array_type: Any, array: Any) -> Any:
        return self._context.make_array(array_type)(self._context, self.builder, array).data

    def constant(self, value: int) -> Any:
        return ir.Constant(_VECTOR, [value] * LANES)

    def splat(self, scalar: Any) -> Any:
        return _splat(self.builder, scalar, _VECTOR)

    def slot(self, array_type: Any, array: Any, at: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data(array_type, array), [at]), _VECTOR.as_pointer())

    def load(self, pointer: Any) -> Any:
        value = self.builder.load(pointer)
        value.align = 8
        return value

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, pointer).align = 8

    def gather(self, base: Any, index: Any) -> Any:
        b = self.builder
        address = b.add(self.splat(b.ptrtoint(base, _WORD)), b.shl(index, self.constant(3)))
        signature = ir.FunctionType(_VECTOR, [_POINTERS, _INDEX, _MASK, _VECTOR])
        name = f"llvm.masked.gather.v{LANES}i64.v{LANES}p0"
        function = _declared(b.module, signature, name)
        everyone = ir.Constant(_MASK, [1] * LANES)
        pointers = b.inttoptr(address, _POINTERS)
        return b.call(function, [pointers, _INDEX(8), everyone, ir.Constant(_VECTOR, ir.Undefined)])

    def gather_some(self, base: Any, index: Any, mask: Any, otherwise: int) -> Any:
        b = self.builder
        address = b.add(self.splat(b.ptrtoint(base, _WORD)), b.shl(index, self.constant(3)))
        signature = ir.FunctionType(_VECTOR, [_POINTERS, _INDEX, _MASK, _VECTOR])
        function = _declared(b.module, signature, f"llvm.masked.gather.v{LANES}i64.v{LANES}p0")
        return b.call(function, [b.inttoptr(address, _POINTERS), _INDEX(8), mask, self.constant(otherwise)])

    def gather_bytes(self, address: Any, mask: Any) -> Any:
        """The word that begins at each byte address, 0 where masked out."""
        b = self.builder
        signature = ir.FunctionType(_VECTOR, [_POINTERS, _INDEX, _MASK, _VECTOR])
        function = _declared(b.module, signature, f"llvm.masked.gather.v{LANES}i64.v{LANES}p0")
        return b.call(function, [b.inttoptr(address, _POINTERS), _INDEX(1), mask, self.constant(0)])

    def field(self, tuple_type: Any, arrays: Any, i: int, at: Any) -> Any:
        """Where lanes at..at + LANES of the i-th of a tuple of arrays stand."""
        return self.slot(tuple_type[i], self.builder.extract_value(arrays, i), at)

    def zeros_before(self, row: Any, place: Any, start: Any) -> Any:
        """The zeros of a node that begins at `start` before each place of a wavelet matrix's level."""
        b = self.builder
        entry = self.gather(row, b.lshr(place, self.constant(5)))
        below = b.sub(b.shl(self.constant(1), b.and_(place, self.constant(31))), self.constant(1))
        zeros = b.add(b.lshr(entry, self.constant(32)), self.popcount(b.and_(entry, below)))
        return b.sub(zeros, b.lshr(start, self.constant(1)))

    def compress(self, value: Any, pointer: Any, chosen: Any) -> None:
        """Store the chosen lanes one behind the other."""
        signature = ir.FunctionType(ir.VoidType(), [_VECTOR, _WORD.as_pointer(), _MASK])
        function = _declared(self.builder.module, signature, f"llvm.masked.compressstore.v{LANES}i64")
        self.builder.call(function, [value, self.builder.bitcast(pointer, _WORD.as_pointer()), chosen])

    def chosen(self, mask: Any) -> Any:
        """How many lanes a mask has, as one word."""
        count = _declared(self.builder.module, ir.FunctionType(_MASK_BITS, [_MASK_BITS]), f"llvm.ctpop.i{LANES}")
        return self.builder.zext(self.builder.call(count, [self.builder.bitcast(mask, _MASK_BITS)]), _WORD)

    def popcount(self, value: Any) -> Any:
        signature = ir.FunctionType(_VECTOR, [_VECTOR])
        function = _declared(self.builder.module, signature, f"llvm.ctpop.v{LANES}i64")
        return self.builder.call(function, [value])


def _wavelet_step(_context: Any, row: Any, places: Any, caps: Any, totals: Any, at: Any, shift: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        place_slot, cap_slot, total_slot = (e.slot(signature.args[i], arguments[i], arguments[4]) for i in (1, 2, 3))
        place, cap = e.load(place_slot), e.load(cap_slot)
        half = b.shl(e.constant(1), e.splat(arguments[5]))
        start = b.and_(cap, b.neg(b.shl(half, e.constant(1))))
        zeros = e.zeros_before(e.data(signature.args[0], arguments[0]), place, start)
        right = b.icmp_unsigned("!=", b.and_(cap, half), e.constant(0))
        e.store(b.add(e.load(total_slot), b.select(right, zeros, e.constant(0))), total_slot)
        ones = b.sub(b.sub(place, start), zeros)
        e.store(b.add(start, b.select(right, b.add(half, ones), zeros)), place_slot)
        return context.get_dummy_value()

    return types.void(row, places, caps, totals, types.int64, types.int64), generate


def _trace_step(_context: Any, row: Any, places: Any, caps: Any, totals: Any, seen: Any, at: Any, shift: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        slots = [e.slot(signature.args[i], arguments[i], arguments[5]) for i in (1, 2, 3, 4)]
        place, cap = e.load(slots[0]), e.load(slots[1])
        half = b.shl(e.constant(1), e.splat(arguments[6]))
        start = b.and_(cap, b.neg(b.shl(half, e.constant(1))))
        zeros = e.zeros_before(e.data(signature.args[0], arguments[0]), place, start)
        right = b.icmp_unsigned("!=", b.and_(cap, half), e.constant(0))
        e.store(b.add(e.load(slots[2]), b.select(right, zeros, e.constant(0))), slots[2])
        counted = b.and_(right, b.icmp_unsigned("!=", zeros, e.constant(0)))
        last = b.sub(b.add(b.lshr(start, e.constant(1)), zeros), e.constant(1))
        e.store(b.select(counted, last, e.constant(-1)), slots[3])
        ones = b.sub(b.sub(place, start), zeros)
        e.store(b.add(start, b.select(right, b.add(half, ones), zeros)), slots[0])
        return context.get_dummy_value()

    return types.void(row, places, caps, totals, seen, types.int64, types.int64), generate


def _weigh_step(_context: Any, excesses: Any, width: Any, leasts: Any, seen: Any, totals: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        seen_slot, total_slot = (e.slot(signature.args[i], arguments[i], arguments[5]) for i in (3, 4))
        place = e.load(seen_slot)
        counted = b.icmp_signed(">=", place, e.constant(0))
        width = e.splat(arguments[1])
        word = e.gather_bytes(b.add(e.splat(arguments[0]), b.shl(place, width)), counted)
        spare = b.sub(e.constant(64), b.shl(e.constant(8), width))
        excess = b.lshr(b.shl(word, spare), spare)
        block = b.lshr(place, e.constant(5))
        least = e.gather_some(e.data(signature.args[2], arguments[2]), block, counted, 0)
        e.store(b.add(e.load(total_slot), b.add(excess, least)), total_slot)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, leasts, seen, totals, types.int64), generate


def _line_sum(_context: Any, leaf: Any, at: Any, within: Any) -> Any:
    """Numbers of 16 bits are added up as ones of 32."""
    item = ir.IntType(leaf.dtype.bitwidth)
    summed = _WORD if item.width == 64 else _HALF

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b, line = builder, ir.VectorType(summed, LINE)
        base = _Emitter(context, builder).data(signature.args[0], arguments[0])
        values = b.load(b.bitcast(b.gep(base, [arguments[1]]), ir.VectorType(item, LINE).as_pointer()))
        values.align = item.width // 8
        values = values if item.width == summed.width else b.sext(values, line)
        mask = b.bitcast(arguments[2], ir.VectorType(ir.IntType(1), LINE))
        name = f"llvm.vector.reduce.add.v{LINE}i{summed.width}"
        function = _declared(b.module, ir.FunctionType(summed, [line]), name)
        total = b.call(function, [b.select(mask, values, ir.Constant(line, [0] * LINE))])
        return total if summed is _WORD else b.sext(total, _WORD)

    return types.int64(leaf, types.int64, types.uint64), generate


def _sum_admitted(
    _context: Any, first: Any, second: Any, weights: Any, end: Any, start0: Any, length0: Any, start1: Any, length1: Any
) -> Any:
    """Numbers of 16 bits lie in lanes of 32 by two: the lower and the upper ones are added up apart."""
    shorts, halves = ir.VectorType(_SHORT, SHORTS), ir.VectorType(_HALF, SHORTS // 2)

    def total(builder: Any, lanes: Any) -> Any:
        name = f"llvm.vector.reduce.add.v{SHORTS // 2}i32"
        add = _declared(builder.module, ir.FunctionType(_HALF, [halves]), name)
        return builder.zext(builder.call(add, [builder.load(lanes)]), _WORD)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        bases = [e.data(signature.args[i], arguments[i]) for i in range(3)]
        ends = [_splat(b, each, shorts) for each in arguments[4:]]
        nothing: list[Any] = [*[ir.Constant(halves, [0] * (SHORTS // 2))] * 2, _WORD(0)]
        low, high, count = (_held(b, each) for each in nothing)
        with cgutils.for_range_slice(b, _WORD(0), arguments[3], _WORD(SHORTS)) as (at, _):
            stored = [b.load(b.bitcast(b.gep(base, [at]), shorts.as_pointer())) for base in bases]
            for each in stored:
                each.align = 2
            inside = [b.icmp_unsigned("<", b.sub(stored[i], ends[2 * i]), ends[2 * i + 1]) for i in (0, 1)]
            both = b.and_(*inside)
            pairs = b.bitcast(b.select(both, stored[2], ir.Constant(shorts, [0] * SHORTS)), halves)
            b.store(b.add(b.load(low), b.and_(pairs, ir.Constant(halves, [0xFFFF] * (SHORTS // 2)))), low)
            b.store(b.add(b.load(high), b.lshr(pairs, ir.Constant(halves, [16] * (SHORTS // 2)))), high)
            b.store(b.add(b.load(count), b.zext(b.ctpop(b.bitcast(both, ir.IntType(SHORTS))), _WORD)), count)
        found = [b.load(count), b.add(total(b, low), total(b, high))]
        return context.make_tuple(b, signature.return_type, found)

    short = types.uint16
    pair: Any = types.Tuple
    return pair((types.int64, types.int64))(first, second, weights, types.int64, short, short, short, short), generate


def _range_step(_context: Any, row: Any, states: Any, at: Any, shift: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        slots = [e.field(signature.args[1], arguments[1], i, arguments[2]) for i in range(4)]
        low, high, cap, total = (e.load(slot) for slot in slots)
        half = b.shl(e.constant(1), e.splat(arguments[3]))
        start = b.and_(cap, b.neg(b.shl(half, e.constant(1))))
        right = b.icmp_unsigned("!=", b.and_(cap, half), e.constant(0))
        base = e.data(signature.args[0], arguments[0])
        zeros = [e.zeros_before(base, place, start) for place in (low, high)]
        for slot, place, before in zip(slots, (low, high), zeros, strict=False):
            e.store(b.select(right, b.add(half, b.sub(place, before)), b.add(start, before)), slot)
        e.store(b.add(total, b.select(right, b.sub(zeros[1], zeros[0]), e.constant(0))), slots[3])
        return context.get_dummy_value()

    return types.void(row, states, types.int64, types.int64), generate


def _boxes_step(
    _context: Any, row_x: Any, row_y: Any, states: Any, jobs: Any, at: Any, shift: Any, waiting: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        at, shift, waiting = arguments[4:]
        state = [e.field(signature.args[2], arguments[2], i, at) for i in range(len(signature.args[2]))]
        x, y, cap, below_x, below_y, both, shared, upper = (e.load(slot) for slot in state)
        half = b.shl(e.constant(1), e.splat(shift))
        start = b.and_(cap, b.neg(b.shl(half, e.constant(1))))
        right = b.icmp_unsigned("!=", b.and_(cap, half), e.constant(0))
        aside = []
        for i, (row, place, below) in enumerate(((0, x, below_x), (1, y, below_y))):
            zeros = e.zeros_before(e.data(signature.args[row], arguments[row]), place, start)
            ones = b.sub(b.sub(place, start), zeros)
            e.store(b.add(below, b.select(right, zeros, e.constant(0))), state[3 + i])
            e.store(b.add(start, b.select(right, b.add(half, ones), zeros)), state[i])
            aside.append(b.select(right, zeros, ones))
        parted = b.icmp_unsigned("!=", b.ashr(b.xor(cap, shared), e.splat(shift)), e.constant(0))
        wanted = b.and_(parted, b.xor(right, b.icmp_unsigned("!=", upper, e.constant(0))))
        within = b.sub(half, e.constant(1))
        whole = [b.icmp_unsigned("==", b.and_(count, within), e.constant(0)) for count in aside]
        plain = b.or_(*whole)
        least = b.select(b.icmp_unsigned("<", *aside), *aside)
        e.store(b.add(both, b.select(b.and_(wanted, plain), least, e.constant(0))), state[5])
        begin = b.xor(b.and_(cap, b.neg(half)), half)
        corner = b.add(e.splat(at), ir.Constant(_VECTOR, list(range(LANES))))
        pushed = b.and_(wanted, b.not_(plain))
        for i, value in enumerate((b.add(begin, aside[0]), b.add(begin, aside[1]), corner)):
            e.compress(value, e.field(signature.args[3], arguments[3], i, waiting), pushed)
        return b.add(waiting, e.chosen(pushed))

    return types.int64(row_x, row_y, states, jobs, types.int64, types.int64, types.int64), generate


def _count_below(_context: Any, column: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e = _Emitter(context, builder)
        found = e.load(e.slot(signature.args[0], arguments[0], arguments[1]))
        return e.chosen(builder.icmp_signed("<", found, e.splat(arguments[2])))

    return types.int64(column, types.int64, types.int64), generate


def _count_bytes_below(_context: Any, leaf: Any, at: Any, cap: Any, upto: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        base = e.data(signature.args[0], arguments[0])
        at, cap, upto = arguments[1], arguments[2], arguments[3]
        line = b.load(b.bitcast(b.gep(base, [at]), ir.VectorType(_BYTE, LINE).as_pointer()))
        line.align = 1
        caps = _splat(b, b.trunc(cap, _BYTE), line.type)
        below = b.bitcast(b.icmp_unsigned("<", line, caps), _WORD)
        first = b.sub(b.shl(_WORD(1), upto), _WORD(1))
        return b.ctpop(b.and_(below, first))

    return types.int64(leaf, types.int64, types.int64, types.int64), generate


def _bisect_step(operator: str) -> Any:
    def typed(_context: Any, column: Any, begins: Any, lengths: Any, values: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            e, b = _Emitter(context, builder), builder
            begin_slot, length_slot, value_slot = (
                e.slot(signature.args[i], arguments[i], arguments[4]) for i in (1, 2, 3)
            )
            begin, length = e.load(begin_slot), e.load(length_slot)
            half = b.lshr(b.add(length, e.constant(1)), e.constant(1))
            index = b.sub(b.add(begin, half), e.constant(1))
            is_open = b.icmp_signed("!=", length, e.constant(0))
            found = e.gather_some(e.data(signature.args[0], arguments[0]), index, is_open, 0)
            below = b.and_(is_open, b.icmp_signed(operator, found, e.load(value_slot)))
            e.store(b.add(begin, b.select(below, half, e.constant(0))), begin_slot)
            e.store(b.sub(length, half), length_slot)
            return context.get_dummy_value()

        return types.void(column, begins, lengths, values, types.int64), generate

    return typed


def _bytes_below(_context: Any, leaf: Any, at: Any, cap: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        base = e.data(signature.args[0], arguments[0])
        line = b.load(b.bitcast(b.gep(base, [arguments[1]]), ir.VectorType(_BYTE, LINE).as_pointer()))
        line.align = 1
        caps = _splat(b, b.trunc(arguments[2], _BYTE), line.type)
        return b.bitcast(b.icmp_unsigned("<", line, caps), _WORD)

    return types.uint64(leaf, types.int64, types.int64), generate


def _halves_within(_context: Any, values: Any, at: Any, start: Any, length: Any) -> Any:
    halves = ir.VectorType(_HALF, HALVES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b, base = builder, _Emitter(context, builder).data(signature.args[0], arguments[0])
        line = b.load(b.bitcast(b.gep(base, [arguments[1]]), halves.as_pointer()))
        line.align = 4
        start, length = (_splat(b, each, halves) for each in arguments[2:])
        inside = b.icmp_unsigned("<", b.sub(line, start), length)
        return b.bitcast(inside, _WORD)

    return types.uint64(values, types.int64, types.uint32, types.uint32), generate


def _prefetch(_context: Any, column: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e = _Emitter(context, builder)
        pointer = builder.gep(e.data(signature.args[0], arguments[0]), [arguments[1]])
        byte = _BYTE.as_pointer()
        signature = ir.FunctionType(ir.VoidType(), [byte, _INDEX, _INDEX, _INDEX])
        hint = _declared(builder.module, signature, "llvm.prefetch.p0")
        builder.call(hint, [builder.bitcast(pointer, byte), _INDEX(0), _INDEX(3), _INDEX(1)])
        return context.get_dummy_value()

    return types.void(column, types.int64), generate


#: (row, places, caps, totals, at, shift): one level's descent of lanes at..at + LANES of a wavelet matrix, where
#: `row` is the level, uint64; places, caps, totals are the states, int64; 1 << shift is half a node
wavelet_step: Any = intrinsic(_wavelet_step)
#: (row, places, caps, totals, seen, at, shift): `wavelet_step`, and in `seen`, int64, which zero of the level was the
#: last that a lane has counted, or -1
trace_step: Any = intrinsic(_trace_step)
#: (excesses, width, leasts, seen, totals, at): add to lanes at..at + LANES of `totals` the sums that `seen` says: the
#: unsigned number of 1 << width bytes at the address `excesses`, and that of its 32 in `leasts`, all int64
weigh_step: Any = intrinsic(_weigh_step)
#: (leaf, at, within) -> the sum of those of leaf[at : at + LINE], of 16, 32 or 64 bits, whose bit is set in the uint64
line_sum: Any = intrinsic(_line_sum)
#: (first, second, weights, end, start0, length0, start1, length1) -> how many of the first `end`, a multiple of SHORTS,
#: of two arrays of ranks lie in both wrapped intervals, as in `intervals16`, and what these weigh; all uint16, at most
#: 2**16 of them
sum_admitted: Any = intrinsic(_sum_admitted)
#: (row, states, at, shift): `wavelet_step` for ranges of places, where `states` is a tuple of the int64 arrays lows,
#: highs, caps and totals
range_step: Any = intrinsic(_range_step)
#: (row_x, row_y, states, jobs, at, shift, waiting) -> jobs waiting now: one level of `boxes` for lanes at..at + LANES,
#: states and jobs tuples of int64 arrays as `boxes` describes them, jobs with room for LANES more
boxes_step: Any = intrinsic(_boxes_step)
#: (leaf, at, cap, upto) -> how many of the bytes leaf[at : at + upto] are smaller than cap; all LINE bytes must exist,
#: 0 <= upto < LINE
count_bytes_below: Any = intrinsic(_count_bytes_below)
#: (leaf, at, cap) -> uint64, bit i for leaf[at + i] < cap; all LINE bytes must exist, 0 <= cap < 256
bytes_below: Any = intrinsic(_bytes_below)
#: (column, at, value) -> how many of column[at : at + LANES] are smaller, all int64
count_below: Any = intrinsic(_count_below)
#: (column, begins, lengths, values, at): one step of the bisections of lanes at..at + LANES for the first code of
#: column[begin : begin + length] that is not below the value; those of length 0 have ended. All int64, length >= 0
bisect_step: Any = intrinsic(_bisect_step("<"))
#: Like `bisect_step`, for the first code above the value
bisect_step_above: Any = intrinsic(_bisect_step("<="))
#: (values, at, start, length) -> uint64, bit i where values[at + i] is less than `length` behind `start`,
#: modulo 2**32, all uint32; all HALVES values must exist
halves_within: Any = intrinsic(_halves_within)
#: (column, at): bring column[at] into the cache, without waiting for it
prefetch: Any = intrinsic(_prefetch)
