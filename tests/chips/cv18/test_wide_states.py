"""Recurrent layers of odd sizes in int8: states in bf16 follow ONNX Runtime's over many steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

STEPS = 24


def _write(path: Path, kind: str, batch: int, features: int, hidden: int, is_last: bool) -> None:
    random = np.random.default_rng(hidden)
    gates = {"GRU": 3, "LSTM": 4}[kind]
    weights = {
        name: random.normal(0, 1 / np.sqrt(shape[-1]), shape).astype(np.float32)
        for name, shape in (("w", (1, gates * hidden, features)), ("r", (1, gates * hidden, hidden)))
    }
    nodes = [helper.make_node(kind, ["x", "w", "r"], ["all"], hidden_size=hidden)]
    shape: tuple[int, ...] = (STEPS, 1, batch, hidden)
    if not is_last:
        nodes.append(helper.make_node("Neg", ["all"], ["minus"]))
    out = helper.make_tensor_value_info("all" if is_last else "minus", TensorProto.FLOAT, shape)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (STEPS, batch, features))
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "cell", [x], [out], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@pytest.mark.parametrize(
    ("chip", "kind", "batch", "features", "hidden", "is_last"),
    [
        ("cv183x", "GRU", 1, 3, 5, True),
        ("cv181x", "LSTM", 2, 7, 33, False),
        ("cv181x", "GRU", 3, 70, 31, True),
        ("cv183x", "LSTM", 2, 5, 9, True),
    ],
)
def test_states_follow(
    chip: str, kind: str, batch: int, features: int, hidden: int, is_last: bool, tmp_path: Path
) -> None:
    """At least 26 dB; of bytes, 8 to 24."""
    path = tmp_path / "cell.onnx"
    _write(path, kind, batch, features, hidden, is_last)
    samples = np.random.default_rng(3).normal(0, 1, (5, STEPS, batch, features)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": samples[0]})
    network = tpuc.load(path).quantize({"x": samples[1:]}, tune_num=0, bias_num=0)
    (found,) = network.compile(chip).run({"x": samples[0]}).values()
    noise = np.asarray(found, np.float64).reshape(wanted.shape) - wanted
    assert 10 * np.log10(np.square(wanted).sum() / np.square(noise).sum()) > 26
