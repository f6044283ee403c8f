"""The command line from network to file, files that take stored values, and what is refused before any work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Uniform
from tpuc.interpreter import Interpreter
from tpuc_cv18.container import CviModel
from tpuc_cv18.isa.geometry import BASE_REGISTERS, FIRST_IO, PRIVATE
from tpuc_cv183x.chip import CV183X
from tpuc_driver.data import quantize
from tpuc_driver.session import Boundary, Session

from tests.chips.command_line import tpuc, tpuc_apart
from tests.families import each
from tests.models.networks import Network

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
MODES = {"int8": ("--quantize", "int8", "--dataset", DIGITS / "digits_calib.npz"), "bf16": ("--quantize", "bf16")}


@pytest.mark.parametrize("mode", ["bf16", pytest.param("int8", marks=pytest.mark.slow)])
def test_two_runs_in_different_folders_write_the_same_bytes(mode: str, tmp_path: Path) -> None:
    """One of them is a process of its own, with its own order of sets. The record of a run says in which folder."""
    written: list[dict[str, bytes]] = []
    for name, run in (("one", tpuc), ("two", tpuc_apart)):
        folder = tmp_path / name
        folder.mkdir()
        target = folder / "digits.cvimodel"
        options = ("--chip", "cv183x", "-o", target, "--work-dir", folder / "work", *MODES[mode])
        done = run("compile", DIGITS / "digits.onnx", *options)
        assert done.returncode == 0, done.stderr
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "digits.cvimodel.json"]
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1]
    final = {"int8": "digits_cv183x_int8_sym_final.mlir", "bf16": "digits_cv183x_bf16_final.mlir"}[mode]
    assert {"digits.cvimodel", "digits.mlir", final} <= written[0].keys()


@pytest.mark.parametrize("mode", MODES)
def test_the_file_runs_from_the_command_line(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "digits.cvimodel"
    done = tpuc("compile", DIGITS / "digits.onnx", "--chip", "cv183x", "-o", path, *MODES[mode])
    assert done.returncode == 0, done.stderr
    with np.load(DIGITS / "digits_eval.npz") as data:
        images, labels = data["x"].astype(np.float32), data["y"]
    np.savez(tmp_path / "x.npz", image=images.reshape(-1, 1, 1, 8, 8))
    results = Session().run(path, (tmp_path / "x.npz",))
    (scores,) = results.values()
    assert (scores.reshape(len(labels), -1).argmax(axis=1) == labels).sum() >= 196  # 198 in float
    for command, word in (("disasm", "conv"), ("profile", "cycles")):
        shown = tpuc(command, path)
        assert shown.returncode == 0, shown.stderr
        assert word in shown.stdout


@each("mode", ["f32", "f16", "int8-asym"])
def test_modes_that_the_chip_lacks_are_refused_before_any_work(mode: str) -> None:
    done = tpuc("compile", DIGITS / "digits.onnx", "--chip", "cv183x", "--quantize", mode, "-o", "missing.cvimodel")
    assert done.returncode == 2
    assert done.stderr == f"tpuc: chip 'cv183x' has no mode '{mode}'. Its modes: int8, bf16.\n"


STORED = Boundary(quant_input=True, quant_output=True)
_HALF_UNIT = 2.0**-7
"""What rounding a scale and a sum to bf16 changes at most, as a part of the value."""


def test_stored_values_go_in_and_come_out(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="cv183x", quantize="int8")
    module = session.transform(net.path, output_names=("scores",))
    plain = session.chip.load(session.build(module, net.table).data)
    final, data, *_ = session.build(module, net.table, boundary=STORED)
    assert not any(operation.op.name == "tpu.Cast" for operation in final.walk())
    stored = session.chip.load(data)
    (info,), (out,) = stored.inputs, stored.outputs
    assert isinstance(out.element, Uniform)
    ((name, x),) = net.inputs(3).items()
    q = quantize(x, info.element) if isinstance(info.element, Uniform) else x.astype(np.uint8)
    (got,), (wanted,) = stored.run({name: q}).values(), plain.run({name: x}).values()
    assert got.dtype == np.int8
    steps = wanted.reshape(got.shape) / out.element.scale
    assert (np.abs(got - steps) <= 0.5 + np.abs(steps) * _HALF_UNIT).all()  # answers that nobody stores are floats
    (evaluated,) = Interpreter(final).run({name: q}).values()
    assert np.array_equal(got, evaluated.reshape(got.shape))


def test_the_file_keeps_scales_as_the_vendor_does(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="cv183x", quantize="int8")
    module = session.transform(net.path, output_names=("scores",))
    final, data, *_ = session.build(module, net.table, boundary=STORED)
    (program,) = CviModel.from_bytes(data, CV183X).programs
    tensors = {tensor.name: tensor for tensor in program.tensors}
    for name, value, is_input in (
        (program.inputs[0], final.main.inputs[0], True),
        (program.outputs[0], final.main.outputs[0], False),
    ):
        scale = value.tensor.uniform.scale
        assert tensors[name].scale == pytest.approx(1 / scale if is_input else scale, rel=1e-6)


def _many_headed(path: Path, heads: int) -> Path:
    """Convolutions of one image, each an output of its own."""
    random = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: list[Any] = []
    for index in range(heads):
        weights.append(numpy_helper.from_array(random.normal(size=(2, 3, 1, 1)).astype(np.float32), f"w{index}"))
        nodes.append(helper.make_node("Conv", ["image", f"w{index}"], [f"y{index}"], kernel_shape=[1, 1]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 4, 4))
    outputs = [helper.make_tensor_value_info(f"y{index}", TensorProto.FLOAT, None) for index in range(heads)]
    graph = helper.make_graph(nodes, "heads", [image], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    onnx.save(model, path)
    return path


@each("heads", [4, 5, 9])
def test_inputs_and_outputs_beyond_five_lie_in_the_programs_own_memory(heads: int, tmp_path: Path) -> None:
    """Five memories are left for one tensor each; the others share one where nothing else lies."""
    session = Session(chip="cv183x", quantize="bf16")
    final, data, *_ = session.build(session.transform(_many_headed(tmp_path / "heads.onnx", heads)))
    loaded = session.chip.load(data)
    x = np.random.default_rng(1).normal(size=(1, 3, 4, 4)).astype(np.float32)
    got, wanted = loaded.run({"image": x}), Interpreter(final).run({"image": x})
    assert got.keys() == wanted.keys()
    for name, array in got.items():
        assert np.abs(array.reshape(wanted[name].shape) - wanted[name]).max() <= 2**-7 * np.abs(wanted[name]).max()
    places: dict[int, list[int]] = {}
    for info in (*loaded.inputs, *loaded.outputs):
        places.setdefault(info.address >> 40, []).append(info.address & 0xFFFFFFFF)
    rest = places.pop(PRIVATE, [])
    assert places == {memory: [0] for memory in range(FIRST_IO, BASE_REGISTERS)}
    assert rest == [offset * 128 for offset in range(1 + heads - len(places))]  # 2 x 4 x 4 of float32
    (program,) = CviModel.from_bytes(data, CV183X).programs
    assert program.private_bytes == 128 * len(rest)


@pytest.fixture(scope="module")
def whole(network: Callable[[str], Network]) -> bytes:
    return Session(chip="cv183x", quantize="bf16").build(network("digits").module).data


@each("size", [0, 10, 60, 3000])
def test_a_truncated_file_is_refused(size: int, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "short.cvimodel"
    path.write_bytes(whole[:size])
    done = tpuc("profile", path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tpuc: {path}"), done.stderr
    assert "Traceback" not in done.stderr
