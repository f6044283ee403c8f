"""Real networks: every op gives what it evaluates to on what the chip had, and whole files what their values say."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.data import inputs_of
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.testing.kernel_conformance import FLOAT_BOUNDS, float_error
from tpuc.testing.values import build_exposed

from tests.chips.cv183x.steps import check_steps
from tests.conftest import ROOT
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

MODES = ("int8", "bf16")
LARGER = (*((name, 1) for name in TASKS), ("mobilenet_v1", 4), ("blazeface", 4))
"""Networks and batches."""
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Built:
    """A network with all its values as outputs, the file as users get it, and one input."""

    session: Session
    final: Module
    exposed: bytes
    plain: bytes
    inputs: Arrays


def build(net: Network, mode: str) -> Built:
    """One of the three small networks."""
    return _build(
        Session(chip="cv183x", quantize=mode), net.module, net.table if mode == "int8" else None, net.inputs(3)
    )


def _build(session: Session, module: Module, table: Any, inputs: Arrays) -> Built:
    final, exposed = build_exposed(session, module, table)
    return Built(session, final, exposed, session.build(module, table).data, inputs)


def build_file(path: Path, name: str, batch: int, mode: str, model_data: Path, work: Path) -> Built:
    """A network from a file, calibrated on three batches: of real images where there are some, else of noise."""
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(path, batch=batch)
    (spec,) = inputs_of(module)
    shape = (3, *spec.shape)
    if name in TASKS:
        samples = np.concatenate(TASKS[name].samples(model_data / "data")[: 3 * spec.shape[0]]).reshape(shape)
    else:
        samples = np.random.default_rng(7).uniform(0, 1, shape).astype(np.float32)
    table = None
    if mode == "int8":
        np.savez(work / "samples.npz", **{spec.name: samples})
        table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0})
    return _build(session, module, table, {spec.name: samples[0]})


def write_resnet50(path: Path) -> Path:
    """ResNet-50 with random weights."""
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    path.write_bytes(script.build().SerializeToString())
    return path


def check(built: Built, mode: str, run: Callable[[bytes], Arrays]) -> tuple[int, int]:
    """Compare both files, and return how many integer and float tensors were compared.

    In bf16 the plan of a file decides in which order channels are summed, and with it the last bits.
    """
    values = run(built.exposed)
    counts = check_steps(built.final, values)
    for name, array in run(built.plain).items():
        wanted, what = values[name].reshape(-1), f"{name} of the file without other outputs"
        if mode == "int8":
            assert np.array_equal(array.reshape(-1), wanted), what
        else:
            assert float_error(array.reshape(-1), wanted) <= FLOAT_BOUNDS["bfloat16"], what
    return counts


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_equals_its_evaluation(name: str, mode: str, network: Callable[[str], Network]) -> None:
    built = build(network(name), mode)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 5 if mode == "int8" else floats >= 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
def test_every_value_of_larger_networks_equals_its_evaluation(
    name: str, batch: int, mode: str, model_data: Path, tmp_path: Path
) -> None:
    built = build_file(model_data / "onnx" / TASKS[name].file, name, batch, mode, model_data, tmp_path)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 28 if mode == "int8" else floats >= 28


# Right answers of 200 that the float network gives, and the least that each mode must give.
EXPECTED = {"digits": (198, 196, 197), "mnist": (198, 197, 197), "resnet8": (161, 159, 160)}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_accuracy_stays(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    host = Interpreter(net.module)
    right = [sum(_answer(host, net, index) == label for index, label in enumerate(net.labels))]
    for mode in MODES:
        session = Session(chip="cv183x", quantize=mode)
        lowered = session.build(net.module, net.table if mode == "int8" else None).module
        # The file computes the same integers, see above; the evaluation is faster.
        chip = Interpreter(lowered)
        right.append(sum(_answer(chip, net, index) == label for index, label in enumerate(net.labels)))
    assert right[0] == EXPECTED[name][0]
    assert right[1] >= EXPECTED[name][1]
    assert right[2] >= EXPECTED[name][2]


def _answer(interpreter: Interpreter, net: Network, index: int) -> int:
    return int(np.argmax(next(iter(interpreter.run(net.inputs(index)).values()))))
