"""Ops that the chip does not compute: functions of the runtime in the middle of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tpuc.api import Module
from tpuc.errors import CorruptFile, Unsupported, UsageError
from tpuc_cv18.container import CpuRoutine, CviModel
from tpuc_cv18.cpu import run_function
from tpuc_cv18.functions.roi_pooling import FUNCTION as ROI_POOLING_FUNCTION
from tpuc_cv183x.chip import CV183X
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc
from tests.chips.cv18.op_networks import Array, Net
from tests.chips.pooled_regions import REGIONS, ROI_POOLING
from tests.families import each
from tests.frontends.caffe.files import inputs, layer, read

X = np.random.default_rng(3).integers(-9, 9, (2, 5, 12)).astype(np.float32)
LONG = {1: (2, 300, 5), 2: (2, 5, 300)}
"""Shapes with more elements along an axis than the chip ranks by itself."""


def write_best(
    path: Path, axis: int = 2, outputs: tuple[str, ...] = ("y",), largest: int = 1, shape: Sequence[int] = X.shape
) -> Path:
    """Twice the input; its best four; twice these."""
    net = Net()
    two, count = net.constant("two", np.array(2, np.float32)), net.constant("count", np.array([4], np.int64))
    doubled = net.op("Mul", ["x", two], "doubled")
    net.nodes.append(
        helper.make_node("TopK", [doubled, count], ["best", "places"], name="best", axis=axis, largest=largest)
    )
    net.op("Mul", ["best", two], "y")
    net.op("Cast", ["places"], "where", to=1)
    return net.save(path, {"x": shape}, outputs)


@each("largest", [0, 1])
def test_a_network_with_a_function_in_its_middle_has_three_parts(largest: int, tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("TopK",))
    data = session.build(session.transform(write_best(tmp_path / "net.onnx", largest=largest))).data
    routines = CviModel.from_bytes(data, CV183X).programs[0].routines
    assert [isinstance(routine.body, CpuRoutine) for routine in routines] == [False, True, False]
    loaded = session.chip.load(data)
    (y,) = loaded.run({"x": X}).values()
    ordered = np.sort(X, 2)[..., ::-1] if largest else np.sort(X, 2)
    assert np.array_equal(y.reshape(2, 5, 4), 4 * ordered[..., :4])
    (call,) = loaded.host_calls
    assert (call.function, call.inputs[0].shape, call.outputs[0].shape) == ("topk", (2, 5, 12, 1), (2, 5, 4, 1))


@each(
    ("cpu_ops", "axis", "outputs", "way_out"),
    [
        (
            (),
            2,
            ("y",),
            "--cpu-ops TopK runs it as {it} on the processor, which reads {sent} and writes 160 B while the TPU waits",
        ),
        (
            ("all",),
            1,
            ("y",),
            "{it} cannot compute it either: it sorts along the last dimension, this is dimension 1 of 3",
        ),
        (
            ("TopK",),
            2,
            ("y", "where"),
            "{it} cannot compute it either: only the first 1 of its 2 results come out",
        ),
    ],
)
def test_what_the_chip_does_not_compute_is_refused_with_what_would_help(
    cpu_ops: tuple[str, ...], axis: int, outputs: tuple[str, ...], way_out: str, tmp_path: Path
) -> None:
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=cpu_ops)
    module = session.transform(write_best(tmp_path / "net.onnx", axis, outputs, shape=LONG[axis]))
    with pytest.raises(Unsupported) as error:
        session.build(module)
    known = "node 'best': top.TopK bf16 on cv183x: it ranks at most 256 elements, here 300; select outside the network"
    told = way_out.replace("{it}", "'topk' of the runtime").replace("{sent}", "12,000 B")
    assert str(error.value).startswith(f"{known} ({told}). Change the node")


def test_maxima_on_regions(tmp_path: Path) -> None:
    shapes = {name: array.shape for name, array in REGIONS.items()}
    module = read(inputs(**shapes) + layer("ROIPooling", ROI_POOLING, "x r"), tmp_path)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("ROIPooling",))
    loaded = session.chip.load(session.build(module).data)
    (result,) = loaded.run(REGIONS).values()
    assert result.reshape(-1).tolist() == [27, 31, 59, 63, 29, 31, 45, 47]
    assert [call.function for call in loaded.host_calls] == ["roi_pooling"]


YOLO = (
    "yolo_detection_param { net_input_h: 64 net_input_w: 128 nms_threshold: 0.5 obj_threshold: 0.5 keep_topk: 2 "
    'class_num: 2 tiny: true anchors: "8,8,16,16,32,32,8,16,16,32,32,64" }'
)


def yolo_maps(likely: int) -> dict[str, Array]:
    """Feature maps where the first box of so many cells is surely of class 1, a 64th of the image on each side."""
    large, small = np.zeros((1, 3, 7, 16 * 16), np.float32), np.zeros((1, 3, 7, 64), np.float32)
    large[:, :, 4], small[:, :, 4] = -99, -99
    large[0, 0, :, :likely] = np.array([0, 0, -math.log(4), -math.log(8), 99, 0, 99], np.float32)[:, None]
    return {"small": small.reshape(1, 21, 8, 8), "large": large.reshape(1, 21, 16, 16)}


def read_yolo(text: str, maps: Mapping[str, Array], folder: Path) -> Module:
    """A network of that detection alone."""
    shapes = {name: array.shape for name, array in maps.items()}
    return read(inputs(**shapes) + layer("YoloDetection", text, " ".join(maps)), folder)


def test_detections_of_feature_maps(tmp_path: Path) -> None:
    maps = yolo_maps(likely=2)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("YoloDetection",))
    loaded = session.chip.load(session.build(read_yolo(YOLO, maps, tmp_path)).data)
    (rows,) = loaded.run(maps).values()
    expected = [[0.5 / 16, 0.5 / 16, 1 / 64, 1 / 64, 1, 1], [1.5 / 16, 0.5 / 16, 1 / 64, 1 / 64, 1, 1]]
    np.testing.assert_allclose(rows.reshape(2, 6), expected, rtol=1e-6)
    (call,) = loaded.host_calls
    assert call.arguments["anchors"] == "8,8,16,16,32,32,8,16,16,32,32,64"
    assert [call.arguments[name] for name in ("tiny", "yolo_v4", "spp_net")] == [True, False, False]


@each("likely", [200, 201])
def test_more_likely_boxes_than_the_runtime_has_room_for(likely: int, tmp_path: Path) -> None:
    maps = yolo_maps(likely)
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("all",))
    loaded = session.chip.load(session.build(read_yolo(YOLO, maps, tmp_path)).data)
    if likely == 200:
        assert all(rows.any(-1).all() for rows in loaded.run(maps).values())
        return
    with pytest.raises(Unsupported) as error:
        loaded.run(maps)
    assert str(error.value) == (
        "'yolo_detection' of the runtime fails when more than 200 boxes of an image score above 0.5; raise "
        "obj_threshold"
    )


def test_a_yolo_of_other_maps_is_not_left_to_the_runtime(tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("all",))
    module = read_yolo(YOLO.replace("tiny: true", ""), yolo_maps(1), tmp_path)
    with pytest.raises(Unsupported, match="it takes 3 feature maps of a yolov3, there are 2"):
        session.build(module)


PARTS: dict[str, tuple[tuple[int, ...], Array, int]] = {
    "two of four": ((1, 6, 3, 5), np.array([[0, 1, 2], [0, 3, 0], [0, 5, 1]]), 0),
    "one of three": ((2, 5, 4), np.array([[1], [0], [1]]), 0),
    "elements": ((4, 5), np.array([[1, 2], [3, 4]]), 0),
    "of each image": ((2, 5, 4), np.array([[[1], [3]], [[0], [4]]]), 1),
    "twofold": ((3, 4, 5), np.array([[[0, 1], [2, 2]], [[1, 3], [0, 0]]]), 0),
}
"""Extents, indices and how many dimensions are shared."""


def write_parts(path: Path, case: str) -> tuple[Path, Array]:
    """Twice the input; parts of it; twice these. Also an input."""
    shape, indices, shared = PARTS[case]
    net = Net()
    two = net.constant("two", np.array(2, np.float32))
    doubled = net.op("Mul", ["x", two], "doubled")
    parts = net.op("GatherND", [doubled, net.constant("places", indices)], "parts", batch_dims=shared)
    net.op("Mul", [parts, two], "y")
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    return net.save(path, {"x": shape}, ["y"]), x


def test_parts_by_constant_indices(tmp_path: Path) -> None:
    path, x = write_parts(tmp_path / "net.onnx", "one of three")
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("GatherND",))
    data = session.build(session.transform(path)).data
    (y,) = session.chip.load(data).run({"x": x}).values()
    assert np.array_equal(y.reshape(3, 5, 4), 4 * x[[1, 0, 1]])
    (weight,) = CviModel.from_bytes(data, CV183X).weights
    assert (weight.name, weight.shape, weight.type.name) == ("places", (3, 1, 1, 1), "INT32")


def test_indices_from_the_end_are_left_to_the_chip(tmp_path: Path) -> None:
    net = Net()
    net.op("GatherND", ["x", net.constant("places", np.array([[-1]]))], "y")
    session = Session(chip="cv183x", quantize="bf16", cpu_ops=("GatherND",))
    loaded = session.chip.load(
        session.build(session.transform(net.save(tmp_path / "net.onnx", {"x": (2, 3)}, ["y"]))).data
    )
    (y,) = loaded.run({"x": np.arange(6, dtype=np.float32).reshape(2, 3)}).values()
    assert y.reshape(-1).tolist() == [3, 4, 5]
    assert not loaded.host_calls


def test_ops_that_the_runtime_has_no_function_for_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        Session(chip="cv183x", cpu_ops=("all", "Topk"))
    assert str(error.value).startswith(
        "--cpu-ops Topk: the runtime of cv183x has no function for this op. Give 'all', or of these: "
    )


def test_the_command_line_tells_compiles_profiles_and_runs(tmp_path: Path) -> None:
    network, compiled = write_best(tmp_path / "net.onnx", shape=LONG[2]), tmp_path / "net.cvimodel"
    checked = tpuc("check", network, "--chip", "cv183x", "--quantize", "bf16")
    assert checked.returncode == 1
    assert "Compile it with --cpu-ops TopK to compute it on the processor (about" in checked.stdout
    chip = ("--chip", "cv183x", "--quantize", "bf16")
    assert tpuc("compile", network, *chip, "--cpu-ops", "TopK", "-o", compiled).returncode == 0
    line = "processor: 1 call between TPU subnets, not included in the cycles: topk (12,000 B read, 160 B written, "
    assert f"{line}about " in tpuc("profile", compiled).stdout
    x = np.random.default_rng(4).integers(-99, 99, LONG[2]).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    assert tpuc("run", compiled, tmp_path / "x.npz", "-o", tmp_path / "y.npz").returncode == 0
    with np.load(tmp_path / "y.npz") as results:
        (y,) = results.values()
    assert np.array_equal(y.reshape(2, 5, 4), 4 * np.sort(x, 2)[..., :-5:-1])


def test_damaged_arguments_are_refused() -> None:
    with pytest.raises(CorruptFile, match=r"CPU function 'topk' with 9 of axis 3; the file is damaged"):
        run_function("topk", [X.reshape(1, 2, 5, 12)[..., :8]], {"K": 9, "axis": 3, "largest": True}, [])
    with pytest.raises(CorruptFile, match=r"CPU function 'topk' without 'axis'; the file is damaged, copy it again"):
        run_function("topk", [X.reshape(1, 2, 5, 12)], {"K": 9}, [])


def test_maxima_of_regions_start_at_zero() -> None:
    x = np.array([[[[-3, -1], [2, -5]]]], np.float32)
    regions = np.array([[[[0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]]], np.float32)
    arguments = {"pooled_h": 1, "pooled_w": 2, "spatial_scale": 1.0}
    (pooled,) = ROI_POOLING_FUNCTION.run([x, regions], arguments, [(2, 1, 1, 2)])
    assert pooled.reshape(2, 2).tolist() == [[0, 0], [2, 0]]
