"""top.A16MatMul."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, ScalarType, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform

PACKED = np.array([[0x21, 0x43] * 8, [0xF0, 0x0F] * 8, [0x88, 0x99] * 8], np.uint8)
SCALE, ZP = np.array([[0.5], [2.0], [0.25]], np.float32), np.array([[1], [8], [15]], np.uint8)


def by_hand(x: Array, weight: Array, scale: Array, zp: Array, bias: Array) -> Array:
    rows = [[number for byte in row for number in (byte % 16, byte // 16)] for row in weight.tolist()]
    result = np.zeros((*x.shape[:-1], len(rows)))
    for column, row in enumerate(rows):
        for place in range(x.shape[-1]):
            result[..., column] += x[..., place] * (row[place] - float(zp[column, 0])) * float(scale[column, 0])
    return (result + (bias if bias.size else 0)).astype(np.float32)


class TestA16MatMul(OpConformance):
    op = top.A16MatMul(weight_bits=4, q_group_size=32)
    reference = staticmethod(by_hand)
    samples = [uniform(2, 5, 30), PACKED, SCALE, ZP, uniform(3)], [uniform(1, 32), PACKED, SCALE, ZP, None]
    flops = (1800, 192)


@pytest.mark.parametrize(
    ("fields", "weight", "table", "words"),
    [
        ({"weight_bits": 5}, (3, 20), (3, 1), "weight_bits is 5, it has to be 4, 8 or 16"),
        ({"q_group_size": 40}, (3, 24), (3, 1), "q_group_size is 40, it has to be a multiple of 16"),
        ({"q_group_size": 32}, (3, 10), (3, 1), r"does not fit a depth of 20, rows have 16 elements"),
        ({"q_group_size": 32}, (3, 16), (3, 2), r"scales and zero points have to be"),
    ],
)
def test_operands_have_to_fit(
    fields: dict[str, int], weight: tuple[int, ...], table: tuple[int, ...], words: str
) -> None:
    types = [TensorType((2, 20), F32), TensorType(weight, ScalarType("ui8"))]
    types += [TensorType(table, F32), TensorType(table, ScalarType("ui8"))]
    with pytest.raises(ValueError, match=words):
        top.A16MatMul(**fields).infer(tuple(types))
