"""Networks of transposed convolutions, lines and attention: every value is what its op says, and near the float one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Module
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.cv18.op_networks import NETWORKS, Array
from tests.chips.cv18.steps import check_steps
from tests.families import each
from tests.turns import few_pairs, in_turn

onnxruntime = pytest.importorskip("onnxruntime")

LEAST_COSINE = {
    ("decoder", "int8"): 0.995,
    ("decoder", "bf16"): 0.9999,
    ("lines", "int8"): 0.995,
    ("lines", "bf16"): 0.9999,
    ("encoder", "int8"): 0.98,
    ("encoder", "bf16"): 0.999,
}


@dataclass(frozen=True, eq=False)
class BuiltNetwork:
    """A network with all its values as outputs, the file as users get it, an input, and what the float one gives."""

    session: Session
    final: Module
    exposed: bytes
    plain: bytes
    inputs: Mapping[str, Array]
    wanted: Array


def build_network(name: str, mode: str, folder: Path) -> BuiltNetwork:
    """One of the networks, calibrated on its input and noise."""
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
    final, exposed = build_exposed(session, module, table)
    (wanted,) = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return BuiltNetwork(session, final, exposed, session.build(module, table).data, {"x": x}, np.asarray(wanted))


def check_network(built: BuiltNetwork, run: Callable[[bytes], Mapping[str, Array]], least_cosine: float) -> None:
    """Assert that every value is what its op gives, and the output near the float network's."""
    values = run(built.exposed)
    check_steps(built.final, {**values, **built.inputs})
    ((name, result),) = run(built.plain).items()
    assert np.array_equal(result.reshape(-1), values[name].reshape(-1))
    assert cosine(result, built.wanted) >= least_cosine


def cosine(got: Array, wanted: Array) -> float:
    """Of the angle between both."""
    a, b = got.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@each(("name", "mode"), in_turn(NETWORKS, ("int8", "bf16"), lambda _: "network", few_pairs))
def test_networks_give_what_their_ops_say_and_what_the_float_network_does(name: str, mode: str, tmp_path: Path) -> None:
    built = build_network(name, mode, tmp_path)
    check_network(built, lambda data: built.session.chip.load(data).run(built.inputs), LEAST_COSINE[name, mode])
