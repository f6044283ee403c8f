"""Record the transfers that the scheduler requests; kernels record compute instructions themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from operator import mul

from tpuc.api import Assembler, DdrTensor, IllegalCommand, Instruction, LocalBlock, LocalTensor, Shape4

from tpuc_bm1684x.isa import (
    ChannelBroadcast,
    Conv,
    DType,
    Fill,
    MatMul,
    Operand,
    PoolOrDepthwise,
    RowGather,
    RowScatter,
    Scalar,
    TensorCopy,
)
from tpuc_bm1684x.isa.command import KERNEL_POINT, Bm1684xInstruction
from tpuc_bm1684x.isa.fused import RECORDS
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.system import WriteRegisters
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import Source
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand
from tpuc_bm1684x.rearrangement import fastest_move
from tpuc_bm1684x.timing import cycles
from tpuc_bm1684x.timing.dma import CHANNELS
from tpuc_bm1684x.vectors import (
    by_slots,
    is_in_turn,
    is_vector,
    row_loads,
    turn_loads,
    turn_stores,
    vector_loads,
    vector_stores,
)


class Bm1684xAssembler(Assembler):
    """The assembler that kernels of the family's chips receive."""

    def __init__(self, target: Target = BM1684X) -> None:
        super().__init__()
        self.target = target

    def record(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bm1684xInstruction):
            instruction = instruction.on(self.target)
        if self.target.has_registers and isinstance(instruction, Conv | MatMul) and instruction.is_integer:
            point = instruction.kernel_zero_point if isinstance(instruction, Conv) else instruction.zero_point
            instruction = self._with_point_in_register(instruction, point)
        elif isinstance(instruction, PoolOrDepthwise) and instruction.table is not None:
            super().record(WriteRegisters(values=((RECORDS, instruction.table),), target=self.target))
        super().record(instruction)

    def _with_point_in_register(self, product: Conv | MatMul, point: Source | None) -> Instruction:
        """Write the zero point of the second operand to its register, and return the product without it."""
        if isinstance(point, Operand):
            raise IllegalCommand(f"{product.mnemonic()}: a zero point per column has no kernel here; use one for all")
        value = 0 if point is None else int(point.value()[()])
        values = [(KERNEL_POINT, value)]
        if isinstance(product, Conv) and product.table is not None:
            values.append((RECORDS, product.table))
        super().record(WriteRegisters(values=tuple(values), target=self.target))
        if isinstance(product, Conv):
            return replace(product, kernel_zero_point=None)
        return replace(product, zero_point=None)

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        for local, ddr in _pieces(target, source, self.target):
            if is_vector(ddr) or is_in_turn(ddr):
                self._record_fastest(
                    vector_loads(local, ddr, self.target) if is_vector(ddr) else turn_loads(local, ddr, self.target)
                )
                continue
            copy = TensorCopy(
                source=ddr.address,
                destination=self.target.lmem_base + local.address,
                shape=ddr.shape,
                dtype=dtype_of(ddr.element),
                source_strides=ddr.strides,
                destination_strides=operand(local).strides(local.shape, self.target),
            )
            for part in self._fastest([copy], row_loads(local, ddr, self.target), by_slots(copy, self.target)):
                self.record(part)

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        for local, ddr in _pieces(source, target, self.target):
            if is_vector(ddr) or is_in_turn(ddr):
                self._record_fastest(
                    vector_stores(ddr, local, self.target) if is_vector(ddr) else turn_stores(ddr, local, self.target)
                )
                continue
            copy = TensorCopy(
                source=self.target.lmem_base + local.address,
                destination=ddr.address,
                shape=local.shape,
                dtype=dtype_of(local.element),
                source_strides=operand(local).strides(local.shape, self.target),
                destination_strides=ddr.strides,
            )
            for part in self._fastest([copy], by_slots(copy, self.target)):
                self.record(part)

    def _fastest(self, *choices: Sequence[Bm1684xInstruction]) -> Sequence[Bm1684xInstruction]:
        """Return the instructions that take least time; the first of several."""
        return min(filter(None, choices), key=lambda choice: sum(cycles(one.on(self.target)) for one in choice))

    def _record_fastest(self, choices: Sequence[Bm1684xInstruction]) -> None:
        self.record(min((choice.on(self.target) for choice in choices), key=cycles))

    def load_block(self, target: LocalBlock, address: int) -> None:
        shape, dtype = _block_shape(target.lanes, target.bytes_per_lane)
        _, c, h, w = shape
        pitch = block_pitch(target.lanes, target.bytes_per_lane, self.target) // dtype.bytes
        self.record(
            TensorCopy(
                source=address,
                destination=self.target.lmem_base + target.address,
                shape=shape,
                dtype=dtype,
                source_strides=(c * pitch, pitch, w, 1),
                destination_strides=(c * h * w, h * w, w, 1),
            )
        )

    def broadcast_block(self, target: LocalBlock, address: int) -> None:
        (_, _, h, w), dtype = _block_shape(1, target.bytes_per_lane)
        strides = (h * w, h * w, w, 1)
        self.record(
            ChannelBroadcast(
                source=address,
                destination=self.target.lmem_base + target.address,
                shape=(1, 1, h, w),
                dtype=dtype,
                channels=target.lanes,
                source_strides=strides,
                destination_strides=strides,
            )
        )

    def move(self, target: DdrTensor, source: DdrTensor) -> None:
        self.record(fastest_move(target, source, self.target))

    def move_rows(self, target: DdrTensor, source: DdrTensor, index: DdrTensor, scatters: bool) -> None:
        kind = RowScatter if scatters else RowGather
        self.record(
            kind(
                source=source.address,
                source_size=source.shape[1:],
                source_strides=source.strides[1:3],
                destination=target.address,
                destination_size=target.shape[1:],
                destination_strides=target.strides[1:3],
                index=index.address,
                index_size=index.shape[1:3],
                index_strides=index.strides[1:3],
                dtype=dtype_of(source.element),
            )
        )

    def fill(self, target: DdrTensor, value: float) -> None:
        dtype = dtype_of(target.element)
        self.record(
            Fill(
                destination=target.address,
                shape=target.shape,
                dtype=dtype,
                value=Scalar.of(value, dtype).bits,
                strides=target.strides,
            )
        )


def _pieces(local: LocalTensor, ddr: DdrTensor, chip: Target) -> Iterator[tuple[LocalTensor, DdrTensor]]:
    """Split a transfer into parts whose extents fit the size fields. Channels are split at lane 0."""
    if max(local.shape) <= MAX_EXTENT:
        yield local, ddr
        return
    strides = operand(local).strides(local.shape, chip)
    steps = (MAX_EXTENT, MAX_EXTENT // chip.lanes * chip.lanes, MAX_EXTENT, MAX_EXTENT)
    for start in product(*(range(0, extent, step) for extent, step in zip(local.shape, steps, strict=True))):
        ends = zip(local.shape, start, steps, strict=True)
        n, c, h, w = (min(extent - first, step) for extent, first, step in ends)
        slots = (start[0], start[1] // chip.lanes, *start[2:])
        inside = sum(map(mul, slots, strides)) * local.element.bits // 8
        offset = sum(map(mul, start, ddr.strides)) * ddr.element.bits // 8
        yield (
            replace(local, address=local.address + inside, shape=(n, c, h, w), strides=strides),
            replace(ddr, address=ddr.address + offset, shape=(n, c, h, w)),
        )


def block_pitch(lanes: int, bytes_per_lane: int, target: Target = BM1684X) -> int:
    """Distance in DDR, in bytes, between the lanes' parts of a block. Small blocks are spread over all DDR channels.

    Each part costs at least one DDR line, and a block whose parts start in few pages leaves channels idle.
    """
    spread = CHANNELS * target.rates.page_bytes
    if lanes == 1 or lanes * bytes_per_lane >= spread:
        return bytes_per_lane
    return max(bytes_per_lane, round_up(-(-spread // lanes), target.eu_bytes))


def _block_shape(lanes: int, bytes_per_lane: int) -> tuple[Shape4, DType]:
    """View a block as a tensor whose extents fit the size fields: the widest element type that divides it, then
    rows.
    """
    dtype, items = DType.INT8, bytes_per_lane
    for wider, size in ((DType.INT32, 4), (DType.INT16, 2)):
        if bytes_per_lane % size == 0:
            dtype, items = wider, bytes_per_lane // size
            break
    rows = 1
    while items // rows > MAX_EXTENT or items % rows:
        rows += 1
    return (1, lanes, rows, items // rows), dtype
