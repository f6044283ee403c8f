"""What random single-instruction cases are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc_bm1684x.isa import DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.geometry import LMEM_BASE
from tpuc_bm1684x.isa.types import Shape4, Strides, natural_strides

Array = np.ndarray[Any, Any]
INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32)
FLOATS = (DType.F16, DType.BF16, DType.F32)
_EDGES = """
    0.0 -0.0 1 -1 0.5 2.5 -3.5 127.5 -128.5 0.3333333 65504 7e4 16777217 3e9 -3e9 inf -inf nan -nan
    3e38 -3e38 1e38 1e20 -1e-19 1e-20 1e-45 1e-40 -1e-40 1.17549435e-38 -2e-38 1e-38 6e-5 -3e-6 6e-8
"""
EDGES = np.array(_EDGES.split(), np.float32)
WINDOW_BYTES = 0x10000
"""All operands lie in this much of each lane."""
A, B, C, D, RESULT, WEIGHT = 0, 0x2000, 0x3000, 0x3800, 0x4000, 0x8000


@dataclass(frozen=True)
class Place:
    """A tensor at a DMA address with explicit strides."""

    address: int
    shape: Shape4
    strides: Strides
    dtype: DType


@dataclass
class Case:
    """One instruction, what to write before and what to compare after, bit for bit."""

    instruction: Any
    writes: list[tuple[Place, Array]]
    result: Place


@dataclass
class Draw:
    """Random choices, and the operands written so far."""

    rng: np.random.Generator
    edges: bool = False
    """Are most floats infinite, no number, denormal, zeros of both signs, at the ends of a range or halves?"""
    writes: list[tuple[Place, Array]] = field(default_factory=list)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def shape(self, c: int = 80, h: int = 4, w: int = 12) -> Shape4:
        return (self.number(1, 3), self.number(1, c), self.number(1, h), self.number(1, w))

    def put(self, operand: Operand, shape: Shape4, values: Array | None = None) -> Operand:
        """Write random or given values."""
        if values is None:
            values = self.values(operand.dtype, shape)
        place = Place(LMEM_BASE + operand.address, shape, operand.strides(shape), operand.dtype)
        self.writes.append((place, np.ascontiguousarray(np.broadcast_to(values, shape)).astype(operand.dtype.numpy)))
        return operand

    def values(self, dtype: DType, shape: Shape4, scale: float = 4.0) -> Array:
        if dtype.is_float:
            with np.errstate(over="ignore"):  # infinities are welcome inputs
                ordinary = (self.rng.standard_normal(shape) * scale).astype(np.float32)
                if self.edges:
                    rare = self.rng.choice(EDGES, shape)
                    ordinary = np.where(self.rng.random(shape) < 0.6, rare, ordinary)
                return ordinary.astype(dtype.numpy)
        limits = np.iinfo(dtype.numpy)
        wide = self.rng.integers(limits.min, limits.max, shape, endpoint=True)
        return (wide >> self.rng.integers(0, 8 * dtype.bytes, shape)).astype(dtype.numpy)

    def tensor(self, address: int, dtype: DType, shape: Shape4) -> Operand:
        """A written operand, aligned, compact or with gaps."""
        layout: Layout | Strides = self.pick(Layout.ALIGNED, Layout.ALIGNED, Layout.COMPACT, (0, 0, 0, 0))
        if not isinstance(layout, Layout):
            n, c, h, w = natural_strides(shape, dtype.bytes, Layout.ALIGNED, address >> 18)
            layout = (n + 3 * shape[2], c + 3 * shape[2], h + 1, w)
            layout = (layout[0] * 2, layout[1] * 2, layout[2], layout[3])
        return self.put(Operand(address, dtype, layout), shape)

    def source(self, address: int, dtype: DType, shape: Shape4) -> Operand | Scalar:
        """A tensor or an immediate."""
        return self.pick(self.tensor(address, dtype, shape), Scalar.of(self.number(0, 100), dtype))

    def case(self, instruction: Any, operand: Operand, shape: Shape4) -> Case:
        place = Place(LMEM_BASE + operand.address, shape, operand.strides(shape), operand.dtype)
        return Case(instruction, self.writes, place)


def differences(expected: Array, got: Array, any_nan: bool = False) -> int:
    """How many elements differ in any bit; with `any_nan` every NaN is the same."""
    kind = f"u{expected.dtype.itemsize}"
    unequal = np.ascontiguousarray(expected).view(kind) != np.ascontiguousarray(got).view(kind)
    if any_nan and expected.dtype.kind not in "iu":
        unequal &= ~(np.isnan(expected) & np.isnan(got))
    return int(np.count_nonzero(unequal))
