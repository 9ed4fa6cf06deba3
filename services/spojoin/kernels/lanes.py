# ruff: noqa: ANN401  (numba hands out untyped contexts and builders)
"""Steps of searches that LANES probes take together, as vector instructions.

Every step of a search waits for a load whose place the step before has found. The compiler doesn't vectorise such
loops, as it can't rule out that the probes' states alias the structure they search, so these steps are written as
LLVM vectors: a gather serves LANES probes at once, and waits of neighbouring groups overlap. LLVM lowers them to
whatever the machine has (AVX-512, AVX2, or scalar loads).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: int64 lanes of a 512-bit register.
LANES = 8

_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_POINTERS = ir.VectorType(_WORD.as_pointer(), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)
_INDEX = ir.IntType(32)


def _declared(module: Any, signature: Any, name: str) -> Any:
    declare: Any = cgutils.get_or_insert_function
    return declare(module, signature, name)


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
        single = self.builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, _INDEX(0))
        first = ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
        return self.builder.shuffle_vector(single, ir.Constant(_VECTOR, ir.Undefined), first)

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

    def popcount(self, value: Any) -> Any:
        signature = ir.FunctionType(_VECTOR, [_VECTOR])
        function = _declared(self.builder.module, signature, f"llvm.ctpop.v{LANES}i64")
        return self.builder.call(function, [value])


def _wavelet_step(_context: Any, row: Any, places: Any, caps: Any, totals: Any, at: Any, shift: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        place_slot, cap_slot, total_slot = (e.slot(signature.args[i], arguments[i], arguments[4]) for i in (1, 2, 3))
        place, cap = e.load(place_slot), e.load(cap_slot)
        entry = e.gather(e.data(signature.args[0], arguments[0]), b.lshr(place, e.constant(5)))
        half = b.shl(e.constant(1), e.splat(arguments[5]))
        start = b.and_(cap, b.neg(b.shl(half, e.constant(1))))
        below = b.sub(b.shl(e.constant(1), b.and_(place, e.constant(31))), e.constant(1))
        zeros = b.add(b.lshr(entry, e.constant(32)), e.popcount(b.and_(entry, below)))
        zeros = b.sub(zeros, b.lshr(start, e.constant(1)))
        right = b.icmp_unsigned("!=", b.and_(cap, half), e.constant(0))
        e.store(b.add(e.load(total_slot), b.select(right, zeros, e.constant(0))), total_slot)
        ones = b.sub(b.sub(place, start), zeros)
        e.store(b.add(start, b.select(right, b.add(half, ones), zeros)), place_slot)
        return context.get_dummy_value()

    return types.void(row, places, caps, totals, types.int64, types.int64), generate


def _bisect_step(_context: Any, column: Any, places: Any, values: Any, at: Any, half: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        e, b = _Emitter(context, builder), builder
        place_slot, value_slot = (e.slot(signature.args[i], arguments[i], arguments[3]) for i in (1, 2))
        half = e.splat(arguments[4])
        place = e.load(place_slot)
        found = e.gather(e.data(signature.args[0], arguments[0]), b.sub(b.add(place, half), e.constant(1)))
        less = b.icmp_signed("<", found, e.load(value_slot))
        e.store(b.add(place, b.select(less, half, e.constant(0))), place_slot)
        return context.get_dummy_value()

    return types.void(column, places, values, types.int64, types.int64), generate


#: (row, places, caps, totals, at, shift): one level's descent of lanes at..at + LANES of a wavelet matrix, where
#: `row` is the level, uint64; places, caps, totals are the states, int64; 1 << shift is half a node
wavelet_step: Any = intrinsic(_wavelet_step)
#: (column, places, values, at, half): places[q] += half where column[places[q] + half - 1] < values[q], all int64,
#: for q in at..at + LANES
bisect_step: Any = intrinsic(_bisect_step)
