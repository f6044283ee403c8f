"""Real networks: every op gives what it evaluates to on what the chip had, and whole files what their values say."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.chips.cv18.networks import LARGER, MODES, build, build_file, check
from tests.conftest import ROOT
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

CHIP = "cv183x"


def write_resnet50(path: Path) -> Path:
    """ResNet-50 with random weights."""
    spec = importlib.util.spec_from_file_location("resnet50", ROOT / "benchmarks" / "resnet50.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    path.write_bytes(script.build().SerializeToString())
    return path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_equals_its_evaluation(name: str, mode: str, network: Callable[[str], Network]) -> None:
    built = build(network(name), CHIP, mode)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 5 if mode == "int8" else floats >= 8


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "batch"), LARGER)
def test_every_value_of_larger_networks_equals_its_evaluation(
    name: str, batch: int, mode: str, model_data: Path, tmp_path: Path
) -> None:
    built = build_file(model_data / "onnx" / TASKS[name].file, name, batch, CHIP, mode, model_data, tmp_path)
    integers, floats = check(built, mode, lambda data: built.session.chip.load(data).run(built.inputs))
    assert integers >= 28 if mode == "int8" else floats >= 28


LABELS = 100
# Right answers of so many that the float network gives, and the least that each mode must give.
EXPECTED = {"digits": (100, 99, 99), "mnist": (98, 97, 97), "resnet8": (85, 84, 84)}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_accuracy_stays(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    host = Interpreter(net.module)
    right = [sum(_answer(host, net, index) == label for index, label in enumerate(net.labels[:LABELS]))]
    for mode in MODES:
        session = Session(chip="cv183x", quantize=mode)
        lowered = session.build(net.module, net.table if mode == "int8" else None).module
        # The file computes the same integers, see above; the evaluation is faster.
        chip = Interpreter(lowered)
        right.append(sum(_answer(chip, net, index) == label for index, label in enumerate(net.labels[:LABELS])))
    assert right[0] == EXPECTED[name][0]
    assert right[1] >= EXPECTED[name][1]
    assert right[2] >= EXPECTED[name][2]


def _answer(interpreter: Interpreter, net: Network, index: int) -> int:
    return int(np.argmax(next(iter(interpreter.run(net.inputs(index)).values()))))
