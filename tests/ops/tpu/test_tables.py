"""tpu.Lut and tpu.Active."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.tpu.active import modes
from tpuc_testing import OpConformance, f32, integers, onnx_node, quantized, quantized_element, uniform

from tests.families import each

TABLE = integers(1, 1, 1, 256)


class TestLut(OpConformance):
    op = tpu.Lut()

    @staticmethod
    def reference(x: Array, table: Array) -> Array:
        return np.array([table[0, 0, 0, q % 256] for q in x.reshape(-1).tolist()], table.dtype).reshape(x.shape)

    samples = (
        [integers(2, 3, 4), TABLE],
        [quantized(integers(2, 3, 4, dtype="uint8"), 0.5), TABLE],
        [integers(4, 4)[:, ::2], TABLE],
    )
    flops = 1


class TestElu(OpConformance):
    op = tpu.Active(mode="ELU", coeffs=(0.5,))
    reference = onnx_node("Elu", alpha=0.5)
    samples = ([uniform(2, 3)],)
    flops = 4


class TestHardSigmoid(OpConformance):
    op = tpu.Active(mode="HSIGMOID", coeffs=(0.25, 0.4))
    reference = onnx_node("HardSigmoid", alpha=0.25, beta=0.4)
    samples = ([uniform(2, 3)],)
    flops = 4


class TestTanhInF16(OpConformance):
    op = tpu.Active(mode="TANH")

    @staticmethod
    def reference(x: Array) -> Array:
        return np.tanh(x.astype(np.float64)).astype(np.float16)

    samples = ([uniform(2, 3).astype(np.float16)],)
    flops = 4
    rtol = 2.0**-10  # one step of f16, where float32 lies beside a tie


@each("mode", sorted({*modes()} - {"ELU", "HSIGMOID"}))
def test_every_mode_keeps_shape_and_type(mode: str) -> None:
    op, type = tpu.Active(mode=mode), TensorType((3,), F32)
    assert op.infer((type,)) == (type,)
    (y,) = op.evaluate(Node(op, (type,), (type,)), [f32(-1, 0.5, 2)])
    assert y.shape == (3,)
    assert y.dtype == np.float32


@each(
    ("op", "element", "sentence"),
    [
        (tpu.Active(mode="WOBBLE"), F32, "mode WOBBLE is not known"),
        (tpu.Active(mode="ELU"), F32, "mode ELU needs 1 coeffs, there are 0"),
        (
            tpu.Active(mode="TANH"),
            quantized_element("int8", 1.0),
            "floats are needed, this operand stores i8; use tpu.Lut",
        ),
    ],
)
def test_illegal_activations_are_refused(op: tpu.Active, element: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        op.infer((TensorType((3,), element),))  # type: ignore[arg-type]  # parametrized


def test_tables_of_another_size_are_refused() -> None:
    types = (TensorType((3,), quantized_element("int8", 1.0)), TensorType((1, 255), F32))
    with pytest.raises(ValueError, match="bytes and 256 entries are needed, these are i8 and 1x255"):
        tpu.Lut().infer(types)
