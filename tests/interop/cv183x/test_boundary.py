"""The vendor's runtime: more inputs and outputs than there are memories for them, and bytes of cameras."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Boundary, Session

from tests.chips.cv18.op_networks import Net
from tests.chips.cv183x.test_preprocess import NORMALIZED, write_network
from tests.chips.frames import frames
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_four_inputs_and_four_outputs(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    net = Net()
    names = [f"x{index}" for index in range(4)]
    for index, name in enumerate(names):
        x = net.op("Conv", [name, net.normal(f"w{index}", (5, 3, 3, 3), 0.2)], f"c{index}", pads=[1] * 4)
        net.op("Add", [x, f"c{max(index - 1, 0)}"], f"y{index}")
    path = net.save(tmp_path / "net.onnx", dict.fromkeys(names, (1, 3, 6, 7)), [f"y{index}" for index in range(4)])
    random = np.random.default_rng(1)
    inputs = {name: random.normal(size=(1, 3, 6, 7)).astype(np.float32) for name in names}
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(path)
    table = None
    if mode == "int8":
        np.savez(tmp_path / "samples.npz", **{name: array[None] for name, array in inputs.items()})
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    data = session.build(module, table).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    loaded = session.chip.load(data)
    assert len(loaded.inputs) + len(loaded.outputs) == 8
    got, vendor = loaded.run(inputs), run_vendor(target, inputs)
    assert got.keys() == vendor.keys()
    for name, array in got.items():
        assert array.tobytes() == vendor[name].tobytes(), name


@pytest.mark.parametrize("form", ["YUV_NV12", "YUV_NV21", "YUV420_PLANAR", "RGBA_PACKED", "RGBA_PLANAR", "RGB_PACKED"])
def test_frames_of_cameras(form: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16")
    top = session.transform(write_network(tmp_path / "net.onnx"), preprocess=NORMALIZED)
    data = session.build(top, boundary=Boundary(True, form)).data
    target = tmp_path / "net.cvimodel"
    target.write_bytes(data)
    loaded = session.chip.load(data)
    inputs = {"image_raw": frames(loaded.inputs[0].shape)}
    got, vendor = loaded.run(inputs), run_vendor(target, inputs)
    assert {name: array.tobytes() for name, array in got.items()} == {
        name: array.tobytes() for name, array in vendor.items()
    }
