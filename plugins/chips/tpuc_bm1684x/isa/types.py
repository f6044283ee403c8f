"""Element types, operands and layouts for kernel authors."""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tpuc.api import IllegalCommand, Region, RegionTensor
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.isa.geometry import EU_BYTES, LANE_BYTES, round_up
from tpuc_bm1684x.isa.target import BM1684X, Target

Array = npt.NDArray[Any]
Shape4 = tuple[int, int, int, int]
Strides = tuple[int, int, int, int]
"""N, C, H, W strides in elements. C is the step from one group of 64 channels to the next; 0 broadcasts."""
Pair = tuple[int, int]


class DType(enum.Enum):
    """An element type: the `prec` code of commands together with the sign bit."""

    INT8 = (0, True)
    UINT8 = (0, False)
    F16 = (1, True)
    F32 = (2, True)
    INT16 = (3, True)
    UINT16 = (3, False)
    INT32 = (4, True)
    UINT32 = (4, False)
    BF16 = (5, True)
    INT4 = (6, True)
    UINT4 = (6, False)

    def __init__(self, prec: int, signed: bool) -> None:
        self.prec = prec
        """The type code in a command."""
        self.signed = signed
        """The type holds negative values: the sign bit in a command. Floats count as signed."""
        self.is_float = prec in (1, 2, 5)
        """The type is f16, bf16 or f32."""
        self.bytes = (1, 2, 4, 2, 4, 2, 1)[prec]
        """Size of one element."""
        self.vector = EU_BYTES // self.bytes
        """Elements per lane and cycle of BM1684X."""

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type with the same bits; raises IllegalCommand for 4-bit types."""
        if self not in _NUMPY:
            raise IllegalCommand(f"{self.name.lower()}: the simulator has no 4-bit arithmetic; use int8")
        return _NUMPY[self]

    def with_sign(self, signed: bool) -> DType:
        """The type of the same width with the given sign; floats are unchanged."""
        return dtype_of(self.prec, signed)

    def __str__(self) -> str:
        return self.name.lower()


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.INT8: np.dtype(np.int8),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT16: np.dtype(np.int16),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT32: np.dtype(np.int32),
    DType.UINT32: np.dtype(np.uint32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.F32: np.dtype(np.float32),
}
_BY_CODE: dict[tuple[int, bool], DType] = {(dtype.prec, dtype.signed): dtype for dtype in DType}


def dtype_of(prec: int, signed: bool | int = True) -> DType:
    """The type for a `prec` code and a sign bit."""
    if prec in (1, 2, 5):
        return _BY_CODE[prec, True]
    if prec == 7:
        raise IllegalCommand("element type code 7 does not exist; the stream is damaged")
    return _BY_CODE[prec, bool(signed)]


class Layout(enum.IntEnum):
    """Placement of a tensor's elements in a lane (isa/bm1684x/chip.md)."""

    ALIGNED = 0
    """Each 64-channel group starts on a 64-byte boundary."""
    COMPACT = 1
    """No gaps."""
    OFFSET = 2
    """Listed in the register description; no use is known."""
    TABLE = 4
    """One row of W elements, identical for all lanes and channels."""


ROUNDINGS = (
    Rounding.HALF_TO_EVEN,
    Rounding.HALF_AWAY_FROM_ZERO,
    Rounding.TOWARDS_ZERO,
    Rounding.DOWN,
    Rounding.UP,
    Rounding.HALF_UP,
    Rounding.HALF_DOWN,
)
"""Rounding modes, indexed by their code in commands."""


def rounding_code(rounding: Rounding) -> int:
    """The 3-bit code of a rounding mode."""
    if rounding not in ROUNDINGS:
        raise IllegalCommand(f"rounding {rounding.value}: the BM1684X has no such mode; use one of its seven")
    return ROUNDINGS.index(rounding)


def rounding_of(code: int) -> Rounding:
    """The rounding mode of a 3-bit code."""
    if code >= len(ROUNDINGS):
        raise IllegalCommand(f"rounding code {code} does not exist; the stream is damaged")
    return ROUNDINGS[code]


@dataclass(frozen=True, slots=True)
class Scalar:
    """An immediate operand: the bit pattern of its type in the low bits of a 32-bit field."""

    bits: int
    dtype: DType

    @classmethod
    def of(cls, value: float, dtype: DType) -> Scalar:
        """Encode `value` as an immediate."""
        if dtype.is_float:
            with np.errstate(over="ignore"):
                bits = np.array(value, np.float32).astype(dtype.numpy).view(f"u{dtype.bytes}")
            return cls(int(bits[()]), dtype)
        return cls(int(value) & ((1 << 8 * dtype.bytes) - 1), dtype)

    def value(self) -> Array:
        """The value as a 0-d array of the operand's type."""
        return np.array(self.bits & ((1 << 8 * self.dtype.bytes) - 1), f"u{self.dtype.bytes}").view(self.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.value()[()]}:{self.dtype}"


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor in local memory: `address` is lane * 0x40000 + offset; `layout` is a code or explicit strides."""

    address: int
    dtype: DType
    layout: Layout | Strides = Layout.ALIGNED

    @property
    def lane(self) -> int:
        """The lane of channel 0."""
        return self.address // LANE_BYTES

    @property
    def offset(self) -> int:
        """The byte offset, equal in all lanes."""
        return self.address % LANE_BYTES

    @property
    def layout_code(self) -> int:
        """The `*_str` code; 3 means explicit strides."""
        return int(self.layout) if isinstance(self.layout, Layout) else 3

    def strides(self, shape: Shape4, target: Target = BM1684X) -> Strides:
        """Element strides for a tensor of `shape`; the C stride is per group of as many channels as lanes."""
        if not isinstance(self.layout, Layout):
            return self.layout
        return natural_strides(shape, self.dtype.bytes, self.layout, self.address // target.lane_bytes, target)

    def region(self, shape: Shape4, target: Target = BM1684X) -> Region:
        """The region of a tensor of `shape`: its span in every lane it uses."""
        return lane_region(self.address, shape, self.strides(shape, target), self.dtype.bytes, target)

    def text(self, target: Target = BM1684X) -> str:
        """Format for a disassembly."""
        layout = "" if self.layout == Layout.ALIGNED else f" {format_layout(self.layout)}"
        return f"[{target.format_address(self.address)}]:{self.dtype}{layout}"

    def __str__(self) -> str:
        return self.text()


Source = Operand | Scalar
"""A tensor or an immediate, which most operands accept."""


def regions_of(target: Target, *sources: tuple[Source | None, Shape4]) -> list[Region]:
    """The regions of the sources that are tensors, each with its extents."""
    return [source.region(shape, target) for source, shape in sources if isinstance(source, Operand)]


def natural_strides(shape: Shape4, item_bytes: int, layout: Layout, lane: int = 0, target: Target = BM1684X) -> Strides:
    """The strides of a layout code."""
    _, c, h, w = shape
    if layout is Layout.TABLE:
        return (0, 0, w, 1)
    plane = round_up(h * w, target.eu_bytes // item_bytes) if layout is Layout.ALIGNED else h * w
    return (-(-(lane + c) // target.lanes) * plane, plane, w, 1)


def line_strides(shape: Shape4, item_bytes: int, lane: int, target: Target) -> Strides:
    """Strides of the line-aligned layout: every row starts at a multiple of `eu_bytes`."""
    _, c, h, w = shape
    row = round_up(w, target.vector(item_bytes))
    return (target.slots_of(lane, c) * h * row, h * row, row, 1)


def lane_region(address: int, shape: Shape4, strides: Strides, itemsize: int, target: Target = BM1684X) -> Region:
    """The region of a tensor in local memory."""
    n, c, h, w = shape
    lane, offset = divmod(address, target.lane_bytes)
    lanes_of_chip = target.lanes
    slots = -(-(lane + c) // lanes_of_chip)
    sn, sc, sh, sw = (step * itemsize for step in strides)
    end = offset + (n - 1) * sn + (slots - 1) * sc + (h - 1) * sh + (w - 1) * sw + itemsize
    lanes = (0, lanes_of_chip) if slots > 1 and lane < lanes_of_chip else (lane, lane + c)
    tensor = RegionTensor(itemsize, (n, h, w), (sn, sh, sw), lane, c, sc, lanes_of_chip)
    return Region("lmem", offset, end, *lanes, tensor)


def in_lmem(address: int) -> bool:
    """True for a DMA address in local memory of BM1684X."""
    return BM1684X.in_lmem(address)


def format_layout(layout: Layout | Strides) -> str:
    """Format a layout: `compact`, or `strides 60,30,6,1`."""
    return layout.name.lower() if isinstance(layout, Layout) else "strides " + ",".join(map(str, layout))


def layout_of(code: int, strides: Strides) -> Layout | Strides:
    """The layout for a `*_str` code; raises IllegalCommand for an unknown code."""
    if code == 3:
        return strides
    if code not in (0, 1, 2, 4):
        raise IllegalCommand(f"layout code {code} does not exist; the stream is damaged")
    return Layout(code)


def float_bits(value: float) -> int:
    """The f32 bit pattern of `value`, rounded half to even; overflow gives infinity."""
    with np.errstate(over="ignore"):
        return int(np.array(value, np.float32).view(np.uint32)[()])


def bits_float(bits: int) -> float:
    """The value of an f32 bit pattern; all NaNs become the same NaN."""
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return math.nan if math.isnan(value) else float(value)


def span_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements from the first to the last, both included."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
