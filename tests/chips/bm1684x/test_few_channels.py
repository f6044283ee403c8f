"""Ops on few channels compute on most lanes: about as fast as their transfers, and with the right values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from benchmarks.architectures.graph import Graph

Array = NDArray[Any]
RANDOM = np.random.default_rng(8)
FILTER, SCALE, BIAS = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((1, 12, 1, 1), 6, 6))
IN, OUT = 54.02, 40.98
"""Bytes that are loaded and stored in a cycle."""


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-np.einsum("nchw,oc->nohw", x, FILTER[..., 0, 0])))


def _power(x: Array, z: Array) -> Array:
    return np.power(x, z)


def _normalized(x: Array) -> Array:
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * SCALE[:, None, None] + BIAS[:, None, None]


CASES: dict[str, tuple[list[Any], dict[str, Array], list[tuple[int, ...]], Any, float]] = {
    "convolution to one channel, then sigmoid": (
        [helper.make_node("Conv", ["x0", "w"], ["c"]), helper.make_node("Sigmoid", ["c"], ["y"])],
        {"w": FILTER},
        [(1, 12, 96, 96)],
        _sigmoid,
        1.4,
    ),
    "power": ([helper.make_node("Pow", ["x0", "x1"], ["y"])], {}, [(1, 5, 96, 96)] * 2, _power, 1.6),
    "normalization of channels": (
        [helper.make_node("InstanceNormalization", ["x0", "s", "b"], ["y"])],
        {"s": SCALE, "b": BIAS},
        [(1, 6, 96, 96)],
        _normalized,
        1.8,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_few_channels_take_about_as_long_as_their_transfers(name: str, tmp_path: Path) -> None:
    nodes, constants, shapes, wanted, most = CASES[name]
    arrays = [np.abs(RANDOM.standard_normal(shape)).astype(np.float32) + 0.1 for shape in shapes]
    inputs = [helper.make_tensor_value_info(f"x{at}", TensorProto.FLOAT, shape) for at, shape in enumerate(shapes)]
    weights = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "network.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(tmp_path / "network.onnx")).data)
    (found,) = loaded.run({f"x{at}": array for at, array in enumerate(arrays)}).values()
    expected = wanted(*(array.astype(np.float64) for array in arrays))
    assert np.allclose(found, expected, rtol=2e-2, atol=2e-2)
    floor = sum(array.nbytes for array in arrays) / IN + found.nbytes / OUT
    assert loaded.timeline(session.chip.profiles[0]).cycles <= most * floor


def test_streamed_ops_take_the_view_that_is_fastest(tmp_path: Path) -> None:
    """In int8 the sigmoid of one channel at the end stays in floats, and is worth a transfer to most lanes."""
    net = Graph()
    y = net.each("Sigmoid", net.conv(net.input(16, 128, 128), 1))
    (tmp_path / "network.onnx").write_bytes(net.model(y).SerializeToString())
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(tmp_path / "network.onnx")
    inputs = {"x0": RANDOM.standard_normal((1, 16, 128, 128)).astype(np.float32)}
    np.savez(tmp_path / "samples.npz", **inputs)  # type: ignore[arg-type]
    table = session.calibrate(
        module, dataset=tmp_path / "samples.npz", options={"tune_num": 0, "bias_num": 0}, method="max"
    )
    final, data, *_ = session.build(module, table)
    loaded = session.chip.load(data)
    (found,), (wanted,) = loaded.run(inputs).values(), Interpreter(final).run(inputs).values()
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert loaded.timeline(session.chip.profiles[0]).cycles < 40_000  # 92,301 in one lane
