"""What every chip promises, and a small network that is compiled for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc_driver.api.host import Session
from tpuc_ops import tpu
from tpuc_testing import integers, quantized, quantized_element, uniform
from tpuc_testing.chip_conformance import ChipConformance
from tpuc_testing.kernel_conformance import Fixed, Sample

BYTES = quantized_element("int8", 0.05)


def conv(channels: int, rows: int) -> Sample:
    """A convolution of 3x3, whose sums are brought back to bytes."""
    op = tpu.Conv2D(
        kernel_shape=(3, 3),
        pads=(1, 1, 1, 1),
        multiplier=tuple(range(90, 90 + channels)),
        rshift=(15,) * channels,
        round_mode="HalfUp",
    )
    filters, bias = integers(channels, 20, 3, 3), integers(channels, dtype="int16").astype(np.int32)
    operands = [quantized(integers(1, 20, rows, 6), 0.05), Fixed(filters, "si8"), Fixed(bias)]
    return Sample(op, operands, BYTES, tilings=[{"c": 8, "k": 8}, {"h": 2}, {"w": 4, "k": 16}])


def relu(rows: int) -> Sample:
    """A clamp of bytes."""
    return Sample(tpu.Relu(relu_limit=4.0), [quantized(integers(2, 11, rows, 5), 0.05)], BYTES, tilings=[{"n": 1}])


class TestToy(ChipConformance):
    chip = "toy"
    samples = {
        "conv": conv(12, 7),
        "relu": relu(6),
        "softmax": Sample(tpu.Softmax(axis=3), [uniform(2, 3, 4, 10)], tilings=[{"c": 8}]),
    }
    growing = {"conv": [conv(8, 4), conv(8, 8), conv(16, 8)], "relu": [relu(1), relu(9)]}


def test_a_network_is_compiled(tmp_path: Path) -> None:
    x, y = (make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 3, 8, 8)) for name in ("x", "y"))
    graph = make_graph([make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    samples = uniform(4, 1, 3, 8, 8, low=-2, high=2)
    np.savez(tmp_path / "samples.npz", x=samples)
    session = Session(chip="toy", quantize="int8")
    session.compile(tmp_path / "net.onnx", tmp_path / "net.toy", dataset=tmp_path / "samples.npz")
    chip, loaded = session.open(tmp_path / "net.toy")
    (result,) = loaded.run({info.name: samples[0] for info in loaded.inputs}).values()
    assert chip.description.name == "toy"
    assert np.abs(result - np.maximum(samples[0], 0)).max() <= 2 / 127
