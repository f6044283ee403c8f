"""Convert int32 sums of a product to floats. The sums are byte planes; a transfer within local memory converts the
bytes to bf16. A depthwise convolution then adds the planes, each multiplied by its byte's weight and the channel's
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from tpuc.api import F32, LocalTensor, Node, Shape4
from tpuc_chip_parts.tiles import Product
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, Depthwise, DType, Operand, Scalar, TensorCopy
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.isa.types import Strides
from tpuc_cv18.operands import MAX_EXTENT, byte_strides, operand

SUM_PLANES = 4
_BYTE = 256
_LARGEST_PRODUCT = 255 * 128
_HALF_BYTES, _F32_BYTES = 2, 4
_WHOLE_ROWS = EU_BYTES // _HALF_BYTES
"""This many rows end on a vector boundary, whatever their width."""


def gives_floats(node: Node) -> bool:
    """True when integers are multiplied and the sums are output as floats."""
    return not node.operand_types[0].storage.is_float and node.result_type.storage.is_float


def terms_of(product: Product) -> int:
    """Number of products per sum."""
    return product.input.shape[1] * product.kernel[0] * product.kernel[1]


def planes_of(terms: int) -> int:
    """Number of low bytes that suffice for a sum of `terms` products, including its sign."""
    return next(count for count in (2, 3, SUM_PLANES) if count == SUM_PLANES or _fits(terms, count))


def _fits(terms: int, count: int) -> bool:
    return terms * _LARGEST_PRODUCT < _BYTE**count // 2


def factor_rows(scales: Sequence[float], planes: int) -> Array:
    """The weight of a byte of each plane in each channel, as bf16 bits."""
    places = np.float64(_BYTE) ** np.arange(planes)
    return (np.asarray(scales)[:, None] * places).astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)


@dataclass(frozen=True)
class SumPlanes:
    """Byte planes of the sums of a result, without gaps between the channels of a lane."""

    shape: Shape4
    lanes: int

    @property
    def width(self) -> int:
        """Bytes of a batch in a lane."""
        return -(-self.shape[1] // self.lanes) * self.shape[2] * self.shape[3]

    def strides(self, item_bytes: int = 1) -> Strides:
        """Strides of a plane; its batches start on vectors."""
        _, _, h, w = self.shape
        return (round_up(self.width, EU_BYTES) * item_bytes, h * w * item_bytes, w * item_bytes, item_bytes)

    def lane_bytes(self, planes: int, item_bytes: int = 1) -> int:
        """Bytes per lane of `planes` planes."""
        return planes * self.shape[0] * self.strides(item_bytes)[0]


@dataclass(frozen=True)
class FloatSums:
    """The buffers and constants of the conversion: the `sums` in layout `SumPlanes`, a buffer for them as bf16, and
    per-channel constants. `limit`: upper limit of the relu. `places`: byte strides of the result's elements as bf16
    in `layout`, where its channels differ from those of the result.
    """

    layout: SumPlanes
    planes: int
    sums: int
    halves: int
    factors: int
    bias: int | None
    relu: bool
    limit: float | None
    places: Strides | None = None

    def emit(self, result: LocalTensor, asm: Cv18Assembler) -> None:
        """`result = relu(sums * scale + bias)`; float32 is bf16 with a zero lower half."""
        n, c, *_ = self.layout.shape
        rows = (min(c, self.layout.lanes), 1, self.layout.width)
        _widen(self.sums, self.halves, (n * (self.planes - 1), *rows), self.layout, DType.UINT8, asm)
        before = self.planes - 1
        last, last_half = self.layout.lane_bytes(before), self.layout.lane_bytes(before, _HALF_BYTES)
        _widen(self.sums + last, self.halves + last_half, (n, *rows), self.layout, DType.INT8, asm)
        is_wide = result.element == F32
        if is_wide:
            _clear(result, asm)  # while the bytes are converted to bf16
        dense = self.layout.strides(_HALF_BYTES)
        is_direct = not is_wide and self.places is None
        target = operand(result) if is_direct else Operand(self.sums, DType.BF16, dense)
        self._add_up(target, self.layout.shape, asm)
        done = target if is_direct else Operand(self.sums, DType.BF16, self.places or dense)
        if self.limit is not None:
            bound = Scalar.of(self.limit, DType.BF16)
            asm.record(Arithmetic(operation=ArithmeticOp.MIN, shape=result.shape, result=done, left=done, right=bound))
        if not is_direct:
            address = result.address + (_HALF_BYTES if is_wide else 0)
            copied = Operand(address, DType.BF16, byte_strides(result, asm.target))
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=copied, left=done))

    def _add_up(self, target: Operand, shape: Shape4, asm: Cv18Assembler) -> None:
        """Add the bytes times their weights, and the bias."""
        n, c, h, w = shape
        batch, group, *_ = self.layout.strides(_HALF_BYTES)
        strides = target.strides(shape, asm.target)
        step = _rows_at_once(shape, strides)
        for first in range(0, h, step):
            places, start = min(step, h - first) * w, self.halves + first * w * _HALF_BYTES
            asm.record(
                Depthwise(
                    result=Operand(target.address + first * strides[2], DType.BF16, strides),
                    result_shape=(n, c, 1, places),
                    input=Operand(start, DType.BF16, (batch, group, n * batch, _HALF_BYTES)),
                    input_size=(self.planes, places),
                    weight=Operand(self.factors, DType.BF16),
                    kernel=(self.planes, 1),
                    bias=self.bias,
                    relu=self.relu,
                )
            )


def _clear(result: LocalTensor, asm: Cv18Assembler) -> None:
    """Write zeros to all bytes of float32 numbers."""
    *outer, width = result.shape
    everything = Operand(result.address, DType.UINT8, (*byte_strides(result, asm.target)[:3], 1))
    asm.record(
        Arithmetic(
            operation=ArithmeticOp.XOR,
            shape=(outer[0], outer[1], outer[2], width * _F32_BYTES),
            result=everything,
            left=everything,
            right=everything,
        )
    )


def _widen(source: int, target: int, shape: Shape4, layout: SumPlanes, dtype: DType, asm: Cv18Assembler) -> None:
    """Convert bytes to bf16 within local memory."""
    (batch, *_), (wide, *_) = layout.strides(), layout.strides(_HALF_BYTES)
    asm.record(
        TensorCopy(
            source=source,
            destination=target,
            shape=shape,
            dtype=dtype,
            destination_dtype=DType.BF16,
            source_strides=(batch, batch, batch),
            destination_strides=(wide, wide, wide),
        )
    )


def _rows_at_once(shape: Shape4, strides: Strides) -> int:
    """Number of rows that one command may treat as a single row, because they are contiguous."""
    _, _, h, w = shape
    if strides[2] != w * strides[3]:
        return 1
    return h if h * w <= MAX_EXTENT else max(1, MAX_EXTENT // w // _WHOLE_ROWS * _WHOLE_ROWS)
