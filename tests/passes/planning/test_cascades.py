"""Random networks under forced slices: the same values as op by op, on every chip, with little local memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_plan.regions.region_planner import LEVELS, Settings

from tests.families import each

LANE_BYTES = {"bm1684x": 3072, "cv183x": 2048}
CASES = [
    (chip, seed)
    for chip, seeds in (("bm1684x", (0, 2, 3, 4, 5)), ("cv183x", (0, 2, 4, 5)))
    for seed in seeds
    if Registry().has("tpuc.chips", chip)
]


class Drawn:
    """A network of convolutions, sums and pools with shortcuts, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        batches, size = int(self.random.integers(1, 3)), int(self.random.integers(20, 50))
        self.shape = [batches, 3, size, int(self.random.integers(12, 40))]

    def op(self, kind: str, *operands: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(operands), [name], name=name, **attributes))
        return name

    def conv(self, x: str, ic: int, oc: int, kernel: int, stride: int = 1) -> str:
        name = f"w{len(self.nodes)}"
        filters = self.random.normal(0, (ic * kernel * kernel) ** -0.5, (oc, ic, kernel, kernel))
        self.weights.append(numpy_helper.from_array(filters.astype(np.float32), name))
        sides = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        return self.op("Relu", self.op("Conv", x, name, **sides))

    def model(self) -> onnx.ModelProto:
        channels = int(self.random.choice([16, 40, 64]))
        x = self.conv("x", 3, channels, 3)
        outputs: list[str] = []
        for _ in range(int(self.random.integers(3, 5))):
            match int(self.random.integers(0, 4)):
                case 0 | 1:
                    narrow = self.conv(x, channels, channels // 2, 1)
                    wide = self.conv(self.conv(narrow, channels // 2, channels // 2, 3), channels // 2, channels, 1)
                    x = self.op("Add", wide, x)
                case 2:
                    x = self.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
                case _:
                    left = self.conv(x, channels, channels, 3, 2)
                    x = self.op("Add", left, self.conv(x, channels, channels, 1, 2))
            if self.random.integers(0, 4) == 0:
                outputs.append(x)
        outputs.append(self.conv(x, channels, 8, 1))
        graph = helper.make_graph(
            self.nodes,
            "drawn",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in dict.fromkeys(outputs)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


QUICK = (("bm1684x", 2), ("cv183x", 0))


@each(("chip", "seed"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES])
def test_slices_compute_what_single_operations_do(
    chip: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Drawn(seed)
    path = tmp_path / "drawn.onnx"
    path.write_bytes(drawn.model().SerializeToString())
    inputs = {"x": np.random.default_rng(seed).uniform(-1, 1, drawn.shape).astype(np.float32)}
    np.savez(tmp_path / "samples.npz", **inputs)
    session = Session(chip=chip, quantize="int8", opt=2)
    monkeypatch.setattr(session.chip.lmem, "lane_bytes", LANE_BYTES[chip])
    module = session.transform(path)
    table = session.calibrate(module, method="max", dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    results: list[dict[str, NDArray[np.generic]]] = []
    cycles: list[int] = []
    for settings in (Settings(budget=0), Settings(striped=True)):
        monkeypatch.setitem(LEVELS, 2, (settings,))
        final, data, *_ = session.build(module, table)
        striped = [operation for operation in final.main.operations if "stripes" in operation.extra_attributes]
        assert bool(striped) == settings.striped
        loaded = session.chip.load(data)
        results.append(loaded.run(inputs))  # hazards are errors
        cycles.append(loaded.timeline(session.chip.profiles[0]).cycles)
    assert results[0].keys() == results[1].keys()
    for name, array in results[0].items():
        np.testing.assert_array_equal(results[1][name], array, err_msg=name)
    assert cycles[1] < cycles[0]


@pytest.mark.parametrize("chip", sorted({chip for chip, _ in CASES}))
def test_files_are_the_same_every_time(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(2)
    path = tmp_path / "drawn.onnx"
    path.write_bytes(drawn.model().SerializeToString())
    files: list[bytes] = []
    for _ in range(2):
        session = Session(chip=chip, quantize={"bm1684x": "f32", "cv183x": "bf16"}[chip], opt=2)
        monkeypatch.setattr(session.chip.lmem, "lane_bytes", LANE_BYTES[chip])
        files.append(session.build(session.transform(path))[1])
    assert files[0] == files[1]
