"""What the commands of the toy chip name: tensors in lanes, strided tensors in DDR, sliding windows (manual, 2)."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import Region, ScalarType

LANES = 8
LANE_BYTES = 2048
VECTOR_BYTES = 8
"""Aligned planes are whole vectors, and LMEM addresses in the code that we generate are multiples of it."""
DDR_BASE = 0x1000_0000

Pair: TypeAlias = tuple[int, int]
Four: TypeAlias = tuple[int, int, int, int]


class DType(enum.IntEnum):
    """Element types by their code in a command."""

    I8 = 0
    U8 = 1
    I32 = 2
    F32 = 3

    @property
    def numpy(self) -> str:
        """The numpy name."""
        return ("int8", "uint8", "int32", "float32")[self]

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return (1, 1, 4, 4)[self]

    @staticmethod
    def of(element: ScalarType) -> DType:
        """The code of an element type of the IR, in which `i8` and `si8` are the same."""
        return DType[element.name.replace("si", "i").replace("ui", "u").upper()]


class Layout(enum.IntEnum):
    """How the planes of a tensor follow each other in a lane."""

    ALIGNED = 0
    COMPACT = 1


@dataclass(frozen=True)
class Operand:
    """A tensor in LMEM: `address` in every lane, extents n, c, h, w. Channel c lies in lane c mod 8, slot c div 8."""

    address: int
    shape: Four
    dtype: DType
    layout: Layout = Layout.ALIGNED

    @property
    def slots(self) -> int:
        """Channels per lane."""
        return -(-self.shape[1] // LANES)

    @property
    def plane_bytes(self) -> int:
        """From one plane (one image of one channel) to the next."""
        size = self.shape[2] * self.shape[3] * self.dtype.bytes
        return -(-size // VECTOR_BYTES) * VECTOR_BYTES if self.layout is Layout.ALIGNED else size

    @property
    def bytes_per_lane(self) -> int:
        """Bytes of all planes in one lane."""
        return self.shape[0] * self.slots * self.plane_bytes

    @property
    def region(self) -> Region:
        """Where it lies."""
        return Region("lmem", self.address, self.address + self.bytes_per_lane, 0, min(self.shape[1], LANES))

    def __str__(self) -> str:
        extents = "x".join(map(str, self.shape))
        return f"{self.dtype.name.lower()}[{extents}]@{self.address:#x}:{self.layout.name.lower()}"


@dataclass(frozen=True)
class Strided:
    """A tensor in DDR: byte `address` of its first element, extents and strides in elements."""

    address: int
    shape: Four
    strides: Four
    dtype: DType

    @property
    def span_bytes(self) -> int:
        """From the first byte to the end of the last element."""
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * self.dtype.bytes

    @property
    def region(self) -> Region:
        """Where it lies, gaps included."""
        return Region("ddr", self.address, self.address + self.span_bytes)

    @property
    def payload_bytes(self) -> int:
        """Bytes that a transfer moves."""
        return math.prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        extents, strides = "x".join(map(str, self.shape)), ",".join(map(str, self.strides))
        return f"{self.dtype.name.lower()}[{extents}]@{self.address:#x}:{strides}"


@dataclass(frozen=True)
class Window:
    """A sliding window. `pads`: top, left, bottom, right, within the padding that this tile has left."""

    kernel: Pair
    strides: Pair = (1, 1)
    pads: Four = (0, 0, 0, 0)
    dilations: Pair = (1, 1)

    @property
    def extents(self) -> Pair:
        """Rows and columns from the first tap to the last."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return ((kh - 1) * dh + 1, (kw - 1) * dw + 1)

    @property
    def taps(self) -> int:
        """Elements under the window."""
        return self.kernel[0] * self.kernel[1]

    def __str__(self) -> str:
        kernel, strides, dilations = ("x".join(map(str, pair)) for pair in (self.kernel, self.strides, self.dilations))
        return f"{kernel}/s{strides}/p{','.join(map(str, self.pads))}/d{dilations}"
