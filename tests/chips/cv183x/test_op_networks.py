"""Networks of transposed convolutions, lines and attention: every value is what its op says, and near the float one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Module
from tpuc.session import Session
from tpuc.testing.values import build_exposed

from tests.chips.cv183x.op_networks import NETWORKS, Array
from tests.chips.cv183x.steps import check_steps

onnxruntime = pytest.importorskip("onnxruntime")

LEAST_COSINE = {
    ("decoder", "int8"): 0.999,
    ("decoder", "bf16"): 0.9999,
    ("lines", "int8"): 0.995,
    ("lines", "bf16"): 0.9999,
    ("encoder", "int8"): 0.98,
    ("encoder", "bf16"): 0.999,
}


def build_network(name: str, mode: str, folder: Path) -> tuple[Session, Module, bytes, Mapping[str, Array], Array]:
    """Session, final module, the file with all values, its input, and what the float network gives."""
    write, shape = NETWORKS[name]
    path = write(folder / f"{name}.onnx")
    random = np.random.default_rng(5)
    x = random.normal(size=shape).astype(np.float32)
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(path)
    table = None
    if mode == "int8":
        samples = np.concatenate([x[None], random.normal(size=(4, *shape)).astype(np.float32)])
        np.savez(folder / "samples.npz", x=samples)
        table = session.calibrate(module, dataset=folder / "samples.npz", options={"tune_num": 0})
    final, data = build_exposed(session, module, table)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return session, final, data, {"x": x}, np.asarray(wanted)


def cosine(got: Array, wanted: Array) -> float:
    """Of the angle between both."""
    a, b = got.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def result_of(final: Module, values: Mapping[str, Array]) -> Array:
    """The network's output as real numbers."""
    value = final.main.outputs[0]
    array = values[value.name]
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


@pytest.mark.parametrize(("name", "mode"), LEAST_COSINE)
def test_networks_give_what_their_ops_say_and_what_the_float_network_does(name: str, mode: str, tmp_path: Path) -> None:
    session, final, data, inputs, wanted = build_network(name, mode, tmp_path)
    values = session.chip.load(data).run(inputs)
    check_steps(final, {**values, **inputs})
    assert cosine(result_of(final, values), wanted) >= LEAST_COSINE[name, mode]
