"""Operands that are quantized as they come: their integers, and floats where their scale comes back and a pass asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from tpuc.interpreter import Interpreter
from tpuc.schedule import PassContext
from tpuc_optimize.canonicalize import Canonicalize
from tpuc_prequantized.drop_dynamic_quantization import drop_dynamic_quantization

from tests.families import each
from tests.frontends.onnx.networks import Array, network, node, ops, read, registry, run_onnx, values

FLOAT = TensorProto.FLOAT
BEGIN = (node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z wz", "m"))
TO_FLOAT = node("Cast", "m", "c", to=FLOAT)
WEIGHTS: dict[str, Array] = {
    "w": np.random.default_rng(0).integers(-60, 60, (4, 5)).astype(np.int8),
    "wz": np.int8(3).reshape(()),
    "ws": np.float32(1.5).reshape(()),
    "hundred": np.float32(100).reshape(()),
    "other": np.random.default_rng(1).integers(-60, 60, (5, 4)).astype(np.int8),
    "rows": np.array([4, 2], np.int64),
    "order": np.array([5, 2], np.int64),
    "zero": np.uint8(0).reshape(()),
}

INCOMPLETE = {
    "no scale": [TO_FLOAT, node("Identity", "c", "y")],
    "another scale": [TO_FLOAT, node("Mul", "c ws", "y")],
    "a term before the scale": [TO_FLOAT, node("Add", "c hundred", "r"), node("Mul", "r s", "y")],
    "a function before the scale": [TO_FLOAT, node("Relu", "c", "r"), node("Tanh", "r", "t"), node("Mul", "t s", "y")],
    "the scale twice": [TO_FLOAT, node("Mul", "s s", "ss"), node("Mul", "c ss", "y")],
    "the scale before and behind": [TO_FLOAT, node("Mul", "c s", "r"), node("Mul", "r s", "y")],
    "the product twice": [TO_FLOAT, node("Mul", "c c", "r"), node("Mul", "r s", "y")],
    "a sum of scales": [TO_FLOAT, node("Add", "s ws", "t"), node("Mul", "c t", "y")],
    "a quotient": [TO_FLOAT, node("Div", "c s", "y")],
    "the integers themselves": [node("Cast", "q", "r", to=FLOAT), node("Mul", "r s", "y")],
    "the integers beside": [
        TO_FLOAT,
        node("Mul", "c s", "t"),
        node("Cast", "q", "r", to=FLOAT),
        node("ReduceSum", "r", "u"),
        node("Add", "t u", "y"),
    ],
    "one of two products": [
        TO_FLOAT,
        node("Mul", "c s", "t"),
        node("MatMulInteger", "q w z", "m2"),
        node("Cast", "m2", "c2", to=FLOAT),
        node("Add", "t c2", "y"),
    ],
    "an output between": [TO_FLOAT, node("Mul", "c s", "t"), node("Identity", "c", "y")],
    "a power of the scale": [TO_FLOAT, node("Mul", "c s", "t"), node("Pow", "s ws", "p"), node("Add", "t p", "y")],
}


def _same(got: Array, wanted: Array) -> None:
    """Integer sums are exact; scales and what is done to them round in float32."""
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * float(np.abs(wanted).max()))


@each("case", INCOMPLETE)
def test_dynamic_quantization_whose_scale_does_not_come_back_is_computed(case: str, tmp_path: Path) -> None:
    outputs = ["y", "t"] if case == "an output between" else ["y"]
    model = network([*BEGIN, *INCOMPLETE[case]], {"x": [2, 4]}, outputs, WEIGHTS)
    module = read(model, tmp_path)
    assert "DynamicQuantizeLinear" in ops(module)
    for seed in range(4):
        x = {"x": values(2, 4, seed=seed) * 3}
        got = Interpreter(module).run(x)
        for name, wanted in run_onnx(model, x).items():
            _same(got[name], wanted)


COMPLETE: dict[str, list[onnx.NodeProto]] = {
    "at once": [TO_FLOAT, node("Mul", "c s", "y")],
    "with the filters' scale": [TO_FLOAT, node("Mul", "s ws", "t"), node("Mul", "t c", "y")],
    "one after the other": [TO_FLOAT, node("Mul", "ws c", "t"), node("Mul", "t s", "y")],
    "in another shape": [
        TO_FLOAT,
        node("Transpose", "c", "t"),
        node("Reshape", "t order", "r"),
        node("Mul", "r s", "y"),
    ],
    "of two products": [
        TO_FLOAT,
        node("Mul", "s ws", "t"),
        node("Mul", "c t", "u"),
        node("MatMulInteger", "q w z", "m2"),
        node("Cast", "m2", "c2", to=FLOAT),
        node("Mul", "c2 s", "v"),
        node("Add", "u v", "y"),
    ],
}


@each("case", [*COMPLETE, *INCOMPLETE])
def test_dropping_leaves_floats_where_the_scale_comes_back(case: str, tmp_path: Path) -> None:
    outputs = ["y", "t"] if case == "an output between" else ["y"]
    nodes = [*BEGIN, *(COMPLETE | INCOMPLETE)[case]]
    model = network(nodes, {"x": [2, 4]}, outputs, WEIGHTS)
    module = read(model, tmp_path)
    Canonicalize().run(module, PassContext(registry()))
    count = drop_dynamic_quantization(module, PassContext(registry()))
    assert count == (case in COMPLETE)
    assert ("DynamicQuantizeLinear" in ops(module)) == (case in INCOMPLETE)
    x = values(2, 4)
    got, wanted = Interpreter(module).run({"x": x}), run_onnx(model, {"x": x})
    if case in INCOMPLETE:
        for name in outputs:
            _same(got[name], wanted[name])
        return
    # Half a step of the operand, 4 / 255 at most, in four products with filters below 63; scales are 2.5 together.
    np.testing.assert_allclose(got["y"], wanted["y"], rtol=0, atol=2 / 255 * 4 * 63 * 2.5)
    assert np.abs(wanted["y"]).max() > 100


EDGES = {
    "zeros": np.zeros((2, 4), np.float32),
    "above": np.linspace(0.5, 9, 8, dtype=np.float32).reshape(2, 4),
    "below": np.linspace(-9, -0.5, 8, dtype=np.float32).reshape(2, 4),
    "a half at the upper end": np.array([[-1.5, 253.5, 0.5, 1.5], [2.5, 3.5, -0.5, 100.5]], np.float32),
}


@each("case", EDGES)
def test_ranges(case: str, tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("Cast", "q", "i", to=FLOAT),
        node("Cast", "z", "zf", to=FLOAT),
    ]
    model = network(nodes, {"x": [2, 4]}, ["i", "s", "zf"], {})
    got, wanted = Interpreter(read(model, tmp_path)).run({"x": EDGES[case]}), run_onnx(model, {"x": EDGES[case]})
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name].reshape(array.shape), array)
