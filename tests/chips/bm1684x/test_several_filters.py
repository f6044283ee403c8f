"""Convolutions with several filters per channel: numbers of the definition, and few cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

LIMITS = {"f32": 5e-6, "f16": 4e-3, "int8": 0.03}


@each(("filters", "mode"), [(2, "f16"), (3, "int8"), (2, "f32")])
def test_channels_are_repeated_for_their_filters(filters: int, mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(filters)
    channels, size = 40, 12
    weight = random.normal(0, 0.2, (channels * filters, 1, 5, 5)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=channels, pads=[2] * 4)
    shapes = {"x": (1, channels, size, size), "y": (1, channels * filters, size, size)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    x = random.uniform(-1, 1, shapes["x"]).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    options = {"tune_num": 0, "bias_num": 0}
    table = None
    if mode == "int8":
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", method="max", options=options)
    loaded = session.chip.load(session.build(module, table).data)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (2, 2), (2, 2)))
    places = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), (2, 3))
    kernels = weight.reshape(channels, filters, 5, 5)
    wanted = np.einsum("nchwab,cfab->ncfhw", places, kernels).reshape(shapes["y"])
    assert np.abs(got - wanted).max() <= LIMITS[mode] * np.abs(wanted).max()
    # One channel after the other takes at least a cycle for 16 places, tap and channel.
    assert loaded.timeline(session.chip.profiles[0]).cycles < channels * 25 * -(-(size**2) // 16)
