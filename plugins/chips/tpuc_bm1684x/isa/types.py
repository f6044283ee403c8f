"""Element types, operands, and layouts for authors of kernels."""

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

from tpuc_bm1684x.isa.geometry import EU_BYTES, LANE_BYTES, LANES, LMEM_BASE, LMEM_BYTES, round_up

Array = npt.NDArray[Any]
Shape4 = tuple[int, int, int, int]
Strides = tuple[int, int, int, int]
"""N, C, H, W in elements; C is the step from one group of 64 channels to the next. 0 repeats an element."""
Pair = tuple[int, int]


class DType(enum.Enum):
    """An element type: the `prec` code of the commands together with the sign bit."""

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
        """Can it hold negative values? The sign bit in a command; floats count as signed."""
        self.is_float = prec in (1, 2, 5)
        """Is it f16, bf16 or f32?"""
        self.bytes = (1, 2, 4, 2, 4, 2, 1)[prec]
        """Size of one element."""
        self.vector = EU_BYTES // self.bytes
        """Elements per lane and cycle, which is also the unit of the aligned layout."""

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of the same bits."""
        if self not in _NUMPY:
            raise IllegalCommand(f"{self.name.lower()}: the simulator has no 4-bit arithmetic; use int8")
        return _NUMPY[self]

    def with_sign(self, signed: bool) -> DType:
        """The type of the same width and the given sign; floats stay."""
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
    """The type of a `prec` code and a sign bit."""
    if prec in (1, 2, 5):
        return _BY_CODE[prec, True]
    if prec == 7:
        raise IllegalCommand("element type code 7 does not exist; the stream is damaged")
    return _BY_CODE[prec, bool(signed)]


class Layout(enum.IntEnum):
    """Where the elements of a tensor lie in a lane (isa/bm1684x/chip.md)."""

    ALIGNED = 0
    """Each 64-channel group starts on a 64-byte boundary."""
    COMPACT = 1
    """No gaps."""
    OFFSET = 2
    """As the register description lists it; no use is known."""
    TABLE = 4
    """One row of W elements, the same for every lane and channel."""


ROUNDINGS = (
    Rounding.HALF_TO_EVEN,
    Rounding.HALF_AWAY_FROM_ZERO,
    Rounding.TOWARDS_ZERO,
    Rounding.DOWN,
    Rounding.UP,
    Rounding.HALF_UP,
    Rounding.HALF_DOWN,
)
"""Index = the code in a command."""


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
    """An immediate operand: the bit pattern of its type, in the low bits of the command's 32."""

    bits: int
    dtype: DType

    @classmethod
    def of(cls, value: float, dtype: DType) -> Scalar:
        """The immediate for `value`."""
        if dtype.is_float:
            with np.errstate(over="ignore"):
                bits = np.array(value, np.float32).astype(dtype.numpy).view(f"u{dtype.bytes}")
            return cls(int(bits[()]), dtype)
        return cls(int(value) & ((1 << 8 * dtype.bytes) - 1), dtype)

    def value(self) -> Array:
        """A 0-d array of the operand type."""
        return np.array(self.bits & ((1 << 8 * self.dtype.bytes) - 1), f"u{self.dtype.bytes}").view(self.dtype.numpy)

    def __str__(self) -> str:
        return f"{self.value()[()]}:{self.dtype}"


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor in local memory: `address` = lane * 0x40000 + offset; `layout` a code or explicit strides."""

    address: int
    dtype: DType
    layout: Layout | Strides = Layout.ALIGNED

    @property
    def lane(self) -> int:
        """The lane of channel 0."""
        return self.address // LANE_BYTES

    @property
    def offset(self) -> int:
        """Byte offset, the same in all lanes."""
        return self.address % LANE_BYTES

    @property
    def layout_code(self) -> int:
        """The `*_str` code: 3 stands for explicit strides."""
        return int(self.layout) if isinstance(self.layout, Layout) else 3

    def strides(self, shape: Shape4) -> Strides:
        """Element strides for a tensor of `shape`; C is per group of 64 channels."""
        if not isinstance(self.layout, Layout):
            return self.layout
        return natural_strides(shape, self.dtype.vector, self.layout, self.lane)

    def region(self, shape: Shape4, repeats: bool = False) -> Region:
        """The bytes of a tensor of `shape` (its span in every lane that it uses). `repeats`: one table, all lanes."""
        return lane_region(self.address, shape, self.strides(shape), self.dtype.bytes, all_lanes=repeats)

    def __str__(self) -> str:
        layout = "" if self.layout == Layout.ALIGNED else f" {format_layout(self.layout)}"
        return f"[{format_address(self.address)}]:{self.dtype}{layout}"


Source = Operand | Scalar
"""What most operands may be: a tensor or an immediate."""


def regions_of(*sources: tuple[Source | None, Shape4]) -> list[Region]:
    """The bytes of those sources that are tensors, each with its extents."""
    return [source.region(shape) for source, shape in sources if isinstance(source, Operand)]


def natural_strides(shape: Shape4, unit: int, layout: Layout, lane: int) -> Strides:
    """Strides that a layout code stands for; `unit` = elements per 64 bytes."""
    _, c, h, w = shape
    if layout is Layout.TABLE:
        return (0, 0, w, 1)
    plane = round_up(h * w, unit) if layout is Layout.ALIGNED else h * w
    return (round_up(lane + c, LANES) // LANES * plane, plane, w, 1)


def line_strides(shape: Shape4, unit: int, lane: int) -> Strides:
    """Strides of the line-aligned layout: every row starts on a 64-byte boundary."""
    _, c, h, w = shape
    row = round_up(w, unit)
    return (round_up(lane + c, LANES) // LANES * h * row, h * row, row, 1)


def lane_region(address: int, shape: Shape4, strides: Strides, itemsize: int, *, all_lanes: bool = False) -> Region:
    """The region of a tensor in local memory."""
    n, c, h, w = shape
    lane, offset = divmod(address, LANE_BYTES)
    slots = round_up(lane + c, LANES) // LANES
    sn, sc, sh, sw = (step * itemsize for step in strides)
    end = offset + (n - 1) * sn + (slots - 1) * sc + (h - 1) * sh + (w - 1) * sw + itemsize
    if all_lanes:
        return Region("lmem", offset, end, 0, LANES)
    lanes = (0, LANES) if slots > 1 and lane < LANES else (lane, lane + c)
    return Region("lmem", offset, end, *lanes, RegionTensor(itemsize, (n, h, w), (sn, sh, sw), lane, c, sc, LANES))


def format_address(address: int) -> str:
    """`3:0x100` for byte 0x100 of lane 3, `0x100` in lane 0."""
    lane, offset = divmod(address, LANE_BYTES)
    return f"{lane}:{offset:#x}" if lane else f"{offset:#x}"


def in_lmem(address: int) -> bool:
    """Does the DMA address lie in local memory?"""
    return LMEM_BASE <= address < LMEM_BASE + LMEM_BYTES


def format_dma(address: int) -> str:
    """`lmem:3:0x100`, or the plain number for other memories."""
    return f"lmem:{format_address(address - LMEM_BASE)}" if in_lmem(address) else f"{address:#x}"


def format_layout(layout: Layout | Strides) -> str:
    """`compact`, or `strides 60,30,6,1`."""
    return layout.name.lower() if isinstance(layout, Layout) else "strides " + ",".join(map(str, layout))


def layout_of(code: int, strides: Strides) -> Layout | Strides:
    """The layout of a `*_str` code."""
    if code == 3:
        return strides
    if code not in (0, 1, 2, 4):
        raise IllegalCommand(f"layout code {code} does not exist; the stream is damaged")
    return Layout(code)


def float_bits(value: float) -> int:
    """The f32 bit pattern of `value`, rounded half to even; beyond the range infinity."""
    with np.errstate(over="ignore"):
        return int(np.array(value, np.float32).view(np.uint32)[()])


def bits_float(bits: int) -> float:
    """The value of an f32 bit pattern; every NaN becomes the same one."""
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return math.nan if math.isnan(value) else float(value)


def span_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one, both included."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
