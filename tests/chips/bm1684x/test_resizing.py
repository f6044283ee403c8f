"""Linear resizing and repeated or mirrored borders: ONNX Runtime's numbers, and images stay in local memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.families import each

onnxruntime = pytest.importorskip("onnxruntime")

Array = NDArray[Any]
LIMITS = {"f32": 1e-6, "f16": 2e-3, "bf16": 1.6e-2, "int8": 1.02 / 127, "int8-asym": 1.6 / 127}
"""Largest difference, in shares of the largest magnitude: for bytes a step, or two of half the width."""
RESIZED = {
    "twice": ((1, 5, 6, 7), (2, 2), "half_pixel"),
    "thrice and twice": ((2, 3, 4, 5), (3, 2), "pytorch_half_pixel"),
    "four times": ((1, 66, 3, 5), (4, 4), "half_pixel"),
    "eight times": ((1, 2, 4, 3), (8, 8), "half_pixel"),
    "from the corner": ((1, 3, 5, 4), (4, 2), "asymmetric"),
    "columns": ((1, 3, 5, 4), (1, 2), "half_pixel"),
    "one channel": ((1, 1, 4, 6), (2, 2), "half_pixel"),
    "one place": ((1, 7, 1, 1), (9, 20), "half_pixel"),
    "from corner to corner": ((1, 3, 4, 5), (2, 2), "align_corners"),
    "by fractions": ((2, 66, 37, 21), (1.3, 2.5), "half_pixel"),
    "to fewer": ((3, 5, 70, 90), (0.25, 0.75), "asymmetric"),
    "small": ((3, 70, 7, 5), (2, 2), "align_corners"),
    "rows by a fraction": ((2, 9, 30, 7), (2.4, 1), "align_corners"),
    "columns by a fraction": ((1, 70, 7, 30), (1, 1.7), "align_corners"),
}
PADDED = {
    "mirrored": ((1, 5, 6, 7), "reflect", (0, 0, 2, 1, 0, 0, 1, 3)),
    "repeated": ((2, 66, 5, 4), "edge", (0, 0, 1, 2, 0, 0, 3, 0)),
    "a mirrored row": ((1, 3, 40), "reflect", (0, 0, 4, 0, 0, 4)),
    "a repeated row": ((1, 3, 40), "edge", (0, 0, 0, 0, 0, 9)),
    "channels too": ((1, 3, 4, 5), "edge", (0, 1, 1, 1, 0, 0, 0, 1)),
}
FRACTIONS = ("by fractions", "to fewer", "small", "rows by a fraction")
STAY = ("twice", "four times", "mirrored", "repeated", "a mirrored row", *FRACTIONS)
"""Those whose values do not leave local memory."""


def model(name: str) -> bytes:
    """The case behind a Relu, and before another one where bytes would otherwise be read as floats."""
    shape: tuple[int, ...]
    if name in RESIZED:
        shape, factors, coordinates = RESIZED[name]
        scales = numpy_helper.from_array(np.array([1, 1, *factors], np.float32), "scales")
        attributes = {"mode": "linear", "coordinate_transformation_mode": coordinates}
        node = helper.make_node("Resize", ["v", "", "scales"], ["w"], **attributes)
        dims = [int(extent * factor) for extent, factor in zip(shape, (1, 1, *factors), strict=True)]
        constant = scales
    else:
        shape, mode, pads = PADDED[name]
        constant = numpy_helper.from_array(np.array(pads, np.int64), "pads")
        node = helper.make_node("Pad", ["v", "pads"], ["w"], mode=mode)
        dims = [n + pads[axis] + pads[axis + len(shape)] for axis, n in enumerate(shape)]
    nodes = [helper.make_node("Relu", ["x"], ["v"]), node, helper.make_node("Relu", ["w"], ["y"])]
    ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, of) for one, of in (("x", shape), ("y", dims))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def build(name: str, mode: str, work: Path) -> tuple[Session, bytes, Array, Array]:
    path = work / "net.onnx"
    path.write_bytes(model(name))
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    shape = (RESIZED[name] if name in RESIZED else PADDED[name])[0]
    x = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    np.savez(work / "samples.npz", x=x)
    options = {"tune_num": 0, "bias_num": 0}
    table = None
    if mode.startswith("int8"):
        table = session.calibrate(module, dataset=work / "samples.npz", method="max", options=options)
    [wanted] = onnxruntime.InferenceSession(path.read_bytes()).run(None, {"x": x})
    return session, session.build(module, table).data, x, wanted


CASES = [*RESIZED, *PADDED]
PAIRS = [
    (name, mode) for at, name in enumerate(CASES) for mode in (["f16", "int8", "bf16", "f32", "int8-asym"][at % 5],)
]


@each(("name", "mode"), [*PAIRS, *((name, "int8") for name in STAY), *((name, "f16") for name in STAY)])
def test_values_and_transfers(name: str, mode: str, tmp_path: Path) -> None:
    session, data, x, wanted = build(name, mode, tmp_path)
    loaded = session.chip.load(data)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    assert np.abs(got.reshape(wanted.shape) - wanted).max() <= LIMITS[mode] * np.abs(wanted).max()
    if name in STAY and mode in ("f16", "int8"):
        commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
        assert sum(loaded.ddr_bytes(command)[1] for command in commands) == wanted.size * 4


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f16", "int8"])
@pytest.mark.parametrize("name", STAY)
def test_the_vendors_model_agrees(name: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, data, x, _ = build(name, mode, tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    [got] = run_vendor(path, {"x": x}).values()
    [wanted] = session.chip.load(data).run({"x": x}).values()
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))
