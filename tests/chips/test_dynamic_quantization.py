"""Integers, scale and zero point by the range that a tensor turns out to have, on chips that compute them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.models.zoo.graph import Graph

SHOWN = (top.DynamicQuantizeLinear(),)
"""What the network below has, for the count of what is tested."""
SHAPE = (1, 3, 8, 8)
PLACES = [
    *(("bm1684x", mode) for mode in ("f32", "f16", "bf16", "int8", "int8-asym")),
    *((chip, mode) for chip in ("cv183x", "cv180x") for mode in ("bf16", "int8")),
]
BITS = {"f32": 24, "f16": 11, "bf16": 8, "int8": 7, "int8-asym": 7}
"""Of a number in each mode."""
STEPS = {"f32": 0.0, "f16": 1.0, "bf16": 2.0, "int8": 4.0, "int8-asym": 4.0}
"""Integers may be off by so many: quotients up to 255 of a number and a scale that have 11 or 8 bits each; and where
the network computes with int8, two summands and their sum are rounded to 127ths of up to 255 besides.
"""


@each(("chip", "mode"), PLACES)
def test_integers_scale_and_zero_point(chip: str, mode: str, tmp_path: Path) -> None:
    path, graph = tmp_path / "net.onnx", Graph("dynamic")
    x = graph.input(*SHAPE)
    graph.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], ["bytes", "scale", "zero"], name="bytes"))
    for name in ("bytes", "zero"):
        graph.nodes.append(helper.make_node("Cast", [name], [f"{name}_f"], name=f"{name}_f", to=onnx.TensorProto.FLOAT))
    onnx.save(graph.model("bytes_f", "scale", "zero_f"), path)
    # Of eighths up to 16, so that every float keeps them.
    values = (np.random.default_rng(3).integers(-40, 129, SHAPE) / 8).astype(np.float32)
    session = Session(chip=chip, quantize=mode)
    module = session.transform(path)
    table = None
    if mode.startswith("int8"):
        np.savez(tmp_path / "samples.npz", x0=values[None])
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    got = session.chip.load(session.build(module, table).data).run({"x0": values})
    found = [np.asarray(array, np.float32).reshape(-1) for array in got.values()]
    runtime = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = [np.asarray(array).reshape(-1) for array in runtime.run(None, {"x0": values})]
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        limit = abs(other) * 2.0 ** (1 - BITS[mode]) if index == 1 else STEPS[mode]
        assert (abs(one - other) <= limit).all()
