"""DMA transfers of tensors (GDMA). Addresses are as in commands: local memory at 0x0800_0000, DDR from
0x1_0000_0000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from tpuc.api import IllegalCommand, Region, RegionTensor
from tpuc.api.encoding import Constant, Derived, Encoding, Ignored, Number, Numbers, Present, Words

from tpuc_bm1684x.isa.codecs import element_type
from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import DType, Layout, Shape4, Strides, lane_region, natural_strides, span_of

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine

ALL_LANES = (1 << 64) - 1


def dma_strides(address: int, shape: Shape4, dtype: DType, target: Target = BM1684X) -> Strides:
    """Strides of a command without `stride_enable`: aligned layout in local memory, contiguous elsewhere."""
    if target.in_lmem(address):
        lane = (address - target.lmem_base) // target.lane_bytes
        return natural_strides(shape, dtype.bytes, Layout.ALIGNED, lane, target)
    _, c, h, w = shape
    return (c * h * w, h * w, w, 1)


def dma_region(target: Target, address: int, shape: Shape4, strides: Strides, dtype: DType) -> Region:
    """The region of a tensor at a DMA address."""
    if target.in_lmem(address):
        return lane_region(address - target.lmem_base, shape, strides, dtype.bytes, target)
    space, start = dma_space(target, address)
    tensor = RegionTensor(dtype.bytes, shape, tuple(step * dtype.bytes for step in strides))
    return Region(space, start, start + span_of(shape, strides) * dtype.bytes, tensor=tensor)


def dma_space(target: Target, address: int) -> tuple[str, int]:
    """The memory of a non-local address, and the start of the region in that memory; raises IllegalCommand outside all
    memories.
    """
    if address >= target.ddr_base:
        return "ddr", address
    if target.l2_base <= address < target.l2_base + target.l2_bytes:
        return "l2", address
    if target.smem_base <= address < target.smem_base + target.smem_bytes:
        return "smem", address - target.smem_base
    raise IllegalCommand(f"DMA address {address:#x}: no memory there; use local memory, L2 or DDR")


def dma_address(attribute: str, prefix: str) -> Words:
    """Codec of a 40-bit address in two words."""
    return Words(attribute, ((f"{prefix}_start_addr_l32", 32), (f"{prefix}_start_addr_h8", 8)))


def sizes(attribute: str, prefix: str, names: str = "nchw") -> Numbers:
    """Codec of the fields `prefix`_nsize ..."""
    return Numbers(attribute, tuple(f"{prefix}_{name}size" for name in names))


def steps(attribute: str, prefix: str, names: str = "nchw") -> Numbers:
    """Codec of the fields `prefix`_nstride ..., in elements."""
    return Numbers(attribute, tuple(f"{prefix}_{name}stride" for name in names))


MASK = Words("mask", (("localmem_mask_l32", 32), ("localmem_mask_h32", 32)))
ELEMENT_TYPE = element_type("dtype", "src_data_format")
ADDRESSES = Encoding(dma_address("source", "src"), dma_address("destination", "dst"))
_UNUSED = Ignored(
    *(f"{side}_{name}{kind}" for side in ("src", "dst") for name in "nchw" for kind in ("size", "stride")),
    *("constant_value", "nchw_copy", "localmem_mask_l32", "localmem_mask_h32"),
)
_TRANSFER = Encoding(
    ADDRESSES,
    sizes("shape", "src"),
    ELEMENT_TYPE,
    Present(
        "stride_enable",
        ["source_strides", "destination_strides"],
        steps("source_strides", "src"),
        steps("destination_strides", "dst"),
    ),
    MASK,
    _UNUSED,
)


@dataclass(frozen=True, kw_only=True)
class TensorTransfer(DmaInstruction):
    """Base of transfers with N, C, H, W sizes and strides (elements) on both sides.

    In local memory, channel c is stored in lane (start lane + c) mod 64, and the C stride is the step from one group of
    64 channels to the next. When both strides are None, layouts are natural. A cleared bit of `mask` protects a lane.
    """

    table_name = "DMA_tensor"
    whole_rows: ClassVar[bool] = False
    """The command treats rows as contiguous and ignores the W stride."""

    source: int
    destination: int
    shape: Shape4
    """Extents of the source."""
    dtype: DType
    source_strides: Strides | None = None
    destination_strides: Strides | None = None
    mask: int = ALL_LANES

    def result_shape(self) -> Shape4:
        """Extents of the destination."""
        return self.shape

    def strides(self) -> tuple[Strides, Strides]:
        """Strides of source and destination, with natural strides filled in."""
        source = self.source_strides or dma_strides(self.source, self.shape, self.dtype, self.target)
        result = self.destination_strides or dma_strides(self.destination, self.result_shape(), self.dtype, self.target)
        if self.whole_rows:
            return (*source[:3], 1), (*result[:3], 1)
        return source, result

    def reads(self) -> Sequence[Region]:
        return [dma_region(self.target, self.source, self.shape, self.strides()[0], self.dtype)]

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.target, self.destination, self.result_shape(), self.strides()[1], self.dtype)]

    def check(self) -> None:
        super().check()
        for name, address in (("source", self.source), ("destination", self.destination)):
            if address % self.dtype.bytes:
                raise IllegalCommand(
                    f"{self.mnemonic()}: {name} {self.target.format_dma(address)} is not a multiple of "
                    f"{self.dtype.bytes} bytes"
                )
        if min(*self.shape, *self.result_shape()) < 1:
            raise IllegalCommand(f"{self.mnemonic()}: a size of 0 in {self.shape} or {self.result_shape()}")


@dataclass(frozen=True, kw_only=True)
class TensorCopy(TensorTransfer):
    """Strided copy between any two memories (DMA_tensor).

    With `destination_shape` the copy reshapes: elements are read and written in N, C, H, W order of each side.
    """

    stem = "dma.copy"
    encoding = Encoding(
        _TRANSFER, Present("nchw_copy", ["destination_shape"], sizes("destination_shape", "dst"), value=0, absent=1)
    )

    destination_shape: Shape4 | None = None

    def result_shape(self) -> Shape4:
        return self.destination_shape or self.shape

    def check(self) -> None:
        super().check()
        if np.prod(self.shape) != np.prod(self.result_shape()):
            raise IllegalCommand(f"dma.copy: {self.shape} to {self.result_shape()}: not the same number of elements")

    def execute(self, machine: Machine) -> None:
        source, destination = self.strides()
        values = machine.read(self.source, self.shape, source, self.dtype)
        if self.destination_shape is not None:
            values = values.reshape(self.destination_shape)
        machine.write(self.destination, self.result_shape(), destination, self.dtype, values, self.mask)


@dataclass(frozen=True, kw_only=True)
class TransposeNC(TensorTransfer):
    """Source (n, c, h, w) to result (c, n, h, w) (DMA_tensor, transpose)."""

    stem = "dma.transpose_nc"
    encoding = Encoding(_TRANSFER, Constant(cmd_special_function=1, nchw_copy=1))
    whole_rows = True

    def result_shape(self) -> Shape4:
        n, c, h, w = self.shape
        return (c, n, h, w)

    def execute(self, machine: Machine) -> None:
        source, destination = self.strides()
        values = machine.read(self.source, self.shape, source, self.dtype).transpose(1, 0, 2, 3)
        machine.write(self.destination, self.result_shape(), destination, self.dtype, values, self.mask)


@dataclass(frozen=True, kw_only=True)
class TransposeCW(TensorTransfer):
    """Source (n, c, h, w) to result (n, w, h, c) (DMA_cw_transpose)."""

    table_name = "DMA_cw_transpose"
    stem = "dma.transpose_cw"
    encoding = Encoding(_TRANSFER, Constant(nchw_copy=1))
    whole_rows = True

    def result_shape(self) -> Shape4:
        n, c, h, w = self.shape
        return (n, w, h, c)

    def execute(self, machine: Machine) -> None:
        source, destination = self.strides()
        values = machine.read(self.source, self.shape, source, self.dtype).transpose(0, 3, 2, 1)
        machine.write(self.destination, self.result_shape(), destination, self.dtype, values, self.mask)


@dataclass(frozen=True, kw_only=True)
class ChannelBroadcast(TensorTransfer):
    """Source (n, 1, h, w) to `channels` lanes, with start lane + channels <= 64 (DMA_tensor, broadcast)."""

    stem = "dma.broadcast"
    encoding = Encoding(
        _TRANSFER,
        Constant(cmd_special_function=3),
        Number("channels", "dst_csize"),
        Derived("dst_nsize", lambda copy: copy.shape[0]),
        Derived("dst_hsize", lambda copy: copy.shape[2]),
        Derived("dst_wsize", lambda copy: copy.shape[3]),
    )
    whole_rows = True

    channels: int

    def result_shape(self) -> Shape4:
        return (self.shape[0], self.channels, *self.shape[2:])

    def check(self) -> None:
        super().check()
        target = self.target
        lane = (self.destination - target.lmem_base) // target.lane_bytes
        if not target.in_lmem(self.destination) or self.shape[1] != 1 or lane + self.channels > target.lanes:
            raise IllegalCommand(
                f"dma.broadcast: one channel to {self.channels} lanes from {target.format_dma(self.destination)}; "
                f"the lanes must end at {target.lanes - 1} or before"
            )

    def execute(self, machine: Machine) -> None:
        source, destination = self.strides()
        values = machine.read(self.source, self.shape, source, self.dtype)
        machine.write(self.destination, self.result_shape(), destination, self.dtype, values, self.mask)


@dataclass(frozen=True, kw_only=True)
class Fill(DmaInstruction):
    """Write one value to a strided tensor (DMA_tensor with constant fill); `value` is the bit pattern."""

    table_name = "DMA_tensor"
    stem = "dma.fill"
    encoding = Encoding(
        Constant(fill_constant_en=1),
        dma_address("destination", "dst"),
        sizes("shape", "dst"),
        ELEMENT_TYPE,
        Number("value", "constant_value"),
        Present("stride_enable", ["strides"], steps("strides", "dst")),
        MASK,
        _UNUSED,
        Ignored("src_start_addr_l32", "src_start_addr_h8"),
    )

    destination: int
    shape: Shape4
    dtype: DType
    value: int
    strides: Strides | None = None
    mask: int = ALL_LANES

    def _strides(self) -> Strides:
        return self.strides or dma_strides(self.destination, self.shape, self.dtype, self.target)

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.target, self.destination, self.shape, self._strides(), self.dtype)]

    def execute(self, machine: Machine) -> None:
        bits = np.array(self.value & ((1 << 8 * self.dtype.bytes) - 1), f"u{self.dtype.bytes}")
        values = bits.view(self.dtype.numpy)
        machine.write(self.destination, self.shape, self._strides(), self.dtype, values, self.mask)
