"""Trained networks compiled by the vendor for this generation: decoded, encoded to the same bytes, run bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tpuc.api import Engine, IllegalCommand, Instruction, core_hazards, stretches
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.isa.stream import decode_stream, encode_stream
from tpuc_bm1684x.simulator import Simulator
from tpuc_bm1688.simulator import simulator_of

from benchmarks import traffic
from tests.families import each
from tests.interop.bm1688.conftest import RunFile
from tests.interop.bm1688.test_vendor_files import TARGETS, vendor

NETWORKS = ("resnet8", "kws", "blazeface", "yunet_n_320")
MODES = [
    *(("cv186x", mode, 1) for mode in ("F16", "INT8")),
    *(("bm1688", mode, cores) for mode in ("F16", "BF16", "INT8") for cores in (1, 2)),
]
PRODUCTS = [("bm1688", mode, cores) for mode in ("F32", "F16", "W4F16") for cores in (1, 2)]

pytestmark = pytest.mark.interop


def _transform(name: str, source: Path, folder: Path) -> Mapping[str, NDArray[np.float32]]:
    """Write a network in the vendor's form with the ranges of its values; return the sample that they are from."""
    words = {"model_name": name, "model_def": str(source), "mlir": "net.mlir"}
    given = onnx.load(source).graph
    constants = {one.name for one in given.initializer}
    inputs = [one for one in given.input if one.name not in constants]
    shapes = {one.name: tuple(extent.dim_value or 1 for extent in one.type.tensor_type.shape.dim) for one in inputs}
    words["input_shapes"] = str([[*shape] for shape in shapes.values()]).replace(" ", "")
    vendor("model_transform", **words, cwd=folder)
    random = np.random.default_rng(1)
    sample = {key: random.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    (folder / "data").mkdir()
    np.savez(folder / "data" / "0.npz", **sample)
    return sample


def _assert_equal(path: Path, chip: str, sample: Mapping[str, NDArray[Any]], run_file: RunFile) -> Simulator:
    target = TARGETS[chip]
    model = BModel.from_bytes(path.read_bytes(), target.file_chip)
    groups = [group for net in model.nets for stage in net.stages for group in stage.groups]
    assert groups
    for group in groups:
        for engine, stream in ((Engine.COMPUTE, group.tiu), (Engine.DMA, group.gdma)):
            commands = decode_stream(engine, stream, target).commands
            assert not [one for one in commands if getattr(one.instruction, "problem", "")]
            assert encode_stream(commands, engine, target) == stream
    simulator = simulator_of(target)(model)
    inputs = dict(zip((one.name for one in simulator.inputs), sample.values(), strict=True))
    theirs = {key: array.tobytes() for key, array in run_file(path, inputs).items()}
    whole = [*stretches(simulator.parts)]
    twice = [hazard for stretch in whole for hazard in core_hazards(stretch, ("ddr",))]
    for hazard in twice:  # rows that both cores compute, and store where the other one does
        assert _is_store(hazard.compute.instruction)
        assert _is_store(hazard.dma.instruction)
    assert _outputs(simulator, inputs, check=not twice) == theirs
    if {part.core for part in simulator.parts} == {0, 1}:
        simulator.steps = tuple(part for stretch in whole for part in reversed(stretch))
        assert _outputs(simulator, inputs, check=False) == theirs, "the second core first"
    return simulator


def _is_store(instruction: Instruction) -> bool:
    return all(region.space == "lmem" for region in instruction.reads())


def _outputs(simulator: Simulator, inputs: Mapping[str, NDArray[Any]], *, check: bool) -> dict[str, bytes]:
    return {key: array.tobytes() for key, array in simulator.run(inputs, check=check).items()}


def _deploy(folder: Path, chip: str, mode: str, cores: int, **more: str) -> Path:
    name = f"{chip}_{mode}_{cores}.bmodel"
    vendor(
        "model_deploy", mlir="net.mlir", quantize=mode, chip=chip, num_core=str(cores), model=name, **more, cwd=folder
    )
    return folder / name


@pytest.mark.parametrize("name", NETWORKS)
def test_files_of_trained_networks_are_understood(
    name: str, model_data: Path, oracle_dir: Path, run_file: RunFile, tmp_path: Path
) -> None:
    sample = _transform(name, traffic.network_file(name, model_data, tmp_path), tmp_path)
    vendor("run_calibration", "net.mlir", dataset="data", input_num="1", o="table", cwd=tmp_path)
    for chip, mode, cores in MODES:
        table = {"calibration_table": "table"} if mode == "INT8" else {}
        simulator = _assert_equal(_deploy(tmp_path, chip, mode, cores, **table), chip, sample, run_file)
        assert {part.core for part in simulator.parts} == {*range(cores)}


@each(("chip", "mode", "cores"), PRODUCTS)
def test_files_of_products_are_understood(
    chip: str, mode: str, cores: int, oracle_dir: Path, run_file: RunFile, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    extents = (128, 256, 128)
    weights = [
        numpy_helper.from_array((random.standard_normal(shape) / 16).astype(np.float32), f"w{index}")
        for index, shape in enumerate(itertools.pairwise(extents))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["y"]),
    ]
    shape = (1, 48, extents[0])
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph(nodes, "products", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    sample = _transform("products", tmp_path / "net.onnx", tmp_path)
    if mode != "W4F16":
        _assert_equal(_deploy(tmp_path, chip, mode, cores), chip, sample, run_file)
        return
    path = _deploy(tmp_path, chip, mode, cores, q_group_size="64")
    with pytest.raises(IllegalCommand, match=r"uint4: the simulator has no 4-bit arithmetic; use int8$"):
        _assert_equal(path, chip, sample, run_file)
