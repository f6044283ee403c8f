"""`--quant-output` gives integers with a scale for every output, also for those that are computed in floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc.ir import Uniform
from tpuc_driver.data import inputs_of, quantize
from tpuc_driver.session import Boundary, Session

from tests.families import each
from tests.frontends.onnx.networks import network, node

STEPS = {"bm1684x": 0, "c": 0, "cv183x": 1}
"""By which the integers may differ from those of the float outputs, and of the same floats on the host: bfloat16 agrees
within its own steps, which may lie on either side of a half.
"""


def three_answers(path: Path) -> Path:
    """A convolution, and behind it shares, a map of probabilities and a part of it."""
    random = np.random.default_rng(0)
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("GlobalAveragePool", "c", "p"),
        node("Flatten", "p", "f"),
        node("Softmax", "f", "shares", axis=1),
        node("Sigmoid", "c", "map"),
        node("Div", "c k", "part"),
    ]
    weights = {"w": random.normal(size=(4, 3, 3, 3)).astype(np.float32), "k": np.float32(2.5)}
    onnx.save(network(nodes, {"x": (1, 3, 8, 8)}, ["shares", "map", "part"], weights), path)
    return path


@each("chip", [pytest.param(name, marks=pytest.mark.chip(name)) for name in STEPS])
def test_every_output_is_integers(chip: str, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize="int8")
    module = session.transform(three_answers(tmp_path / "net.onnx"))
    samples: NDArray[np.float32] = np.random.default_rng(1).normal(size=(8, 1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", samples)
    table = session.calibrate(module, dataset=tmp_path / "x.npy")
    plain = session.chip.load(session.build(module, table).data)
    built = session.build(module, table, boundary=Boundary(quant_output=True))
    stored = session.chip.load(built.data)
    floats = plain.run({plain.inputs[0].name: samples[0]})
    got = stored.run({stored.inputs[0].name: samples[0]})
    evaluated = Interpreter(built.module).run({inputs_of(built.module)[0].name: samples[0]})
    assert len(got) == 3
    for exact, info in zip(plain.outputs, stored.outputs, strict=True):
        assert isinstance(info.element, Uniform)
        assert got[info.name].dtype in (np.int8, np.uint8)
        for wanted in (evaluated[info.name], quantize(floats[exact.name], info.element)):
            steps = np.abs(wanted.reshape(-1).astype(int) - got[info.name].reshape(-1))
            assert steps.max() <= STEPS[chip]
        assert len(np.unique(got[info.name])) > 2
    assert stored.outputs[0].element.scale == pytest.approx(1 / 255)
