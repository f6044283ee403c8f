"""Packed constants that several ops have in common lie in a file once, and every op finds them."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import IntegerAttr
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import Network

MATRIX_BYTES = 192 * 192 * 2


@each(
    ("chip", "mode"),
    [
        pytest.param("bm1684x", "f16", marks=pytest.mark.chip("bm1684x")),
        pytest.param("cv183x", "bf16", marks=pytest.mark.chip("cv183x")),
    ],
)
def test_steps_of_a_recurrence_share_their_matrix(chip: str, mode: str) -> None:
    net = Network(1, 192)
    shared, other = net.weight(192, 192), net.weight(192, 192)
    state = net.input
    for matrix in (shared, shared, other, shared):
        state = net.op(top.Tanh(), net.op(top.Add(), net.op(top.MatMul(), state, matrix, net.none), net.input))
    module = net.finish(state)
    for name in (shared.name, other.name):
        module.weights[name] = module.weights[name] / 16
    session = Session(chip=chip, quantize=mode)
    final, data, *_ = session.build(module)
    size = final.attributes["module.coeff_size"]
    assert isinstance(size, IntegerAttr)
    assert 2 * MATRIX_BYTES <= size.value < 3 * MATRIX_BYTES
    x = {"v0": np.random.default_rng(0).uniform(-1, 1, (1, 192)).astype(np.float32)}
    (got,), (wanted,) = session.chip.load(data).run(x).values(), Interpreter(module).run(x).values()
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, atol=0.02)  # bf16: four steps of 2 ** -8
