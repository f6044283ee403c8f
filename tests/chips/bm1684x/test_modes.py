"""Networks in f16, bf16 and asymmetric int8, and with a mode per layer: every op gives what it evaluates to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed, expose_values

from tests.chips.bm1684x.steps import check_steps
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network

Array = NDArray[Any]

LEAST_COSINE = {"f16": 0.999, "bf16": 0.99, "int8-asym": 0.98}
STORAGE = {"f16": "float16", "bf16": "bfloat16", "int8-asym": "int8"}


def cosine(a: Array, b: Array) -> float:
    """1 for arrays of one direction."""
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def check(module: Module, inputs: dict[str, Array], session: Session, table: Any, mode: str) -> None:
    """Build, run on the simulator, compare each op, and the outputs with the float network."""
    final, data = build_exposed(session, module, table)
    values = dict(session.chip.load(data).run(inputs)) | inputs
    assert check_steps(final, values)[STORAGE[mode]] > 3
    types = types_of(final)
    for name, wanted in Interpreter(module).run(inputs).items():
        got = real_values(values[name].reshape(wanted.shape), types[name])
        assert cosine(got, wanted) >= LEAST_COSINE[mode], name


@pytest.mark.parametrize("mode", LEAST_COSINE)
@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks(name: str, mode: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize=mode)
    check(net.module, net.inputs(3), session, net.table if mode == "int8-asym" else None, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", LEAST_COSINE)
@pytest.mark.parametrize("name", [name for name in TASKS if name != "yolox"])
def test_real_networks(name: str, mode: str, model_data: Path, tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(model_data / "onnx" / TASKS[name].file)
    (spec,) = inputs_of(module)
    samples = np.stack(TASKS[name].samples(model_data / "data")[:4])
    np.savez(tmp_path / "samples.npz", **{spec.name: samples})
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    inputs = {spec.name: samples[0].reshape(spec.shape)}
    check(module, inputs, session, table if mode == "int8-asym" else None, mode)


def mixed_table(module: Module, work: Path, modes: tuple[str, ...]) -> Path:
    """A quantize table that gives the ops of a network these modes in turn."""
    names = [o.name for o in module.main.operations[:-1] if o.op.name not in ("top.Input", "top.Weight", "top.None")]
    lines = [f"{name} {modes[index % len(modes)].upper()}" for index, name in enumerate(names)]
    path = work / "qtable"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


MIXED = [("F16", "INT8", "F32", "BF16"), ("INT8", "F16"), ("BF16", "INT8", "INT8"), ("F16", "BF16", "F32")]


@pytest.mark.parametrize("modes", MIXED, ids="-".join)
@pytest.mark.parametrize("name", ["digits", "resnet8"])
@pytest.mark.parametrize("mode", ["int8", "int8-asym"])
def test_every_layer_in_another_mode(
    name: str, mode: str, modes: tuple[str, ...], network: Callable[[str], Network], tmp_path: Path
) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize=mode)
    modes_of_layers = mixed_table(net.module, tmp_path, modes)
    final, data, *_ = session.build(net.module, net.table, modes_of_layers, after_lowering=expose_values)
    inputs = net.inputs(3)
    counts = check_steps(final, dict(session.chip.load(data).run(inputs)) | inputs)
    stored = {"uint8" if dtype == "int8" else dtype for dtype in counts}
    assert stored >= {{"F16": "float16", "BF16": "bfloat16", "F32": "float32"}.get(mode, "uint8") for mode in modes}
