"""Quantized products of a tensor and what is made of it: gates, attention over channels, shares, moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

from tests.families import each

SHAPE = (1, 6, 8, 8)
SCALE = 0.02
MADE: dict[str, dict[str, Any]] = {
    "Sigmoid": {},
    "GlobalAveragePool": {},
    "GlobalMaxPool": {},
    "Softmax": {"axis": -1},
    "ReduceMean": {"axes": [-1], "keepdims": 1},
    "ReduceMax": {"axes": [1], "keepdims": 1},
    "Transpose": {"perm": [0, 1, 3, 2]},
}


def network() -> bytes:
    """Products of x and f(x) for every f, with int8 around everything, all in one scale without a zero point."""
    nodes: list[onnx.NodeProto] = []

    def stored(value: str, result: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [value, "s", "z"], [f"{result}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{result}_q", "s", "z"], [result]))
        return result

    x = stored("input", "x")
    for op, attributes in MADE.items():
        nodes.append(helper.make_node(op, [x], [f"{op}_f"], **attributes))
        nodes.append(helper.make_node("Mul", [x, stored(f"{op}_f", f"{op}_d")], [f"{op}_m"]))
        stored(f"{op}_m", op)
    weights = [
        numpy_helper.from_array(np.array(SCALE, np.float32), "s"),
        numpy_helper.from_array(np.array(0, np.int8), "z"),
    ]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, SHAPE)]
    outputs = [helper.make_tensor_value_info(op, TensorProto.FLOAT, None) for op in MADE]
    graph = helper.make_graph(nodes, "gates", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


@pytest.mark.filterwarnings("ignore::tpuc.Remark")  # of the mode that the network states
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x", "cv183x", "c")])
def test_products_with_what_is_made_of_an_operand(chip: str, tmp_path: Path) -> None:
    path = tmp_path / "gates.onnx"
    path.write_bytes(network())
    x = np.random.default_rng(3).normal(0, 0.8, SHAPE).astype(np.float32)
    session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = dict(zip(MADE, session.run(list(MADE), {"input": x}), strict=True))
    got = tpuc.load(path).compile(chip).run({"input": x})
    steps = {op: float(np.abs(got[op] - wanted[op]).max() / SCALE) for op in MADE}
    assert {op: count for op, count in steps.items() if not count < 2.5} == {}
