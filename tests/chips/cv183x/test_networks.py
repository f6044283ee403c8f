"""Real networks: evaluation of the TPU module and simulator give the same numbers, and the accuracy stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.data import inputs_of
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.testing.values import build_exposed

from tests.chips.cv183x.steps import check_steps
from tests.models.networks import NETWORKS, Network

ONNX = ("blazeface", "mobilenet_v1", "mobilenet_v2", "ultraface", "yunet", "yolox")
"""Beginnings of file names."""
MODES = ("int8", "bf16")
Arrays = Mapping[str, NDArray[Any]]


def build(net: Network, mode: str) -> tuple[Session, Module, bytes, Arrays]:
    """A network with all its values as outputs, and one sample."""
    session = Session(chip="cv183x", quantize=mode)
    final, data = build_exposed(session, net.module, net.table if mode == "int8" else None)
    return session, final, data, net.inputs(3)


def build_onnx(path: Path, mode: str, work: Path) -> tuple[Session, Module, bytes, Arrays]:
    """The same of a file, on random images; calibrated on three of them."""
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(path)
    (spec,) = inputs_of(module)
    images = np.random.default_rng(0).normal(0, 1, (3, *spec.shape)).astype(np.float32)
    np.savez(work / "samples.npz", **{spec.name: images})
    table = session.calibrate(module, dataset=work / "samples.npz") if mode == "int8" else None
    final, data = build_exposed(session, module, table)
    return session, final, data, {spec.name: images[0]}


def model_path(name: str, model_data: Path) -> Path:
    """The ONNX file whose name begins so."""
    (path,) = (model_data / "onnx").glob(f"{name}*.onnx")
    return path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_equals_its_evaluation(name: str, mode: str, network: Callable[[str], Network]) -> None:
    session, final, data, inputs = build(network(name), mode)
    integers, floats = check_steps(final, session.chip.load(data).run(inputs))
    assert integers >= 5 if mode == "int8" else floats >= 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ONNX)
def test_every_value_of_larger_networks_equals_its_evaluation(
    name: str, mode: str, model_data: Path, tmp_path: Path
) -> None:
    session, final, data, inputs = build_onnx(model_path(name, model_data), mode, tmp_path)
    integers, floats = check_steps(final, session.chip.load(data).run(inputs))
    assert integers >= 30 if mode == "int8" else floats >= 30


# Right answers of 200 that the float network gives, and the least that each mode must give.
EXPECTED = {"digits": (198, 197, 197), "mnist": (198, 197, 197), "resnet8": (161, 160, 160)}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_accuracy_stays(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    host = Interpreter(net.module)
    right = [sum(_answer(host, net, index) == label for index, label in enumerate(net.labels))]
    for mode in MODES:
        session = Session(chip="cv183x", quantize=mode)
        lowered, _ = session.build(net.module, net.table if mode == "int8" else None)
        # The file computes the same integers, see above; the evaluation is faster.
        chip = Interpreter(lowered)
        right.append(sum(_answer(chip, net, index) == label for index, label in enumerate(net.labels)))
    assert right[0] == EXPECTED[name][0]
    assert right[1] >= EXPECTED[name][1]
    assert right[2] >= EXPECTED[name][2]


def _answer(interpreter: Interpreter, net: Network, index: int) -> int:
    return int(np.argmax(next(iter(interpreter.run(net.inputs(index)).values()))))
