"""Predicted times of compiled networks, beside what the vendor's compiler reaches by the same rules."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Instruction, LoadedModel
from tpuc_cv18.isa import Conv, DType, TensorCopy
from tpuc_cv18.isa.dma import Direction
from tpuc_cv18.isa.geometry import SHARED, split_gmem
from tpuc_cv18.timing import cycles
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Boundary, Session

from tests.chips.cv18.op_networks import Net
from tests.chips.cv183x.test_networks import write_resnet50
from tests.families import each
from tests.models.resnet8 import from_tflite

# Microseconds of the vendor's files by its own estimator, int8 and bf16, casts of inputs and outputs included.
VENDOR = {
    "resnet8": (41.8, 147.0),
    "kws": (23.6, 45.4),
    "vww": (60.3, 173.0),
    "ad01": (41.0, 86.1),
    "blazeface": (226.0, 559.0),
    "resnet50": (10771.0, 31915.0),
}
MODES = ("int8", "bf16")
MOST = 1.5
"""Times the vendor's figure."""
IMAGES = {"RGB_PACKED": 26594, "YUV_NV12": 27858}
"""Cycles of the vendor's files until the bytes of 144x152 pixels are a network's input in DDR, by form."""
RESNET50_CONV_CYCLES = 4.31e6
"""Of all convolutions in a trace of ResNet-50 on a CV1835, int8."""


def _network(name: str, model_data: Path, work: Path) -> Path:
    if name == "blazeface":
        return model_data / "onnx" / "blazeface.onnx"
    path = work / f"{name}.onnx"
    if name == "resnet50":
        return write_resnet50(path)
    start = {"resnet8": "ic01"}.get(name, name)
    (source,) = (model_data / "tflite" / "mlperf_tiny").glob(f"{start}*float32.tflite")
    path.write_bytes(from_tflite(source).SerializeToString())
    return path


def _compiled(name: str, mode: str, model_data: Path, work: Path) -> LoadedModel:
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(_network(name, model_data, work))
    table = None
    if mode == "int8":
        samples = {spec.name: np.random.default_rng(0).normal(0, 1, spec.shape) for spec in inputs_of(module)}
        np.savez(work / "samples.npz", **{name: array.astype(np.float32) for name, array in samples.items()})
        table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0})
    return session.chip.load(session.build(module, table).data)


@each("mode", MODES)
@each("name", [pytest.param(name, marks=pytest.mark.slow if name == "resnet50" else ()) for name in VENDOR])
def test_networks_take_about_as_long_as_the_vendors(name: str, mode: str, model_data: Path, tmp_path: Path) -> None:
    loaded = _compiled(name, mode, model_data, tmp_path)
    microseconds = loaded.timeline("vendor").cycles / 650
    assert microseconds <= MOST * VENDOR[name][MODES.index(mode)]
    if (name, mode) == ("resnet50", "int8"):
        commands = [entry.command.instruction for entry in loaded.timeline("measured").entries]
        products = sum(cycles(command, "measured") for command in commands if isinstance(command, Conv))
        assert products == pytest.approx(RESNET50_CONV_CYCLES, rel=0.05)


def test_a_float_image_becomes_bytes_on_its_way_to_ddr(tmp_path: Path) -> None:
    filters = np.random.default_rng(0).normal(0, 1, (8, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "filters"], ["y"])],
        "image",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 32, 32))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 30, 30))],
        [numpy_helper.from_array(filters, "filters")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "image.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="cv183x", quantize="int8")
    module = session.transform(tmp_path / "image.onnx")
    np.savez(tmp_path / "samples.npz", image=np.random.default_rng(1).uniform(0, 1, (1, 3, 32, 32)).astype(np.float32))
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    loaded = session.chip.load(session.build(module, table, boundary=Boundary(quant_output=True)).data)
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    copies = [command for command in commands if isinstance(command, TensorCopy)]
    assert not any(copy.direction is Direction.LOCAL for copy in copies)
    stored = [copy for copy in copies if copy.direction is Direction.STORE and copy.dtype is DType.BF16]
    assert sum(prod(copy.shape) for copy in stored) == 3 * 32 * 32
    assert {copy.result_dtype for copy in stored} == {DType.UINT8}


@pytest.mark.parametrize("form", IMAGES)
def test_pixels_become_an_input_in_half_of_the_vendors_cycles(form: str, tmp_path: Path) -> None:
    net, shape = Net(), (1, 3, 144, 152)
    net.op("Conv", ["image", net.normal("w", (8, 3, 3, 3), 0.2)], "y", strides=[2, 2], pads=[1] * 4)
    path = net.save(tmp_path / "net.onnx", {"image": shape}, ["y"])
    mean, scale = (103.9, 116.8, 123.7), (0.017, 0.0171, 0.0175)
    session = Session(chip="cv183x", quantize="int8")
    module = session.transform(path, preprocess={"mean": mean, "scale": scale, "pixel_format": "bgr"})
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.float32)
    floats = (pixels - np.float32(mean).reshape(-1, 1, 1)) * np.float32(scale).reshape(-1, 1, 1)
    np.savez(tmp_path / "samples.npz", image=floats[None])
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    loaded = session.chip.load(session.build(module, table, boundary=Boundary(True, form)).data)
    ends = [entry.end for entry in loaded.timeline("vendor").entries if _stores_inner(entry.command.instruction)]
    assert max(ends) <= IMAGES[form] / 2


def _stores_inner(command: Instruction) -> bool:
    """Does it store a value that is neither input nor output?"""
    if not isinstance(command, TensorCopy) or command.direction is not Direction.STORE:
        return False
    return split_gmem(command.destination)[0] == SHARED
