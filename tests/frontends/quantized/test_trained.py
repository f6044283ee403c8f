"""A network trained with fake quantization gives what training evaluated, in every form, on both chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

pytest.importorskip("torch", reason="trains a network")

import onnx
import torch

from tests.frontends.quantized import trained

COUNT = 20
CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
FORMS = ("table", "casts", "fake quantization", "learnable fake quantization", "PT2E")
STEP = 1 + 1e-3
"""Chips round halves in another direction than training, and float32 has an error of its own."""


@pytest.fixture(scope="module", name="model")
def model_() -> trained.Network:
    torch.set_num_threads(1)
    return trained.trained()


@pytest.fixture(scope="module", name="inputs")
def inputs_() -> list[Any]:
    return trained.samples(COUNT)


def file_of(model: trained.Network, form: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The network in a form, and the settings that it is compiled with."""
    if form == "table":
        path, table = trained.save_table(model, folder)
        return path, {"calibration_table": table}
    if form == "casts":
        onnx.save(trained.with_casts(model), folder / "casts.onnx")
        return folder / "casts.onnx", {}
    return trained.save_program(model, form, folder), {}


def results(module: Module, inputs: list[Any]) -> list[Any]:
    interpreter = Interpreter(module)
    return [next(iter(interpreter.run(given(module, x)).values())) for x in inputs]


def given(module: Module, x: Any) -> dict[str, Any]:
    """The input as the module takes it, which may be stored integers."""
    (one,) = inputs_of(module)
    return {one.name: x if one.store is None else one.store(x)}


@pytest.fixture(scope="module", name="networks")
def networks_(
    model: trained.Network, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Module, dict[str, Any]]]:
    """TOP modules by form."""
    pytest.importorskip("onnxscript", reason="torch's exporter needs it")
    folder = tmp_path_factory.mktemp("forms")
    found: dict[str, tuple[Module, dict[str, Any]]] = {}
    for form in FORMS:
        path, settings = file_of(model, form, folder)
        found[form] = Session(Registry()).transform(path), settings
    return found


def test_training_uses_its_steps(model: trained.Network, inputs: list[Any]) -> None:
    """Steps are not those that the greatest values give, or learning them would show nothing. By the arithmetic of
    some processors one of eight channels ends where such a step is.
    """
    for name, steps in model.of_weights.items():
        greatest = model.layer(name).weight.flatten(1).abs().amax(1)
        assert ((greatest / steps - 127).abs() > 0.5).float().mean() >= 0.75
    x, labels = trained.images(200, 7)
    assert (model(x).argmax(1) == labels).float().mean() > 0.9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS[1:])
def test_types_say_what_training_did(
    form: str, model: trained.Network, inputs: list[Any], networks: dict[str, tuple[Module, dict[str, Any]]]
) -> None:
    module, _ = networks[form]
    names = [operation.op.name for operation in module.main.operations]
    assert [name for name in names if "cast" in name or "Linear" in name] == ["quant.qcast", "quant.dcast"]
    found = trained.agreement(model, results(module, inputs), inputs)
    assert found.steps <= STEP
    assert found.labels == COUNT


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chip", CHIPS)
def test_chips_compute_what_training_evaluated(
    chip: str,
    form: str,
    model: trained.Network,
    inputs: list[Any],
    networks: dict[str, tuple[Module, dict[str, Any]]],
) -> None:
    module, settings = networks[form]
    session = Session(Registry(), chip=chip, quantize="int8")
    lowered: list[Module] = []

    def keep(module: Module) -> None:
        lowered.append(module.clone())

    built = session.build(module, settings.get("calibration_table"), after_lowering=keep)
    evaluated = results(lowered[0], inputs)
    found = trained.agreement(model, evaluated, inputs)
    assert found.steps <= STEP
    assert found.labels == COUNT
    loaded = session.chip.load(built.data, "net")
    for x, wanted in list(zip(inputs, evaluated, strict=True))[:3]:
        ((_, simulated),) = session.simulate(session.chip, loaded, given(lowered[0], x)).items()
        np.testing.assert_array_equal(simulated.reshape(-1), wanted.reshape(-1))
