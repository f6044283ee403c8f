"""DMA commands for tensors: copies, conversions, transpositions."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tpuc.api import IllegalCommand, Region, RegionTensor
from tpuc.api.encoding import (
    Constant,
    Defaulted,
    Derived,
    Draft,
    Encoding,
    FieldCodec,
    Fields,
    Ignored,
    Numbers,
    Words,
    flag,
)
from tpuc_ops.quant.arithmetic import Rounding, round_to_int, saturate

from tpuc_cv18.isa.bf16 import narrow
from tpuc_cv18.isa.codecs import Extents, extents
from tpuc_cv18.isa.command import DmaInstruction, check_multiple, format_direction
from tpuc_cv18.isa.compression import COMPRESSION, Compression, compress, decompress, stream_limit
from tpuc_cv18.isa.geometry import GMEM_BASE, GMEM_BITS, LANE_BYTES, is_gmem
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import Array, DType, Shape4, Strides, lane_region, natural_strides

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

Steps = tuple[int, int, int]
"""N, C, H strides in bytes; W is dense. In local memory C is per group of channels."""
_FORMAT_BYTES = {1: 1, 2: 2}
_BEYOND_BYTES = np.float32(1 << 16)


class Direction(enum.IntEnum):
    """Direction of a transfer (field `trans_dir`)."""

    LOAD = 0
    STORE = 1
    GMEM = 2
    LOCAL = 3


class MoveFunction(enum.Enum):
    """A function that a copy of bf16 within local memory applies."""

    NONE = 0
    EXPONENT_INDEX = 1
    """mv_lut_idx: table index (exponent - 127 + 63, + 128 if negative) in both bytes; 0 gives 0"""
    CLEAR_MANTISSA = 2
    """mv_lut_base"""


def direction_of(source: int, destination: int) -> Direction:
    """The direction of a transfer."""
    if is_gmem(source):
        return Direction.GMEM if is_gmem(destination) else Direction.LOAD
    return Direction.STORE if is_gmem(destination) else Direction.LOCAL


def default_steps(target: Target, address: int, shape: Shape4, item_bytes: int) -> Steps:
    """Dense strides in GMEM, ALIGNED strides in local memory."""
    if is_gmem(address):
        _, c, h, w = shape
        return (c * h * w * item_bytes, h * w * item_bytes, w * item_bytes)
    return natural_strides(target, shape, item_bytes)[:3]


def dma_region(target: Target, address: int, shape: Shape4, steps: Steps, item_bytes: int) -> Region:
    """The region of a tensor at a DMA address."""
    if not is_gmem(address):
        return lane_region(target, *divmod(address, LANE_BYTES), shape, (*steps, item_bytes), item_bytes)
    span = sum((size - 1) * step for size, step in zip(shape[:3], steps, strict=True)) + shape[3] * item_bytes
    return Region("gmem", address, address + span, tensor=RegionTensor(item_bytes, shape, (*steps, item_bytes)))


_REMOTE_SIDES = {"src": (Direction.LOAD, Direction.GMEM), "dst": (Direction.STORE, Direction.GMEM)}
"""The directions in which a side is in GMEM."""


class Address(Words):
    """Codec of the source (`src`) or destination (`dst`) address of a transfer; local memory has no base register."""

    def __init__(self, attribute: str, side: str) -> None:
        words = ((f"{side}_base_addr_low", 32), (f"{side}_base_addr_high", GMEM_BITS - 32), (f"{side}_base_reg_sel", 3))
        super().__init__(attribute, words)

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        address: int = instruction.__dict__[self.attribute]
        if is_gmem(address):
            address += instruction.target.gmem_start - GMEM_BASE
        self.put(address, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        address, start = self.number(fields), draft.target.gmem_start
        low = address & ((1 << GMEM_BITS) - 1)
        is_remote = low >= start if start else fields["trans_dir"] in _REMOTE_SIDES[self.words[0][0][:3]]
        draft.__dict__[self.attribute] = address - start + GMEM_BASE if is_remote else low


def channel_step(attribute: str, side: str) -> Words:
    """Codec of the channel stride."""
    return Words(attribute, ((f"{side}_c_stride_low", 16), (f"{side}_c_stride_high", 16)))


class _Strides(FieldCodec):
    """Codec of the strides of one side."""

    def __init__(self, attribute: str, side: str) -> None:
        self._attribute = attribute
        self._outer, self._inner = f"{side}_n_stride", f"{side}_h_stride"
        self._channels = channel_step(attribute, side)

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields[self._outer], step, fields[self._inner] = instruction.__dict__[self._attribute]
        self._channels.put(step, fields)

    def read(self, draft: Draft, fields: Fields) -> None:
        steps = (fields[self._outer], self._channels.number(fields), fields[self._inner])
        draft.__dict__[self._attribute] = steps


def strides(attribute: str, side: str, default: Callable[[Any], Steps]) -> Defaulted:
    """Codec of the optional strides of one side."""
    return Defaulted(attribute, _Strides(attribute, side), default)


class ElementFormat(FieldCodec):
    """Codec of the element type of one side; both sides share the sign of bytes."""

    def __init__(self, attribute: str, field: str) -> None:
        self._attribute, self._field = attribute, field

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        dtype: DType = instruction.__dict__[self._attribute]
        fields[self._field] = dtype.bytes
        fields["int8_sign"] = fields.get("int8_sign", 0) | int(dtype is DType.INT8)

    def read(self, draft: Draft, fields: Fields) -> None:
        code = fields[self._field]
        if code not in _FORMAT_BYTES:
            raise IllegalCommand(f"DMA descriptor: element format {code} does not exist; the stream is damaged")
        dtype = DType.BF16 if code == 2 else DType.INT8 if fields["int8_sign"] else DType.UINT8
        draft.__dict__[self._attribute] = dtype


ADDRESSES = Encoding(
    Address("source", "src"),
    Address("destination", "dst"),
    Derived("trans_dir", lambda copy: copy.direction),
)
_STRIDES = Encoding(
    strides("source_strides", "src", lambda copy: copy.default_source_steps()),
    strides(
        "destination_strides",
        "dst",
        lambda copy: copy.default_result_steps(),
    ),
    Ignored("wait_id*", "check_bf16*", "const_val"),
)
_ONE_TYPE = Encoding(
    ADDRESSES,
    ElementFormat("dtype", "src_fmt"),
    Derived("dst_fmt", lambda copy: copy.dtype.bytes),
    extents("shape", "src"),
    Extents("dst", lambda copy: copy.result_shape()[1:], "chw"),
    _STRIDES,
    Ignored("int8_sign"),
)
_TRANSPOSITION = Encoding(
    _ONE_TYPE, Constant(spec_func=1), Ignored("int8_rnd_mode", "compress_bias0", "compress_bias1")
)


@dataclass(frozen=True, kw_only=True)
class _Transfer(DmaInstruction):
    """Base of tensor transfers. Addresses are `gmem(base, offset)` or local; strides of None mean dense or ALIGNED."""

    source: int
    destination: int
    shape: Shape4
    """Extents of the source."""
    dtype: DType
    source_strides: Steps | None = None
    destination_strides: Steps | None = None

    @property
    def direction(self) -> Direction:
        """The direction of the transfer."""
        return direction_of(self.source, self.destination)

    @property
    def result_dtype(self) -> DType:
        """Element type of the destination."""
        return self.dtype

    def result_shape(self) -> Shape4:
        """Extents of the destination."""
        return self.shape

    def default_source_steps(self) -> Steps:
        """Default source strides."""
        return default_steps(self.target, self.source, self.shape, self.dtype.bytes)

    def default_result_steps(self) -> Steps:
        """Default destination strides."""
        return default_steps(self.target, self.destination, self.result_shape(), self.result_dtype.bytes)

    def source_steps(self) -> Steps:
        """Source strides with the default filled in."""
        return self.source_strides or self.default_source_steps()

    def result_steps(self) -> Steps:
        """Destination strides with the default filled in."""
        return self.destination_strides or self.default_result_steps()

    def reads(self) -> Sequence[Region]:
        return [dma_region(self.target, self.source, self.shape, self.source_steps(), self.dtype.bytes)]

    def writes(self) -> Sequence[Region]:
        return [
            dma_region(self.target, self.destination, self.result_shape(), self.result_steps(), self.result_dtype.bytes)
        ]

    def details(self) -> list[str]:
        details = [format_direction(self.source, self.destination)]
        details.append("x".join(map(str, self.shape)) + f":{self.dtype}")
        if self.result_shape() != self.shape or self.result_dtype is not self.dtype:
            details.append("-> " + "x".join(map(str, self.result_shape())) + f":{self.result_dtype}")
        for name, steps, address, shape, dtype in (
            ("source", self.source_steps(), self.source, self.shape, self.dtype),
            ("destination", self.result_steps(), self.destination, self.result_shape(), self.result_dtype),
        ):
            if steps != default_steps(self.target, address, shape, dtype.bytes):
                details.append(f"{name}_strides={','.join(map(str, steps))}")
        return details

    def _load(self, machine: Machine) -> Array:
        strides: Strides = (*self.source_steps(), self.dtype.bytes)
        return machine.read(self.source, self.shape, strides, self.dtype.numpy)

    def _store(self, machine: Machine, values: Array) -> None:
        strides: Strides = (*self.result_steps(), self.result_dtype.bytes)
        machine.write(self.destination, self.result_shape(), strides, values)


class _MoveFunctionBits(FieldCodec):
    """Codec of the move function: one bit for each."""

    def write(self, instruction: TensorCopy, fields: dict[str, int]) -> None:
        fields["mv_lut_idx"] = int(instruction.function is MoveFunction.EXPONENT_INDEX)
        fields["mv_lut_base"] = int(instruction.function is MoveFunction.CLEAR_MANTISSA)

    def read(self, draft: Draft, fields: Fields) -> None:
        if fields["mv_lut_idx"]:
            draft.__dict__["function"] = MoveFunction.EXPONENT_INDEX
        elif fields["mv_lut_base"]:
            draft.__dict__["function"] = MoveFunction.CLEAR_MANTISSA


@dataclass(frozen=True, kw_only=True)
class TensorCopy(_Transfer):
    """Copy a tensor. Elements keep their order, so `destination_shape` may regroup c, h and w (n is kept).

    `destination_dtype` converts 8 bits to bf16 (into local memory), or bf16 to 8 bits (out of or within local memory;
    half to even or `toward_zero`, saturating). `compression`: the GMEM side is compressed, dense and 16-byte aligned.
    """

    encoding = Encoding(
        ADDRESSES,
        extents("shape", "src"),
        Defaulted(
            "destination_shape",
            Numbers("destination_shape", ("src_n", "dst_c", "dst_h", "dst_w")),
            lambda copy: copy.shape,
        ),
        ElementFormat("dtype", "src_fmt"),
        Defaulted("destination_dtype", ElementFormat("destination_dtype", "dst_fmt"), lambda copy: copy.dtype),
        _STRIDES,
        flag("toward_zero", "int8_rnd_mode"),
        _MoveFunctionBits(),
        COMPRESSION,
        Ignored("int8_sign"),
    )

    destination_shape: Shape4 | None = None
    destination_dtype: DType | None = None
    toward_zero: bool = False
    function: MoveFunction = MoveFunction.NONE
    compression: Compression | None = None

    def mnemonic(self) -> str:
        name = "dma." + self.direction.name.lower()
        return f"{name}.{self.function.name.lower()}" if self.function is not MoveFunction.NONE else name

    @property
    def result_dtype(self) -> DType:
        return self.destination_dtype or self.dtype

    def result_shape(self) -> Shape4:
        return self.destination_shape or self.shape

    def check(self) -> None:
        super().check()
        name = self.mnemonic()
        (n, *inner), (m, *outer) = self.shape, self.result_shape()
        if n != m or math.prod(inner) != math.prod(outer):
            raise IllegalCommand(
                f"{name}: shape {self.shape} to {self.result_shape()}: n or the number of elements differs"
            )
        if self.function is not MoveFunction.NONE and (
            self.direction is not Direction.LOCAL or not self.dtype.is_float or not self.result_dtype.is_float
        ):
            raise IllegalCommand(f"{name}: works within local memory on bf16 only")
        if (
            self.dtype.is_float
            and not self.result_dtype.is_float
            and self.direction in (Direction.LOAD, Direction.GMEM)
        ):
            raise IllegalCommand(f"{name}: bf16 becomes 8 bits only on its way out of local memory")
        if (
            not self.dtype.is_float
            and self.result_dtype.is_float
            and self.direction in (Direction.STORE, Direction.GMEM)
        ):
            raise IllegalCommand(f"{name}: 8 bits become bf16 only on their way into local memory")
        if self.compression is not None:
            self._check_compression(name)

    def _check_compression(self, name: str) -> None:
        if self.direction not in (Direction.LOAD, Direction.STORE) or self.dtype is not self.result_dtype:
            raise IllegalCommand(f"{name}: only loads and stores of one element type may be compressed")
        check_multiple(name, "compressed address", max(self.source, self.destination), 16)

    def reads(self) -> Sequence[Region]:
        if self.compression is not None and self.direction is Direction.LOAD:
            return [self._stream_region(self.source)]
        return super().reads()

    def writes(self) -> Sequence[Region]:
        if self.compression is not None and self.direction is Direction.STORE:
            return [self._stream_region(self.destination)]
        return super().writes()

    def _count(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def _stream_region(self, address: int) -> Region:
        """Region of a compressed stream: it replaces a dense tensor and is at most as long as an incompressible
        stream.
        """
        return Region("gmem", address, address + stream_limit(self._count(), self.dtype.bytes))

    def details(self) -> list[str]:
        details = super().details()
        if self.compression is not None:
            details.append("compressed")
        if self.toward_zero:
            details.append("toward_zero")
        return details

    def execute(self, machine: Machine) -> None:
        if self.compression is not None and self.direction is Direction.LOAD:
            values = self._decompress(machine)
        else:
            values = self._load(machine)
        values = self._convert(values.reshape(self.result_shape()))
        if self.compression is not None and self.direction is Direction.STORE:
            stream = compress(values, self.compression)
            machine.bytes_at(self.destination, len(stream))[:] = np.frombuffer(stream, np.uint8)
            return
        self._store(machine, values)

    def _decompress(self, machine: Machine) -> Array:
        return decompress_at(machine, self.source, self._count(), self.dtype)

    def _convert(self, values: Array) -> Array:
        match self.function:
            case MoveFunction.EXPONENT_INDEX:
                return _exponent_index(values)
            case MoveFunction.CLEAR_MANTISSA:
                return values & np.uint16(0xFF80)
            case MoveFunction.NONE:
                pass
        if self.dtype.bytes == self.result_dtype.bytes:
            return values
        if self.result_dtype.is_float:
            return narrow(values.astype(np.float32))
        wide = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        rounding = Rounding.TOWARDS_ZERO if self.toward_zero else Rounding.HALF_TO_EVEN
        # NaN compares as false, and saturates by its sign.
        limit = self.target.converts_below
        kept = wide if limit is None else np.where(np.abs(wide) >= limit, 0, wide)
        near = np.where(np.isnan(kept), np.copysign(_BEYOND_BYTES, wide), np.clip(kept, -_BEYOND_BYTES, _BEYOND_BYTES))
        return saturate(round_to_int(near, rounding), self.result_dtype.numpy)


def decompress_at(machine: Machine, address: int, count: int, dtype: DType) -> Array:
    """Decompress `count` elements from a stream in GMEM."""
    head = machine.bytes_at(address, 16)
    size = stream_limit(count, dtype.bytes, int.from_bytes(head[:3].tobytes(), "little"))
    return decompress(machine.bytes_at(address, size).tobytes(), count, dtype)


def _exponent_index(bits: Array) -> Array:
    exponent = bits >> np.uint16(7) & np.uint16(0xFF)
    index = (exponent - np.uint16(127) + np.uint16(63)) & np.uint16(0xFF)
    index = (index + np.where(bits >> np.uint16(15), np.uint16(128), np.uint16(0))) & np.uint16(0xFF)
    index[bits == 0] = 0
    return index << np.uint16(8) | index


@dataclass(frozen=True, kw_only=True)
class TransposeNC(_Transfer):
    """Exchange n and c between GMEM and local memory: (n, c, h, w) to (c, n, h, w)."""

    stem = "dma.transpose_nc"
    encoding = Encoding(_TRANSPOSITION, Constant(transpose_md=0))

    def result_shape(self) -> Shape4:
        n, c, h, w = self.shape
        return (c, n, h, w)

    def check(self) -> None:
        super().check()
        if self.direction not in (Direction.LOAD, Direction.STORE):
            raise IllegalCommand(f"{self.mnemonic()}: works between GMEM and local memory only")

    def execute(self, machine: Machine) -> None:
        self._store(machine, self._load(machine).transpose(1, 0, 2, 3))


@dataclass(frozen=True, kw_only=True)
class TransposeCW(TransposeNC):
    """Exchange c and w when storing to GMEM: (n, c, h, w) to (n, w, h, c); 8 bits only."""

    stem = "dma.transpose_cw"
    encoding = Encoding(_TRANSPOSITION, Constant(transpose_md=3))

    def result_shape(self) -> Shape4:
        n, c, h, w = self.shape
        return (n, w, h, c)

    def check(self) -> None:
        super().check()
        if self.direction is not Direction.STORE or self.dtype.bytes != 1:
            raise IllegalCommand(f"{self.mnemonic()}: works on 8-bit stores only")

    def execute(self, machine: Machine) -> None:
        self._store(machine, self._load(machine).transpose(0, 3, 2, 1))


@dataclass(frozen=True, kw_only=True)
class RotateChannels(TransposeNC):
    """Load an image with 3 or 4 interleaved channels, (n, h, w, c) in GMEM, as (n, c, h, w), which is `shape`.

    Source strides: n, then 1 per channel element, then one row.
    """

    stem = "dma.rotate_channels"
    encoding = Encoding(_TRANSPOSITION, Derived("transpose_md", lambda copy: 1 if copy.shape[1] == 3 else 2))

    def result_shape(self) -> Shape4:
        return self.shape

    def default_source_steps(self) -> Steps:
        _, c, h, w = self.shape
        size = self.dtype.bytes
        return (c * h * w * size, size, c * w * size)

    def check(self) -> None:
        super().check()
        if self.direction is not Direction.LOAD or self.shape[1] not in (3, 4) or self.dtype.bytes != 1:
            raise IllegalCommand(f"{self.mnemonic()}: loads 3 or 4 channels of bytes only, here {self.shape[1]}")
        if self.result_steps()[2] != self.shape[3]:
            raise IllegalCommand(f"{self.mnemonic()}: the rows of the result must follow each other without gaps")

    def reads(self) -> Sequence[Region]:
        n, c, h, w = self.shape
        steps = (self.source_steps()[0], self.source_steps()[2])
        span = (n - 1) * steps[0] + (h - 1) * steps[1] + w * c * self.dtype.bytes
        return [Region("gmem", self.source, self.source + span)]

    def execute(self, machine: Machine) -> None:
        (n, c, h, w), size = self.shape, self.dtype.bytes
        n_step, _, h_step = self.source_steps()
        view = machine.read(self.source, (n, h, w, c), (n_step, h_step, c * size, size), self.dtype.numpy)
        self._store(machine, view.transpose(0, 3, 1, 2))
