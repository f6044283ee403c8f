"""`fold-constants` computes what depends on weights only."""

from __future__ import annotations

import numpy as np
from tpuc_ops import top
from tpuc_optimize.fold_constants import FoldConstants

from tests.passes.graphs import CONTEXT, Network, assert_equal, ops, run

PASS = FoldConstants()


def test_chains_of_constants_become_one() -> None:
    net = Network(1, 3, 4, 4)
    scaled = net.op(top.MulConst(const_val=2.0), net.op(top.Permute(order=(3, 2, 0, 1)), net.weight(3, 3, 3, 2)))
    module = net.finish(net.op(top.Conv(kernel_shape=(3, 3)), net.input, scaled, net.none))
    before, folded = run(module), module.weights["w1"].transpose(3, 2, 0, 1) * np.float32(2)
    assert PASS.run(module, CONTEXT)
    assert_equal(module, before)
    assert ops(module) == ["Conv"]
    assert list(module.weights) == [scaled.name]
    np.testing.assert_array_equal(module.weights[scaled.name], folded)


def test_an_absent_operand_is_constant() -> None:
    net = Network(1, 2, 2, 2)
    folded = net.op(top.Conv(kernel_shape=(3, 3)), net.weight(1, 3, 4, 4), net.weight(2, 3, 3, 3), net.none)
    module = net.finish(net.op(top.Add(), net.input, folded))
    before = run(module)
    assert PASS.run(module, CONTEXT)
    assert_equal(module, before)
    assert ops(module) == ["Add"]


def test_nothing_to_do() -> None:
    net = Network(1, 3)
    module = net.finish(net.op(top.Add(), net.input, net.weight(1, 3)))
    assert not PASS.run(module, CONTEXT)


def test_what_the_network_returns_stays_computed() -> None:
    net = Network(1, 3)
    module = net.finish(
        net.op(top.MulConst(const_val=2.0), net.weight(1, 3)), net.op(top.MulConst(const_val=2.0), net.input)
    )
    assert not PASS.run(module, CONTEXT)
    assert ops(module) == ["MulConst", "MulConst"]
