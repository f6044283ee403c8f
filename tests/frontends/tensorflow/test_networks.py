"""Networks of TensorFlow's own making: frozen graphs and SavedModels compute what TensorFlow does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_tflite.frontend import FRONTEND as TFLITE

from tests.families import each
from tests.frontends.tensorflow.networks import NAMES, TWICE, Made, imported, make_networks, worst_difference

CLOSE = 1e-4
"""Of the range of an output: sums in another order."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Made]:
    return make_networks(tmp_path_factory.mktemp("tensorflow"))


@each("name", NAMES)
def test_a_frozen_graph(name: str, made: Mapping[str, Made], registry: Registry) -> None:
    one = made[name]
    assert worst_difference(imported(one.frozen, registry, one.tensors), one) < CLOSE


@each("name", NAMES)
def test_a_saved_model(name: str, made: Mapping[str, Made], registry: Registry) -> None:
    """Its variables are in a checkpoint beside it."""
    one = made[name]
    module = imported(one.saved, registry)
    assert [value.name for value in module.main.outputs] == [f"out_{index}" for index in range(len(one.outputs))]
    assert worst_difference(module, one) < CLOSE


@each("name", TWICE)
def test_functional_control_flow(name: str, made: Mapping[str, Made], registry: Registry) -> None:
    """The same network with functions instead of the executor's Switch and Merge."""
    one = made[name]
    path = one.frozen.with_name(f"{name}_v2.pb")
    assert worst_difference(imported(path, registry, one.tensors), one) < CLOSE


def test_lists_in_tflite(made: Mapping[str, Made], registry: Registry) -> None:
    """The file has TensorFlow's operators on lists beside its own."""
    one = made["keras_layers"]
    module = TFLITE.read(one.frozen.with_suffix(".tflite"), ImportOptions("n"), registry)
    outputs = module.main.outputs
    assert len(outputs) == len(one.outputs)
    order = sorted(range(len(outputs)), key=lambda index: outputs[index].name)
    found = [*Interpreter(module).run({module.main.inputs[0].name: one.inputs[0]}).values()]
    for index, expected in zip(order, one.outputs, strict=True):
        np.testing.assert_allclose(found[index], expected, atol=CLOSE)


def test_variables_that_are_nowhere(made: Mapping[str, Made], registry: Registry, tmp_path: Path) -> None:
    """A SavedModel without its folder of variables."""
    path = tmp_path / "saved_model.pb"
    path.write_bytes(made["lenet"].saved.read_bytes())
    with pytest.raises(Exception, match="VarHandleOp"):
        imported(path, registry)
