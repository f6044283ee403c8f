"""The casts of the quant dialect."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, ScalarType, TensorType, UniformPerAxis
from tpuc_ops.quant.casts import Dequantize, Quantize, StorageCast
from tpuc_testing import f32, quantized_element

# The range -4.1780586 to 4.4932480.
SEED = quantized_element("int8", 0.034005123961205579, -5)
PER_CHANNEL = UniformPerAxis(ScalarType("i8"), F32, 1, (0.5, 0.25), (0, 1))


def test_the_seeds_range_fills_int8() -> None:
    x = f32(-4.1780586, 0.0, 4.493248)
    types = (TensorType((3,), F32), TensorType((3,), SEED))
    (q,) = Quantize().evaluate(Node(Quantize(), types[:1], types[1:]), [x])
    assert q.tolist() == [-128, -5, 127]
    (y,) = Dequantize().evaluate(Node(Dequantize(), types[1:], types[:1]), [q])
    np.testing.assert_allclose(y, x, atol=SEED.scale / 2)
    assert Dequantize().infer(types[1:]) == types[:1]


def test_each_channel_has_its_own_scale() -> None:
    type = TensorType((2, 2), PER_CHANNEL)
    (q,) = Quantize().evaluate(Node(Quantize(), (TensorType((2, 2), F32),), (type,)), [f32([[1, 1], [-0.25, -9e9]])])
    assert q.tolist() == [[2, 5], [-1, -128]]
    (y,) = Dequantize().evaluate(Node(Dequantize(), (type,), (TensorType((2, 2), F32),)), [q])
    assert y.tolist() == [[1, 1], [-0.5, -32.25]]


def test_storage_stays_as_it_is() -> None:
    q = np.array([1, -2], np.int8)
    types = (TensorType((2,), ScalarType("i8")), TensorType((2,), SEED))
    (same,) = StorageCast().evaluate(Node(StorageCast(), types[:1], types[1:]), [q])
    assert same is q


def test_a_type_without_scale_is_refused() -> None:
    type = TensorType((2,), F32)
    with pytest.raises(ValueError, match="a quantized type is needed, this one stores f32"):
        Dequantize().evaluate(Node(Dequantize(), (type,), (type,)), [f32(1, 2)])
