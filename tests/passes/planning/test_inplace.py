"""Results in the memory of an operand: the same values, and less memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES
from tpuc_driver.session import Session

CASES = [case for case in (("cv183x", "bf16", 160), ("bm1684x", "f32", 192)) if Registry().has("tpuc.chips", case[0])]
CHANNELS = 32
APART = {
    **PIPELINES,
    "finalize": tuple(
        "assign-addresses{in-place=false}" if name == "assign-addresses" else name for name in PIPELINES["finalize"]
    ),
}


def residual(size: int) -> onnx.ModelProto:
    """Two convolutions of 1 x 1 with a shortcut around the second one, and pooling behind."""
    random = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(random.normal(0, 0.2, (CHANNELS, CHANNELS, 1, 1)).astype(np.float32), f"w{i}")
        for i in range(3)
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="a"),
        helper.make_node("Conv", ["a", "w1"], ["b"], name="b"),
        helper.make_node("Add", ["a", "b"], ["c"], name="c"),
        helper.make_node("Conv", ["c", "w2"], ["d"], name="d"),
        helper.make_node("Add", ["c", "d"], ["e"], name="e"),
        helper.make_node("MaxPool", ["e"], ["y"], name="y", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    shape = [1, CHANNELS, size, size]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CHANNELS, size // 2, size // 2])
    graph = helper.make_graph(nodes, "residual", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


@pytest.mark.parametrize(("chip", "mode", "size"), CASES)
def test_values_are_the_same_in_less_memory(chip: str, mode: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "residual.onnx"
    path.write_bytes(residual(size).SerializeToString())
    inputs = {"x": np.random.default_rng(4).normal(0, 1, (1, CHANNELS, size, size)).astype(np.float32)}
    outputs, peaks, reasons = [], [], []
    for pipelines in (APART, PIPELINES):
        session = Session(chip=chip, quantize=mode, pipelines=pipelines, opt=1)  # no slices: they need no such memory
        built = session.build(session.transform(path))
        (output,) = session.chip.load(built.data).run(inputs).values()  # its name may say its type
        outputs.append(output)
        plan = built.memory_plan
        assert plan is not None
        peaks.append(next(pool.peak_bytes for pool in plan.pools if pool.name == "activations"))
        reasons.append([buffer.reason for buffer in plan.buffers if buffer.reason.startswith("in place of")])
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert reasons[0] == []
    assert peaks[1] <= peaks[0]
    if chip == "cv183x":  # its local memory is too small for any of the values
        # Both sums, and the first convolution: 1 x 1 over all channels reads just the pixels that it writes.
        assert [reason.split("'")[1] for reason in reasons[1]] == ["x_bf16", "a", "c"]
        tensor = CHANNELS * size * size * 2
        assert peaks[0] - peaks[1] >= tensor  # two of them live at once instead of three
