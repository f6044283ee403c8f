"""Files of the vendor's compiler: every command is decoded, encodes to the same bytes, and runs as the vendor's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from tpuc.api import Engine, IllegalCommand, stretches
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.isa.stream import decode_stream, encode_stream
from tpuc_bm1684x.simulator import Simulator
from tpuc_bm1688.simulator import simulator_of
from tpuc_bm1688.target import BM1688, CV186X

from tests.interop.bm1688.conftest import RunFile

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
TARGETS = {target.name: target for target in (CV186X, BM1688)}
MODES = ("F32", "F16", "BF16", "INT8")
CASES = [
    (chip, mode, cores) for chip, target in TARGETS.items() for mode in MODES for cores in range(1, target.cores + 1)
]

pytestmark = pytest.mark.interop


def _network(path: Path) -> None:
    """A convolution, a depthwise one, a maximum, an average and a product."""
    random = np.random.default_rng(0)
    shapes = {"filter": (24, 3, 3, 3), "apart": (24, 1, 3, 3), "matrix": (24, 10)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) / 4, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "filter"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "apart"], ["d"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=24),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "matrix"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 16, 16))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 10))
    graph = helper.make_graph(nodes, "small", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def vendor(tool: str, *arguments: str, cwd: Path, **options: str) -> None:
    """Run a tool of the vendor's in a folder."""
    environment = {**os.environ, "PATH": f"{PEER / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    words = [word for key, value in options.items() for word in (f"--{key}" if len(key) > 1 else f"-{key}", value)]
    command = [str(PEER / "bin" / tool), *arguments, *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


@pytest.fixture(scope="module")
def folder(oracle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network in the vendor's own form, with the ranges of its values."""
    folder = tmp_path_factory.mktemp("vendor")
    _network(folder / "small.onnx")
    words = {"model_name": "small", "model_def": "small.onnx", "input_shapes": "[[1,3,16,16]]", "mlir": "small.mlir"}
    vendor("model_transform", **words, cwd=folder)
    (folder / "data").mkdir()
    np.savez(folder / "data" / "0.npz", x=_sample())
    vendor("run_calibration", "small.mlir", dataset="data", input_num="1", o="table", cwd=folder)
    return folder


def _sample() -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.mark.parametrize(("chip", "mode", "cores"), CASES)
def test_commands_encode_to_the_same_bytes(chip: str, mode: str, cores: int, folder: Path, run_file: RunFile) -> None:
    name = f"{chip}_{mode}_{cores}.bmodel"
    options = {"mlir": "small.mlir", "quantize": mode, "chip": chip, "num_core": str(cores), "model": name}
    if mode == "INT8":
        options["calibration_table"] = "table"
    vendor("model_deploy", **options, cwd=folder)
    data = (folder / name).read_bytes()
    target = TARGETS[chip]
    model = BModel.from_bytes(data, target.file_chip)
    groups = [group for net in model.nets for stage in net.stages for group in stage.groups]
    assert groups
    for group in groups:
        for engine, stream in ((Engine.COMPUTE, group.tiu), (Engine.DMA, group.gdma)):
            commands = decode_stream(engine, stream, target).commands
            assert not [one for one in commands if getattr(one.instruction, "problem", "")]
            assert encode_stream(commands, engine, target) == stream
    theirs = {key: value.tobytes() for key, value in run_file(folder / name, {"x": _sample()}).items()}
    simulator = simulator_of(target)(model)
    simulator.check_memory()
    assert _outputs(simulator) == theirs
    simulator.steps = tuple(part for stretch in stretches(simulator.parts) for part in reversed(stretch))
    assert _outputs(simulator) == theirs, "the second core before the first"
    if cores > 1 and mode != "F32":
        assert {part.core for part in simulator.parts} == {0, 1}


def _outputs(simulator: Simulator) -> dict[str, bytes]:
    return {key: value.tobytes() for key, value in simulator.run({"x": _sample()}).items()}


def test_the_vendors_4_bit_file_reads_memory_that_nothing_wrote(folder: Path) -> None:
    """Values of 4 bits, one in each lane, are stored as 12 bytes of each lane."""
    options = {"mlir": "small.mlir", "quantize": "INT4", "chip": "bm1688", "calibration_table": "table"}
    options |= {"tolerance": "0.0,0.0", "model": "int4.bmodel"}
    vendor("model_deploy", **options, cwd=folder)
    simulator = simulator_of(BM1688)(BModel.from_bytes((folder / "int4.bmodel").read_bytes(), BM1688.file_chip))
    sentence = (
        r"DMA command 4 \(dma\.copy\) reads lmem 0x[0-9a-f]+\.\.0x[0-9a-f]+, lanes 0\.\.23, but nothing has written"
    )
    with pytest.raises(IllegalCommand, match=sentence):
        simulator.check_memory()
