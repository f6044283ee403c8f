"""Convert tile buffers and element types to instruction operands."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LocalTensor, ScalarType, Shape4

from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import DType, Layout, Operand, Strides

MAX_EXTENT = 65535  # 16-bit size fields of TIU and GDMA commands

_DTYPES = {
    "i8": DType.INT8,
    "si8": DType.INT8,
    "u8": DType.UINT8,
    "ui8": DType.UINT8,
    "i16": DType.INT16,
    "si16": DType.INT16,
    "ui16": DType.UINT16,
    "i32": DType.INT32,
    "si32": DType.INT32,
    "f16": DType.F16,
    "bf16": DType.BF16,
    "f32": DType.F32,
}
_LAYOUTS = {"aligned": Layout.ALIGNED, "compact": Layout.COMPACT}


def dtype_of(element: ScalarType) -> DType:
    """Map an element type to the command's element type."""
    return _DTYPES[element.name]


def operand(local: LocalTensor) -> Operand:
    """Describe a tile buffer as an instruction operand."""
    return Operand(local.address, dtype_of(local.element), local.strides or _LAYOUTS[local.layout])


def strided(local: LocalTensor, shape: Shape4, target: Target = BM1684X) -> Operand:
    """Describe a buffer as an operand of a command over `shape`: stride 0 broadcasts extents of 1."""
    if local.shape == shape:
        return operand(local)
    strides = list(operand(local).strides(local.shape, target))
    for index, (own, wanted) in enumerate(zip(local.shape, shape, strict=True)):
        if own != wanted:
            strides[index] = 0
    return Operand(local.address, dtype_of(local.element), _four(strides))


def _four(values: Sequence[int]) -> Strides:
    n, c, h, w = values
    return (n, c, h, w)
