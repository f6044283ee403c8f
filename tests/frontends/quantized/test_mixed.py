"""A network of which one half states its quantization: the other half is calibrated, and both compute with integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.api import CalibrationError, Module, Uniform
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.onnx.networks import network, node
from tests.frontends.quantized.networks import by_onnxruntime

CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
SHAPE = (1, 3, 8, 8)
SCALE = 1 / 64
"""Of the stated values."""


def mixed() -> onnx.ModelProto:
    """The first convolution and what it reads and gives is stated, the second convolution is not."""
    rng = np.random.default_rng(3)
    stored = rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8)
    weights: dict[str, Any] = {
        "s": np.array(SCALE, np.float32),
        "z": np.array(0, np.int8),
        "w1": stored,
        "s1": rng.uniform(0.001, 0.003, 8).astype(np.float32),
        "z1": np.zeros(8, np.int8),
        "b1": rng.normal(0, 0.2, 8).astype(np.float32),
        "w2": rng.normal(0, 0.1, (4, 8, 3, 3)).astype(np.float32),
        "b2": rng.normal(0, 0.2, 4).astype(np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w1 s1 z1", "wd", axis=0),
        node("Conv", "xd wd b1", "c1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "c1 s z", "cq"),
        node("DequantizeLinear", "cq s z", "cd"),
        node("Conv", "cd w2 b2", "c2", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c2", "y"),
    ]
    return network(nodes, {"x": SHAPE}, ["y"], weights)


def images(count: int, seed: int) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, SHAPE).astype(np.float32) for _ in range(count)]


@pytest.fixture(name="folder")
def folder_(tmp_path: Path) -> Path:
    onnx.save(mixed(), tmp_path / "net.onnx")
    (tmp_path / "samples").mkdir()
    for index, x in enumerate(images(8, 0)):
        np.savez(tmp_path / "samples" / f"{index}.npz", x=x)
    return tmp_path


@pytest.mark.parametrize("chip", CHIPS)
def test_the_rest_is_calibrated(chip: str, folder: Path) -> None:
    session = Session(Registry(), chip=chip, quantize="int8")
    module = session.transform(folder / "net.onnx")
    table = session.calibrate(module, dataset=folder / "samples")
    assert "y" in table.entries
    table.write(folder / "table")
    lowered: list[Module] = []

    def keep(module: Module) -> None:
        lowered.append(module.clone())

    built = session.build(module, folder / "table", after_lowering=keep)
    convolutions = [operation for operation in lowered[0].main.operations if operation.op.name == "tpu.Conv2D"]
    assert all(str(operation.operands[1].tensor.storage) in ("i8", "si8") for operation in convolutions)
    first = convolutions[0].result.tensor.element
    assert isinstance(first, Uniform)
    assert first.scale == pytest.approx(SCALE, rel=0.01)  # of 127 or 128 steps
    interpreter, loaded = Interpreter(lowered[0]), session.chip.load(built.data, "net")
    (given,) = inputs_of(lowered[0])
    for x in images(4, 9):
        sample = {given.name: x if given.store is None else given.store(x)}
        (got,) = interpreter.run(sample).values()
        ((_, simulated),) = session.simulate(session.chip, loaded, sample).items()
        np.testing.assert_array_equal(simulated.reshape(got.shape), got)
        wanted = by_onnxruntime(folder / "net.onnx", x)
        noise = np.square(got - wanted).mean() / np.square(wanted).mean()
        assert noise < 1e-3  # 30 dB; the eight bits of one layer give 40


@each("chip", CHIPS)
def test_without_a_table_the_rest_is_floats(chip: str, folder: Path) -> None:
    session = Session(Registry(), chip=chip, quantize="int8")
    lowered: list[Module] = []

    def keep(module: Module) -> None:
        lowered.append(module.clone())

    session.build(session.transform(folder / "net.onnx"), after_lowering=keep)
    elements = [o.result.tensor.element for o in lowered[0].main.operations if o.op.name == "tpu.Conv2D"]
    assert [isinstance(element, Uniform) for element in elements] == [True, False]


@pytest.mark.chip("bm1684x")
def test_a_network_without_floats_is_not_calibrated(folder: Path) -> None:
    model = mixed()
    del model.graph.node[-2:]
    model.graph.output[0].name = "cd"
    onnx.save(model, folder / "whole.onnx")
    session = Session(Registry(), chip="bm1684x", quantize="int8")
    module = session.transform(folder / "whole.onnx")
    with pytest.raises(CalibrationError, match="is already quantized and needs no calibration"):
        session.calibrate(module, dataset=folder / "samples")
