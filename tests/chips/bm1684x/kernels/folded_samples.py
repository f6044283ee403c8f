"""Kernel samples of convolutions and transposed convolutions with few channels, whose rows are folded into channels."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tpuc.api import Candidate, Node
from tpuc.registry import Registry
from tpuc_bm1684x.kernels.folded_rows import FoldedRowsKernel
from tpuc_ops import tpu
from tpuc_testing import Typed, integers
from tpuc_testing.kernel_conformance import CompiledKernels, Fixed, Operand, Sample, Sizes, compile_kernels

from tests.chips.bm1684x.kernels.narrow_samples import POINT, point
from tests.chips.bm1684x.kernels.samples import I8, U8, conv_f32, conv_int8, f32, i8, scales, u8

_PAD1, _PAD2 = (1, 1, 1, 1), (2, 2, 2, 2)
_COLUMNS: tuple[Sizes, ...] = ({"n": 1, "w": 37}, {"w": 64})
_ROWS: tuple[Sizes, ...] = ({"n": 1, "h": 4}, {"h": 7, "w": 5})


def _transposed(
    x: Typed | np.ndarray, channels: int, kernel: tuple[int, int], tilings: Sequence[Sizes] = _ROWS, **fields: Any
) -> Sample:
    filters = (channels, x.type.dims[1] if isinstance(x, Typed) else x.shape[1], *kernel)
    operands: list[Operand | None]
    if isinstance(x, Typed):
        fields |= dict(zip(("multiplier", "rshift"), scales(channels), strict=True))
        bias = Fixed(integers(channels, dtype="int32", seed=2) >> 12)
        operands = [x, Fixed(integers(*filters, seed=1), "si8"), bias]
    else:
        operands = [x, Fixed(f32(*filters, seed=1).astype(x.dtype)), Fixed(f32(channels, seed=2))]
    op = tpu.Deconv(kernel_shape=kernel, **fields)
    return Sample(op, operands, I8 if isinstance(x, Typed) else None, tilings)


def _narrow(
    channels: int,
    outputs: int,
    height: int,
    width: int,
    kernel: tuple[int, int] = (3, 3),
    tilings: Sequence[Sizes] = _ROWS,
    **fields: Any,
) -> Sample:
    op, [x, filters, bias] = conv_f32(f32(1, channels, height, width), outputs, kernel, **fields)
    assert isinstance(x, np.ndarray)
    assert isinstance(filters, Fixed)
    return Sample(op, [x.astype(np.float16), Fixed(filters.array.astype(np.float16)), bias], None, tilings)


INTEGERS = {
    "image_i8": Sample(*conv_int8(u8(2, 3, 24, 20), 16, (3, 3), pads=_PAD1), I8, _ROWS),
    "wide_i8": Sample(*conv_int8(i8(1, 16, 8, 70), 16, (3, 3), pads=_PAD1, do_relu=True), U8, _ROWS),
    "batches_i8": Sample(*conv_int8(i8(3, 24, 24, 19), 7, (3, 2), pads=(1, 0, 1, 0)), I8, _ROWS),
    "strided_i8": Sample(*conv_int8(u8(1, 5, 33, 31), 7, (5, 4), strides=(2, 3), pads=(2, 1, 1, 2)), I8, _ROWS),
    "dilated_i8": Sample(*conv_int8(i8(2, 30, 24, 13), 10, (3, 3), dilations=(2, 3), pads=_PAD2), I8, _ROWS),
    "many_results_i8": Sample(
        *conv_int8(i8(1, 24, 31, 21), 70, (3, 3), bias=False, strides=(2, 2), pads=_PAD1), I8, ({"c": 64},)
    ),
    "uneven_i8": Sample(*conv_int8(i8(1, 4, 28, 61), 6, (4, 4), pads=(3, 3, 0, 0)), I8, _ROWS),
    "points_i8": Sample(*conv_int8(point(2, 6, 24, 39), 8, (3, 3), POINT, pads=_PAD1), POINT, _ROWS),
    "deconv_doubling_i8": _transposed(i8(2, 32, 9, 7), 16, (2, 2), strides=(2, 2)),
    "deconv_overlapping_i8": _transposed(u8(1, 8, 6, 65), 5, (4, 4), strides=(2, 2), pads=_PAD1),
    "deconv_thirds_i8": _transposed(i8(3, 6, 9, 14), 9, (5, 3), strides=(3, 1), pads=(1, 1, 1, 1), do_relu=True),
    "sound_i8": Sample(*conv_int8(u8(2, 1, 1, 1028), 16, (1, 8), strides=(1, 4), pads=(0, 2, 0, 2)), I8, _COLUMNS),
    "sequence_i8": Sample(*conv_int8(i8(3, 20, 1, 150), 10, (1, 5), pads=(0, 2, 0, 2), do_relu=True), U8, _COLUMNS),
    "column_i8": Sample(*conv_int8(i8(1, 16, 240, 1), 12, (3, 1), pads=(1, 0, 1, 0)), I8, ({"h": 50},)),
    "points_sequence_i8": Sample(
        *conv_int8(point(2, 6, 1, 180), 8, (1, 3), POINT, pads=(0, 2, 0, 2), dilations=(1, 2)), POINT, _COLUMNS
    ),
    "deconv_sound_i8": _transposed(i8(2, 16, 1, 130), 1, (1, 8), _COLUMNS, strides=(1, 4), pads=(0, 2, 0, 2)),
    "deconv_sequence_i8": _transposed(i8(1, 30, 1, 90), 9, (1, 5), _COLUMNS, strides=(1, 3), pads=(0, 1, 0, 1)),
}
FLOATS = {
    "sequence_f16": _narrow(20, 10, 1, 360, (1, 4), _COLUMNS, pads=(0, 3, 0, 0)),
    "sequence_f32": Sample(*conv_f32(f32(1, 20, 1, 480), 5, (1, 9), pads=(0, 4, 0, 4)), None, _COLUMNS),
    "deconv_sound_f16": _transposed(
        f32(1, 16, 1, 200).astype(np.float16), 1, (1, 8), _COLUMNS, strides=(1, 4), pads=(0, 2, 0, 2)
    ),
    "image_f32": Sample(*conv_f32(f32(2, 3, 24, 20), 16, (3, 3), pads=_PAD1), None, _ROWS),
    "strided_f32": Sample(*conv_f32(f32(1, 5, 33, 31), 7, (5, 4), strides=(2, 3), pads=(2, 1, 1, 2)), None, _ROWS),
    "deconv_doubling_f32": _transposed(f32(1, 32, 9, 7), 16, (2, 2), strides=(2, 2)),
    "few_f16": _narrow(16, 16, 16, 70, pads=_PAD1),
    "deep_f16": _narrow(40, 13, 28, 45, pads=_PAD1),
    "strided_f16": _narrow(12, 20, 31, 19, strides=(2, 2), pads=_PAD1),
    "deconv_doubling_f16": _transposed(f32(2, 32, 9, 7).astype(np.float16), 16, (2, 2), strides=(2, 2)),
    "deconv_padded_f16": _transposed(
        f32(1, 20, 5, 4).astype(np.float16), 7, (3, 3), strides=(2, 2), pads=_PAD1, output_padding=(1, 1)
    ),
}
ALL = INTEGERS | FLOATS


@contextmanager
def always_folded() -> Generator[None]:
    """Planning cannot take the kernel without folding instead."""

    def kernels(kernel: FoldedRowsKernel, node: Node) -> Sequence[Candidate]:
        return (Candidate(kernel, replace(kernel.space(node), is_wider=False)),)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FoldedRowsKernel, "kernels", kernels)
        yield


def compiled(chip: str, registry: Registry) -> CompiledKernels:
    """All samples, under the chosen and the forced tilings."""
    with always_folded():
        return compile_kernels(ALL, chip, registry, opt=1)
