"""Ops of several results: parts of a tensor, and maxima with the places where they are."""

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

SHOWN = (
    top.MaxPoolWithMask(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    top.Split(axis=2, num=3, split_size=(2, 3, 4)),
)
"""What the network below has, for the count of what is tested."""
SHAPE = (1, 1, 9, 8)
"""One plane: ONNX counts places over all of them, which is a sum behind the pooling in the mode's own numbers."""


def _network(path: Path) -> None:
    graph = Graph("results")
    x = graph.input(*SHAPE)
    sizes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    graph.nodes.append(helper.make_node("MaxPool", [x], ["maxima", "places"], name="maxima", **sizes))
    graph.nodes.append(helper.make_node("Split", [x, graph.integers(2, 3, 4)], ["a", "b", "c"], name="a", axis=2))
    onnx.save(graph.model("maxima", "a", "b", "c", whole=["places"]), path)


@each("mode", ["f32", "f16", "bf16", "int8", "int8-asym"])
def test_maxima_with_places_and_parts(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    _network(path)
    # Whole numbers that every mode keeps apart.
    x = np.random.default_rng(2).integers(-100, 101, SHAPE).astype(np.float32)
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    table = None
    if mode.startswith("int8"):
        np.savez(tmp_path / "samples.npz", x0=x[None])
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    got = session.chip.load(session.build(module, table).data).run({"x0": x})
    runtime = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip((one.name for one in runtime.get_outputs()), runtime.run(None, {"x0": x}), strict=True))
    values = {name.removesuffix("_f32"): np.asarray(array, np.float32) for name, array in got.items()}
    # A scale that is not exact moves a value by less than a step, and a place by less than would make it another one.
    for name, array in wanted.items():
        found = values[name].reshape(array.shape)
        assert np.array_equal(np.rint(found), array) if name == "places" else np.abs(found - array).max() < 1, name
