"""Layers of the processor in a `.bmodel`: the parts of the file, what they read, and the simulator."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Engine, Module
from tpuc.errors import CorruptFile, Unsupported
from tpuc.interpreter import Interpreter
from tpuc_bm1684x.chip import CHIP
from tpuc_bm1684x.container import BModel, CpuLayer, Stage, SubNet
from tpuc_bm1684x.container.model import SubNetMode
from tpuc_bm1684x.isa import DType, Fill
from tpuc_bm1684x.isa.stream import decode_stream
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc
from tests.chips.layered_networks import BEST, TEXTS, read_layered, write_best
from tests.chips.pooled_regions import REGIONS
from tests.chips.single_shot import read_detections
from tests.families import each
from tests.frontends.caffe.files import layer

EMPTY_PARTS = ("behind each other", "reshaped between")


def built(case: str, folder: Path, mode: str = "f32") -> bytes:
    """The file of a network."""
    return Session(chip="bm1684x", quantize=mode, cpu_ops=("all",)).build(read_layered(case, folder)).data


def built_detections(module: Module) -> bytes:
    """The file of detections."""
    return Session(chip="bm1684x", quantize="f32", cpu_ops=("DetectionOutput",)).build(module).data


def stage_of(data: bytes) -> Stage:
    """Its only set of shapes."""
    return BModel.from_bytes(data).nets[0].stages[0]


def with_layer(data: bytes, layer: CpuLayer | None) -> bytes:
    """The file with another layer, or without one."""
    model, stage = BModel.from_bytes(data), stage_of(data)
    subnets = tuple(replace(one, layer=layer) if one.layer is not None else one for one in stage.subnets)
    return replace(model, nets=(replace(model.nets[0], stages=(replace(stage, subnets=subnets),)),)).to_bytes()


@each("case", TEXTS)
def test_parts_of_the_tpu_and_of_the_processor(case: str, tmp_path: Path) -> None:
    data, expected = built(case, tmp_path), Interpreter(read_layered(case, tmp_path)).run(REGIONS)
    letters = {SubNetMode.TPU: "T", SubNetMode.CPU: "C"}
    assert "".join(letters[subnet.mode] for subnet in stage_of(data).subnets) == TEXTS[case][1]
    results = CHIP.load(data).run(REGIONS)
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        # Nothing lies in some parts of the second grids, where the library gives the lowest number.
        filled = np.where(results[name] <= np.finfo(np.float32).min, array, results[name])
        assert np.array_equal(filled, array), name
        assert np.array_equal(results[name], array) or case in EMPTY_PARTS


@each("mode", ["f16", "bf16", "int8"])
def test_a_layer_works_on_floats_whatever_the_mode_is(mode: str, tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize=mode, cpu_ops=("ROIPooling",))
    module, table = read_layered("middle", tmp_path), None
    if mode == "int8":
        np.savez(tmp_path / "samples.npz", **REGIONS)
        table = session.calibrate(module, dataset=tmp_path / "samples.npz")
    data = session.build(module, table).data
    (result,) = CHIP.load(data).run(REGIONS).values()
    (exact,) = Interpreter(read_layered("middle", tmp_path)).run(REGIONS).values()
    # Numbers up to 255 are those of f16 and bf16; of bytes the step is 2.
    assert np.abs(result - exact).max() <= (4 if mode == "int8" else 0)
    (layer,) = (subnet for subnet in stage_of(data).subnets if subnet.layer)
    assert {tensor.type.name for tensor in (*layer.inputs, *layer.outputs)} == {"F32"}


def test_numbers_and_parameters_of_a_layer_are_the_vendors(tmp_path: Path) -> None:
    (layer,) = (subnet.layer for subnet in stage_of(built("middle", tmp_path)).subnets if subnet.layer)
    assert layer == CpuLayer(4, struct.pack("<iif", 2, 2, 1.0))


def test_results_of_layers_are_named_where_commands_read_them(tmp_path: Path) -> None:
    def names(subnet: SubNet) -> tuple[list[str], list[str]]:
        return [one.name for one in subnet.inputs], [one.name for one in subnet.outputs]

    first, layer, last = stage_of(built("result read again", tmp_path)).subnets
    # Regions have four dimensions there: under another name they are read from DDR, where a part brings them.
    assert names(first) == (["r"], ["r_2x5x1x1"])
    assert names(layer) == (["x", "r_2x5x1x1"], ["b"])
    assert names(last) == (["b"], ["y"])
    assert [tensor.on_host for subnet in (first, layer, last) for tensor in subnet.inputs] == [False, True, True, True]


def test_rows_of_detections_stand_class_by_class(tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path)
    (rows,) = CHIP.load(built_detections(module)).run(operands).values()
    (best_first,) = Interpreter(module).run(operands).values()
    expected = sorted(best_first.reshape(-1, 7).tolist(), key=lambda row: (row[1], -row[2]))
    np.testing.assert_allclose(rows.reshape(-1, 7), expected, atol=1e-6)
    assert {row[1] for row in expected} == {1, 2}


def test_without_detections_one_row_says_so(tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, threshold=1.0)
    (rows,) = CHIP.load(built_detections(module)).run(operands).values()
    assert rows.reshape(-1, 7).tolist() == [[0, -1, -1, -1, -1, -1, -1], *[[0] * 7] * 9]


def test_rows_of_the_last_run_are_cleared_where_they_go_out(tmp_path: Path) -> None:
    module, _ = read_detections(tmp_path)
    stage = stage_of(built_detections(module))
    (rows,) = stage.outputs
    first, last = stage.subnets
    (command,) = decode_stream(Engine.DMA, first.groups[0].gdma).commands
    assert command.instruction == Fill(destination=rows.address, shape=(1, 1, 1, 70), dtype=DType.INT32, value=0)
    assert [[one.name for one in ends] for ends in (first.outputs, last.outputs)] == [["y"], ["y"]]
    assert [one.name for one in last.inputs] == ["l", "s", "p", "y"]


def test_rows_that_the_network_reads_are_not_cleared(tmp_path: Path) -> None:
    text = layer("Power", "power_param { power: 1 scale: 2 shift: 1 }", "y", "z", "double")
    module, operands = read_detections(tmp_path, behind=text)
    parts = stage_of(built_detections(module)).subnets
    assert [[one.name for one in part.inputs] for part in parts] == [["l", "s", "p"], ["y"]]
    (result,) = CHIP.load(built_detections(module)).run(operands).values()
    (expected,) = Interpreter(module).run(operands).values()
    assert np.abs(np.sort(result.reshape(-1)) - np.sort(expected.reshape(-1))).max() < 1e-6


def test_rows_of_several_images_have_no_gaps(tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, images=3)
    operands["s"] *= np.array([[0.3], [1], [0.6]], np.float32)
    (rows,) = CHIP.load(built_detections(module)).run(operands).values()
    (best_first,) = Interpreter(module).run(operands).values()
    expected = sorted(best_first[1:].reshape(-1, 7).tolist(), key=lambda row: (row[0], row[1], -row[2]))
    assert not best_first[0].any()
    np.testing.assert_allclose(rows.reshape(-1, 7), [*expected, *[[0] * 7] * 10], atol=1e-6)


def test_without_detections_each_image_has_a_row_that_says_so(tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, threshold=1.0, images=2)
    (rows,) = CHIP.load(built_detections(module)).run(operands).values()
    assert rows.reshape(-1, 7).tolist() == [[0, *[-1] * 6], [1, *[-1] * 6], *[[0] * 7] * 18]


def test_boxes_of_each_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="it decodes boxes shared by all classes, this one has boxes per class"):
        built_detections(read_detections(tmp_path, shared=False)[0])


def test_the_best_of_more_than_the_chip_ranks(tmp_path: Path) -> None:
    path, given = write_best(tmp_path / "net.onnx")
    session = Session(chip="bm1684x", quantize="f32", cpu_ops=("TopK",))
    data = session.build(session.transform(path)).data
    first, best, last = stage_of(data).subnets
    assert best.layer == CpuLayer(17, struct.pack("<ii???x", BEST, 1, True, True, False))
    assert [one.type.name for one in best.outputs] == [one.type.name for one in last.inputs] == ["F32", "INT32"]
    assert first.layer is None
    results = CHIP.load(data).run(given)
    x = given["x"]
    places = np.argsort(-x, axis=1, kind="stable")[:, :BEST]
    assert np.array_equal(results["y"], 4 * np.take_along_axis(x, places, 1))
    assert np.array_equal(results["where"], places)


def test_the_smallest_are_not_left_to_the_layer(tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize="f32", cpu_ops=("TopK",))
    module = session.transform(write_best(tmp_path / "net.onnx", largest=0)[0])
    with pytest.raises(Unsupported, match=r"'topk' .* either: it returns the largest elements, this one the smallest"):
        session.build(module)


def test_networks_with_layers_are_combined_and_extracted_as_they_were(tmp_path: Path) -> None:
    files = [built(case, tmp_path) for case in ("middle", "alone")]
    model = BModel.from_bytes(files[1])
    files[1] = replace(model, nets=(replace(model.nets[0], name="other"),)).to_bytes()
    both = CHIP.combine(files)
    assert [data for _, data in CHIP.extract(both)] == files
    for index, case in enumerate(("middle", "alone")):
        (result,) = CHIP.load_network(both, "both", index).run(REGIONS).values()
        assert np.array_equal(result, Interpreter(read_layered(case, tmp_path)).run(REGIONS)["y"])


def test_without_permission_the_refusal_says_what_a_layer_would_cost(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as error:
        Session(chip="bm1684x", quantize="f32").build(read_layered("middle", tmp_path))
    assert (
        "(--cpu-ops ROIPooling runs it as 'roi_pooling' of the runtime on the processor, which reads 296 B and "
        "writes 32 B while the TPU waits)"
    ) in str(error.value)


def test_damaged_layers_are_refused(tmp_path: Path) -> None:
    data = built("alone", tmp_path)
    with pytest.raises(CorruptFile, match=r"a CPU subnet with 0 layers instead of one; the file is damaged"):
        BModel.from_bytes(with_layer(data, None))
    with pytest.raises(Unsupported, match=r"layer 46 of the processor is not simulated, only .*4 \(roi_pooling\)"):
        CHIP.load(with_layer(data, CpuLayer(46, bytes(8))))
    with pytest.raises(CorruptFile, match="layer 'roi_pooling' with 8 bytes of parameters; the file is damaged"):
        CHIP.load(with_layer(data, CpuLayer(4, bytes(8))))
    with pytest.raises(
        CorruptFile,
        match=r"CPU function .roi_pooling. with .* this one is 0x0 .* is damaged",
    ):
        CHIP.load(with_layer(data, CpuLayer(4, bytes(12)))).run(REGIONS)


def test_the_command_line_shows_layers(tmp_path: Path) -> None:
    target = tmp_path / "net.bmodel"
    target.write_bytes(built("middle", tmp_path))
    line = "processor: 1 call between TPU subnets, not included in the cycles: roi_pooling (296 B read, 32 B written, "
    shown = tpuc("profile", target).stdout
    assert f"{line}about 0.00021 ms)\nprocessor: 1 crossing, 296 B to it, 32 B back\n" in shown
    target.write_bytes(built("parallel", tmp_path))
    assert "processor: 1 crossing, 552 B to it, 64 B back\n" in tpuc("profile", target).stdout
    assert (
        "processor: layer 4 roi_pooling(pooled_height=2, pooled_width=2, spatial_scale=1.0) of a f32 1x1x8x8 at "
    ) in CHIP.load(target.read_bytes()).disassemble()
