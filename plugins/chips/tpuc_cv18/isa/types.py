"""Element types, operands and layouts for kernel authors. Strides are in bytes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc.api import Region, RegionTensor

from tpuc_cv18.isa.geometry import EU_BYTES, LANE_BYTES, round_up
from tpuc_cv18.isa.target import Target

Array = npt.NDArray[Any]
Shape4 = tuple[int, int, int, int]
Strides = tuple[int, int, int, int]
"""N, C, H, W strides in bytes. C is the step from one group of channels (one per lane) to the next; 0 broadcasts."""
Pair = tuple[int, int]
NEAR_MASK = 0xFFFF
"""Right and third operands have 16-bit addresses, which reach the pair of lanes where the result starts."""


class DType(enum.Enum):
    """An element type: bytes per plane, planes, and the sign flag."""

    INT8 = (1, 1, True)
    UINT8 = (1, 1, False)
    INT16 = (1, 2, True)
    UINT16 = (1, 2, False)
    BF16 = (2, 1, True)

    def __init__(self, size: int, planes: int, signed: bool) -> None:
        self.bytes = size
        """Bytes of one element in one plane; 16-bit integers are stored as two byte planes."""
        self.planes = planes
        """Number of planes, least significant byte first."""
        self.signed = signed
        """The type holds negative values."""
        self.vector = EU_BYTES // size
        """Elements per lane and cycle."""

    @property
    def is_float(self) -> bool:
        """True for bf16."""
        return self is DType.BF16

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy type of the values; bf16 as its 16 bits."""
        return _NUMPY[self]

    def __str__(self) -> str:
        return self.name.lower()


_NUMPY: dict[DType, np.dtype[Any]] = {
    DType.INT8: np.dtype(np.int8),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT16: np.dtype(np.int16),
    DType.UINT16: np.dtype(np.uint16),
    DType.BF16: np.dtype(np.uint16),
}


def dtype_of(is_float: int, is_byte: int, is_signed: int) -> DType:
    """The type for the flags of a compute descriptor."""
    if is_float:
        return DType.BF16
    if is_byte:
        return DType.INT8 if is_signed else DType.UINT8
    return DType.INT16 if is_signed else DType.UINT16


class Layout(enum.IntEnum):
    """Placement of a tensor's elements in a lane; the value is the `short_*_str` code."""

    ALIGNED = 0
    """Each group of channels starts on a 16-byte boundary."""
    COMPACT = 1
    """No gaps."""
    CHANNEL = 2
    """One element per channel."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """An immediate operand: the bit pattern of its type."""

    bits: int
    dtype: DType

    @classmethod
    def of(cls, value: float, dtype: DType) -> Scalar:
        """Encode `value` as an immediate. bf16 rounds half to even and saturates at the largest number of its sign."""
        if dtype.is_float:
            return cls(bf16_bits(value), dtype)
        return cls(int(value) & ((1 << 8 * dtype.planes) - 1), dtype)

    def value(self) -> Array:
        """The value as a 0-d array of the operand's type; bf16 as bits."""
        return np.array(self.bits & ((1 << 8 * self.dtype.numpy.itemsize) - 1), f"u{self.dtype.numpy.itemsize}").view(
            self.dtype.numpy
        )

    def __str__(self) -> str:
        value = f"{bf16_value(self.bits):.6g}" if self.dtype.is_float else str(int(self.value()))
        return f"{value}:{self.dtype}"


def bf16_bits(value: float) -> int:
    """The bf16 pattern nearest to `value`, half to even; overflow saturates at the largest number of its sign, NaN
    gives 0x7F7F.
    """
    with np.errstate(over="ignore"):
        bits = int(np.array(value, np.float32).view(np.uint32)[()])
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7F7F
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF
    return rounded & 0x8000 | 0x7F7F if rounded & 0x7F80 == 0x7F80 else rounded


def bf16_value(bits: int) -> float:
    """The value of a bf16 pattern."""
    return float(np.array((bits & 0xFFFF) << 16, np.uint32).view(np.float32)[()])


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor in local memory: `address` is lane * 0x8000 + offset; `layout` is a code or explicit byte strides.

    `plane_step`: distance in bytes between the byte planes of a 16-bit integer or of 32-bit partial sums; 0 means
    adjacent planes (batches * batch stride).
    """

    address: int
    dtype: DType
    layout: Layout | Strides = Layout.ALIGNED
    plane_step: int = 0

    @property
    def lane(self) -> int:
        """The lane of channel 0."""
        return self.address // LANE_BYTES

    @property
    def offset(self) -> int:
        """The byte offset, equal in all lanes."""
        return self.address % LANE_BYTES

    def strides(self, shape: Shape4, target: Target) -> Strides:
        """Byte strides for a tensor of `shape`; the C stride is per group of channels."""
        if isinstance(self.layout, Layout):
            return natural_strides(target, shape, self.dtype.bytes, self.layout)
        return self.layout

    def step(self, shape: Shape4, target: Target) -> int:
        """Distance between planes in bytes."""
        return self.plane_step or shape[0] * self.strides(shape, target)[0]

    def regions(self, shape: Shape4, target: Target, planes: int = 0) -> list[Region]:
        """The regions of a tensor of `shape`, plane by plane: its span in every lane it uses."""
        strides, step = self.strides(shape, target), self.step(shape, target)
        return [
            lane_region(target, self.lane, self.offset + plane * step, shape, strides, self.dtype.bytes)
            for plane in range(planes or self.dtype.planes)
        ]

    def __str__(self) -> str:
        layout = "" if self.layout == Layout.ALIGNED else f" {format_layout(self.layout)}"
        planes = f" planes {self.plane_step:#x}" if self.plane_step else ""
        return f"[{format_address(self.address)}]:{self.dtype}{layout}{planes}"


Source = Operand | Scalar
"""A tensor or an immediate, which a right operand accepts."""


def natural_strides(target: Target, shape: Shape4, item_bytes: int, layout: Layout = Layout.ALIGNED) -> Strides:
    """The byte strides of a layout code (chip.md, "LMEM tensor layout")."""
    _, c, h, w = shape
    groups = target.groups_of(c)
    if layout is Layout.CHANNEL:
        return (groups * item_bytes, item_bytes, item_bytes, item_bytes)
    plane = h * w * item_bytes
    if layout is Layout.ALIGNED:
        plane = round_up(plane, EU_BYTES)
    return (groups * plane, plane, w * item_bytes, item_bytes)


def lane_region(target: Target, lane: int, offset: int, shape: Shape4, strides: Strides, item_bytes: int) -> Region:
    """The region of a tensor in local memory."""
    n, c, h, w = shape
    groups = target.groups_of(lane + c)
    sn, sc, sh, sw = strides
    span = (n - 1) * sn + (groups - 1) * sc + (h - 1) * sh + (w - 1) * sw
    lanes = (0, target.lanes) if groups > 1 and lane < target.lanes else (lane, lane + c)
    tensor = RegionTensor(item_bytes, (n, h, w), (sn, sh, sw), lane, c, sc, target.lanes)
    return Region("lmem", offset, offset + span + item_bytes, *lanes, tensor)


def format_address(address: int) -> str:
    """Format an address: `3:0x100` for byte 0x100 of lane 3, `0x100` for lane 0."""
    lane, offset = divmod(address, LANE_BYTES)
    return f"{lane}:{offset:#x}" if lane else f"{offset:#x}"


def format_layout(layout: Layout | Strides) -> str:
    """Format a layout: `compact`, or `strides 60,30,6,1`."""
    return layout.name.lower() if isinstance(layout, Layout) else "strides " + ",".join(map(str, layout))
