"""Convert tile buffers and element types to instruction operands."""

from __future__ import annotations

from tpuc.api import LocalTensor, ScalarType, Shape4

from tpuc_cv18.isa import DType, Operand, Target, natural_strides
from tpuc_cv18.isa.types import Strides

MAX_EXTENT = 4095 - 32
"""Limit of the 12-bit size fields of compute commands, minus a margin without which the vendor's model aborts."""
MAX_STEP = 15
"""Limit of the 4-bit pad fields, and of the stride fields on some chips."""
MAX_DMA_EXTENT = 65535
"""Limit of the 16-bit size fields and of the row strides, in bytes, of DMA commands."""

_DTYPES = {
    "i8": DType.INT8,
    "si8": DType.INT8,
    "u8": DType.UINT8,
    "ui8": DType.UINT8,
    "bf16": DType.BF16,
}


def dtype_of(element: ScalarType) -> DType:
    """Map an element type to the command's element type."""
    return _DTYPES[element.name]


def is_computable(element: ScalarType) -> bool:
    """True when compute commands accept the element type."""
    return element.name in _DTYPES


def operand(local: LocalTensor) -> Operand:
    """Describe a tile buffer as an instruction operand."""
    dtype = dtype_of(local.element)
    if local.strides is None:
        return Operand(local.address, dtype)
    n, c, h, w = (step * dtype.bytes for step in local.strides)
    return Operand(local.address, dtype, (n, c, h, w))


def byte_strides(local: LocalTensor, target: Target) -> Strides:
    """Strides of a tile buffer in bytes, for any element type."""
    size = local.element.bits // 8
    if local.strides is None:
        return natural_strides(target, local.shape, size)
    n, c, h, w = (step * size for step in local.strides)
    return (n, c, h, w)


def strided(local: LocalTensor, shape: Shape4, target: Target) -> Operand:
    """Describe a buffer as an operand of a command over `shape`: stride 0 broadcasts extents of 1."""
    plain = operand(local)
    if local.shape == shape:
        return plain
    steps = plain.strides(local.shape, target)
    n, c, h, w = (0 if own != wanted else step for own, wanted, step in zip(local.shape, shape, steps, strict=True))
    return Operand(local.address, plain.dtype, (n, c, h, w))
