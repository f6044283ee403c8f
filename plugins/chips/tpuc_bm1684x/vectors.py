"""Transfer tensors whose channels are contiguous in DDR, where a plain copy costs one DDR line per element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tpuc.api import DdrTensor, LocalTensor

from tpuc_bm1684x.isa import DType, MatrixCopy, TensorCopy, TransposeCW
from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import Strides
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

WORD = DType.INT32
"""The type of rows that move as matrices."""
_LARGE = 1 << 15
"""Bytes from which on tensors move as matrices: 58 bytes per cycle instead of 54."""
_FEW_VECTORS = 16
"""Above this batch size, transposing stores are not considered: planning would split tensors into very many of them."""


def is_vector(tensor: DdrTensor) -> bool:
    """True for one element per channel with contiguous channels in DDR."""
    _, c, h, w = tensor.shape
    return h == w == 1 < c and tensor.strides[1] == 1


def is_in_turn(tensor: DdrTensor) -> bool:
    """True for columns of several elements per channel with contiguous channels in DDR."""
    _, c, h, w = tensor.shape
    return w == 1 < min(c, h) and tensor.strides[1] == 1


def vector_loads(target: LocalTensor, source: DdrTensor, chip: Target = BM1684X) -> Sequence[DmaInstruction]:
    """Candidate loads of a vector: element copy, transposed rows, or a matrix with one column per lane."""
    n, c, _, _ = source.shape
    address, dtype = chip.lmem_base + target.address, dtype_of(target.element)
    local = _steps(operand(target).strides(target.shape, chip))
    return (
        TensorCopy(
            source=source.address,
            destination=address,
            shape=source.shape,
            dtype=dtype,
            source_strides=_steps(source.strides),
            destination_strides=local,
        ),
        TransposeCW(
            source=source.address,
            destination=address,
            shape=(n, 1, 1, c),
            dtype=dtype,
            source_strides=_steps((source.strides[0], c, c, 1)),
            destination_strides=local,
        ),
        MatrixCopy(
            source=source.address,
            destination=address,
            rows=n,
            columns=c,
            row_stride=max(source.strides[0], 1),
            width=1,
            pieces=c,
            local_strides=(local[0], local[1]),
            dtype=dtype,
        ),
    )


def row_loads(target: LocalTensor, source: DdrTensor, chip: Target = BM1684X) -> Sequence[DmaInstruction]:
    """The load of a large tensor whose channels are long rows, one behind the other in DDR, as matrices: each moves the
    rows of some neighboring lanes, a matrix row per slot. Empty for other tensors.
    """
    (n, c, h, w), item = source.shape, source.element.bits // 8
    row, (_, step, _, pitch) = w * item, operand(target).strides(target.shape, chip)
    is_dense = n == h == 1 and source.strides[1:] == (w, w, 1) and pitch == 1
    sizes = (row, step * item, source.address, target.address)
    if not is_dense or c % chip.lanes or c * row < _LARGE or any(size % WORD.bytes for size in sizes):
        return ()
    width = row // WORD.bytes
    lanes = chip.lanes
    while lanes * width > MAX_EXTENT:
        lanes //= 2
    slots = c // chip.lanes
    return [
        MatrixCopy(
            source=source.address + first * row,
            destination=chip.lmem_base + target.address + first * chip.lane_bytes,
            rows=slots,
            columns=lanes * width,
            row_stride=chip.lanes * width,
            width=width,
            pieces=lanes,
            local_strides=(step * item // WORD.bytes, max(width, 1)),
            dtype=WORD,
        )
        for first in range(0, chip.lanes, lanes)
    ]


def by_slots(copy: TensorCopy, chip: Target = BM1684X) -> Sequence[TensorCopy]:
    """The copy with the channels of a lane as rows, and a copy of the channels that do not fill all lanes: the same
    elements, counted in all DDR channels where the tensor's channels are more than a page apart. Empty for channels
    with gaps.
    """
    n, c, h, w = copy.shape
    slots, rest = divmod(c, chip.lanes)
    sides = copy.strides()
    if slots < 2 or h * w > MAX_EXTENT or not all(_is_flat(strides, h, w) for strides in sides):
        return ()
    whole: list[Strides] = []
    ends: list[int] = []
    for address, (batch, step, _, _) in zip((copy.source, copy.destination), sides, strict=True):
        pitch = step if chip.in_lmem(address) else step * chip.lanes
        whole.append((batch, step, pitch, 1))
        ends.append(address + slots * pitch * copy.dtype.bytes)
    shape = (n, chip.lanes, slots, h * w)
    copies = [replace(copy, shape=shape, source_strides=whole[0], destination_strides=whole[1])]
    if rest:
        copies.append(replace(copy, shape=(n, rest, h, w), source=ends[0], destination=ends[1]))
    return copies


def _is_flat(strides: Strides, h: int, w: int) -> bool:
    """True if the elements of a channel are contiguous."""
    _, _, row, step = strides
    return (step == 1 or w == 1) and (row == w or h == 1)


def turn_loads(target: LocalTensor, source: DdrTensor, chip: Target = BM1684X) -> Sequence[DmaInstruction]:
    """Candidate loads of columns: element copy, or transposed rows where the column is contiguous in local memory."""
    n, c, h, _ = source.shape
    address, dtype = chip.lmem_base + target.address, dtype_of(target.element)
    local = _steps(operand(target).strides(target.shape, chip))
    steps = _steps(source.strides)
    copy = TensorCopy(
        source=source.address,
        destination=address,
        shape=source.shape,
        dtype=dtype,
        source_strides=steps,
        destination_strides=local,
    )
    if local[2] != 1:
        return (copy,)
    return (
        copy,
        TransposeCW(
            source=source.address,
            destination=address,
            shape=(n, h, 1, c),
            dtype=dtype,
            source_strides=(steps[0], steps[2], c, 1),
            destination_strides=(local[0], local[1], h, 1),
        ),
    )


def vector_stores(target: DdrTensor, source: LocalTensor, chip: Target = BM1684X) -> Sequence[DmaInstruction]:
    """Candidate stores of a vector: element copy, a matrix with one column per lane, or a transposition."""
    n, c, _, _ = target.shape
    address, dtype = chip.lmem_base + source.address, dtype_of(source.element)
    local = _steps(operand(source).strides(source.shape, chip))
    choices: list[DmaInstruction] = [
        TensorCopy(
            source=address,
            destination=target.address,
            shape=target.shape,
            dtype=dtype,
            source_strides=local,
            destination_strides=_steps(target.strides),
        ),
        MatrixCopy(
            source=address,
            destination=target.address,
            rows=n,
            columns=c,
            row_stride=max(target.strides[0], 1),
            width=1,
            pieces=c,
            local_strides=(local[0], local[1]),
            dtype=dtype,
        ),
    ]
    if n <= _FEW_VECTORS:  # planning would split tensors into very many such parts
        choices.append(
            TransposeCW(
                source=address,
                destination=target.address,
                shape=(n, c, 1, 1),
                dtype=dtype,
                source_strides=local,
                destination_strides=_steps((target.strides[0], c, c, 1)),
            )
        )
    return choices


def turn_stores(target: DdrTensor, source: LocalTensor, chip: Target = BM1684X) -> Sequence[DmaInstruction]:
    """Ways to store columns: by elements, or as rows that are transposed."""
    n, c, h, _ = target.shape
    address, dtype = chip.lmem_base + source.address, dtype_of(source.element)
    local, steps = _steps(operand(source).strides(source.shape, chip)), _steps(target.strides)
    copy = TensorCopy(
        source=address,
        destination=target.address,
        shape=target.shape,
        dtype=dtype,
        source_strides=local,
        destination_strides=steps,
    )
    if local[2] != 1:
        return (copy,)
    return (
        copy,
        TransposeCW(
            source=address,
            destination=target.address,
            shape=(n, c, 1, h),
            dtype=dtype,
            source_strides=(local[0], local[1], h, 1),
            destination_strides=(steps[0], steps[2], c, 1),
        ),
    )


def _steps(strides: Sequence[int]) -> Strides:
    """Replace strides of 0 by 1: the engine divides by all strides, including those of extent 1."""
    n, c, h, w = (max(step, 1) for step in strides)
    return (n, c, h, w)
