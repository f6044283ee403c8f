"""What random single-instruction cases are made of: filled memories, operands, shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc_cv18.isa import DType, Layout, Operand, Scalar, Target, lane_address, natural_strides
from tpuc_cv18.machine import Machine

Array = np.ndarray[Any, Any]
Shape4 = tuple[int, int, int, int]
WINDOW_BYTES = 0x4000
"""All operands lie in this much of each lane."""
GMEM_BYTES = 0x8000
"""Behind each base register that cases use."""
BASES = 3
A, B, RESULT, WEIGHT, THIRD = 0, 0x1000, 0x2000, 0x2C00, 0x3A00


@dataclass
class Case:
    """One instruction and the memories that it finds."""

    instruction: Any
    lmem: Array
    """`[lanes, WINDOW_BYTES]`"""
    gmem: Array
    """`[BASES, GMEM_BYTES]`"""

    def load(self, machine: Machine) -> None:
        """Put the memories into a machine."""
        machine.lmem[:, :WINDOW_BYTES] = self.lmem
        for base in range(BASES):
            machine.gmem[base] = self.gmem[base].copy()


@dataclass
class Draw:
    """Random choices, and memories filled by them."""

    rng: np.random.Generator
    target: Target
    floats: bool = False
    wild: bool = False
    lmem: Array = field(init=False)
    gmem: Array = field(init=False)

    def __post_init__(self) -> None:
        self.lmem = self._fill((self.target.lanes, WINDOW_BYTES))
        self.gmem = self._fill((BASES, GMEM_BYTES))

    def _fill(self, size: tuple[int, int]) -> Array:
        if not self.floats:
            data = self.rng.integers(0, 256, size, np.uint8)
            if self.rng.integers(3) == 0:  # small magnitudes, so that less saturates
                data = (data.view(np.int8) >> int(self.rng.integers(1, 6))).view(np.uint8)
            return data
        count = (size[0], size[1] // 2)
        values = self.rng.standard_normal(count).astype(np.float32) * np.exp2(self.rng.integers(-9, 10, count))
        bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        bits[self.rng.random(count) < 0.1] = 0
        if self.wild:
            some = self.rng.random(count) < 0.02
            bits[some] = self.rng.integers(0, 65536, int(some.sum()))
        return bits.view(np.uint8)

    def case(self, instruction: Any) -> Case:
        """The finished case."""
        return Case(instruction.on(self.target), self.lmem, self.gmem)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def chance(self, one_in: int = 2) -> bool:
        return bool(self.rng.integers(one_in) == 0)

    def number(self, low: int, high: int) -> int:
        """Low <= result < high."""
        return int(self.rng.integers(low, high))

    @property
    def least_shift(self) -> int:
        """Of shifts behind a multiplier; below 0 they go to the left."""
        return -31 if self.target.has_comparisons and self.chance(4) else 0

    @property
    def most(self) -> int:
        """Channels that go around the lanes up to three times."""
        return 2 * self.target.lanes + 6

    @property
    def some(self) -> int:
        """Channels that may go around the lanes twice."""
        return self.target.lanes + 8

    def shape(self, h: int = 5, w: int = 9) -> Shape4:
        return (self.number(1, 3), self.number(1, self.most), self.number(1, h), self.number(1, w))

    def address(self, start: int, lanes: bool = False) -> int:
        """An address at `start`, sometimes in another lane."""
        return lane_address(self.number(0, self.target.lanes) if lanes and self.chance(3) else 0, start)

    def beside(self, start: int, result: Operand) -> int:
        """An address at `start` that an operand with 16-bit addresses beside `result` can have."""
        return lane_address((result.lane & ~1) + (self.number(0, 2) if result.lane else 0), start)

    def tensor(
        self,
        start: int,
        dtype: DType,
        shape: Shape4,
        lanes: bool = False,
        gaps: bool = True,
        beside: Operand | None = None,
    ) -> Operand:
        """An operand with aligned, compact or gapped strides."""
        address = self.address(start, lanes) if beside is None else self.beside(start, beside)
        layout = self.pick(Layout.ALIGNED, Layout.ALIGNED, Layout.COMPACT)
        strides = natural_strides(self.target, shape, dtype.bytes, layout)
        groups = (address // 0x8000 + shape[1] + self.target.lanes - 1) // self.target.lanes
        n, c, h, w = strides
        if gaps and self.chance(3):
            step = self.number(1, 3)
            w, h = w * step, h * step + self.pick(0, 2) * dtype.bytes
            c = h * shape[2]
        n = max(n, c * groups)
        if not gaps:
            n = -(-n // 16) * 16
        return Operand(address, dtype, (n, c, h, w), n * shape[0] if dtype.planes > 1 else 0)

    def aligned(self, start: int, dtype: DType, lanes: bool = False) -> Operand:
        return Operand(self.address(start, lanes), dtype)

    def put(self, address: int, values: Array) -> None:
        """Write `[channels, bytes]` in groups of lanes, compact."""
        data = np.ascontiguousarray(values).view(np.uint8).reshape(values.shape[0], -1)
        lane, offset = divmod(address, 0x8000)
        for channel, row in enumerate(data, lane):
            start = offset + channel // self.target.lanes * row.size
            self.lmem[channel % self.target.lanes, start : start + row.size] = row

    def scalar(self, dtype: DType) -> Scalar:
        if dtype.is_float:
            return Scalar.of(float(self.rng.standard_normal() * 4), dtype)
        return Scalar(self.number(0, 1 << 8 * dtype.planes), dtype)
